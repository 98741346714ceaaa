"""A folder that holds a comparison: compare.md, compare.csv, compare.html; pareto and times, charts as .png, .svg and .csv."""

from collections.abc import Mapping
from pathlib import Path

from tenfold._version import __version__
from tenfold.errors import OutputError
from tenfold.folders import complete_folder, refuse_existing
from tenfold.plots import write_csv
from tenfold.reporting.comparing import Comparison
from tenfold.reporting.facts import COST, QUALITY
from tenfold.reporting.frontier import draw
from tenfold.reporting.html import Child, Html, bullets, join, tag
from tenfold.reporting.markdown import table, text
from tenfold.reporting.page import Section, assemble
from tenfold.reporting.sections.analysed import embedded
from tenfold.reporting.sections.making import commands
from tenfold.reporting.sections.rounds import curve_data, rounds
from tenfold.reporting.sections.tradeoff import chart_data, overview, tradeoff
from tenfold.reporting.teaching import curves
from tenfold.reporting.times import draw_times
from tenfold.reporting.writing import write_whole

NAME, CHART, TIMES = "compare", "pareto", "times"
TIMES_TITLE = "Each model on its fastest path; an original once for every run that was measured against it"


def write_comparison(
    comparison: Comparison, out: Path, cost: str | None = None, quality: str | None = None, force: bool = False
) -> list[Path]:
    """The files of OUT. No pareto where no model has a quality and none is asked for; no times where none was measured."""
    across, up = comparison.axis(COST, cost), comparison.axis(QUALITY, quality)
    refuse(out, force)
    with complete_folder(out, force=True) as partial:
        write_csv(partial / f"{NAME}.csv", comparison.rows()[1], comparison.rows()[0])
        chart = across is not None and up is not None
        if across is not None and up is not None:
            draw(comparison.points, across, up, partial / CHART)
        times = draw_times(comparison.runs, partial / TIMES)
        pictures = {"cost against quality": CHART} if chart else {}
        pictures |= {} if times is None else {"time against batch": TIMES}
        write_whole(partial / f"{NAME}.md", markdown(comparison, pictures))
        write_whole(partial / f"{NAME}.html", page(comparison, times and times[0]))
    return sorted(out.iterdir())


def refuse(out: Path, force: bool) -> None:
    """--force replaces a comparison, and nothing else."""
    if not (force and (out / f"{NAME}.csv").is_file()):
        if force and out.exists() and any(out.iterdir()):
            raise OutputError(f"--force replaces a comparison, got {out}, which holds no {NAME}.csv: choose another name")
        refuse_existing(out, force)


def markdown(comparison: Comparison, pictures: Mapping[str, str]) -> str:
    """`pictures`: names of files by what they show."""
    heads, rows = overview(comparison.points, comparison.runs)
    parts = [f"# {text(title(comparison))}", table([text(head) for head in heads], rows, numbers=range(2, len(heads)))]
    parts += ["\n".join(f"- {text(note)}" for note in comparison.notes())] if comparison.notes() else []
    parts += [f"![{what}]({name}.png)" for what, name in pictures.items()]
    parts += [f"Exact numbers of all axes: {NAME}.csv. Written by tenfold {__version__}."]
    return "\n\n".join(parts) + "\n"


def page(comparison: Comparison, times: Path | None) -> str:
    runs, found, lines = comparison.runs, comparison.points, curves(comparison.runs)
    parts: list[Child] = [tradeoff(found, runs), bullets(comparison.notes(), class_="warn") if comparison.notes() else None]
    sections: list[Section] = [
        ("tradeoff", "Cost against quality", join(parts, "\n")),
        ("times", "Time against batch", None if times is None else embedded(times, TIMES_TITLE)),
        ("teaching", "Teaching", rounds(runs, lines, None)),
        ("making", "How they were made", _making(comparison)),
    ]
    lead = "Each run beside the model that it was made from."
    return assemble(title(comparison), lead, Html(""), sections, {**chart_data(found), **curve_data(lines)})


def title(comparison: Comparison) -> str:
    names = [run.name for run in comparison.runs]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) <= 4 else f"{len(names)} runs"


def _making(comparison: Comparison) -> Html:
    return join(
        (
            join([tag("h3", run.name), tag("pre", tag("code", "\n".join(commands(run)) or "no record"), tabindex=0)])
            for run in comparison.runs
        ),
        "\n",
    )
