"""report and compare: what is known of a run, or of several side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tenfold.cli.common import Json, Seed, app, out_console, print_json

SIDE_BY_SIDE = 5


@app.command()
def report(
    out: Annotated[Path, typer.Argument(help="A folder that a verb made: compress, distill, finetune, run ...")],
    with_: Annotated[list[Path] | None, typer.Option("--with", help="Another run for the charts; may be repeated.")] = None,
    base_model: Annotated[
        str | None, typer.Option(help="The original's name on the hub, for the card; default: as it was typed.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a README.md that tenfold did not write.")] = False,
    as_json: Json = False,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
) -> None:
    """Tell of a run: OUT/report.html, one page that loads nothing else, and the model card OUT/README.md.

    Example: tenfold report taught --with small
    """
    from tenfold.reporting.card import CARD, may_write, write_card
    from tenfold.reporting.collect import collect
    from tenfold.reporting.page import write_report
    from tenfold.reporting.story import missing

    page, run = write_report(out, with_ or ()), collect(out)
    card = write_card(out, force, base_model) if run.model and (force or may_write(out)) else None
    absent = missing(run)
    if as_json:
        told = [{"what": each.what, "command": each.command} for each in absent]
        print_json({"report": str(page), "card": card and str(card), "missing": told})
        return
    out_console.print(f"{page}: open it in a browser", markup=False)
    if card is not None:
        out_console.print(f"{card}: the model card", markup=False)
    elif run.model:
        out_console.print(f"{out / CARD} was left as it is: tenfold did not write it (--force replaces it)", markup=False)
    for each in absent:
        out_console.print(f"{each.what}: {each.command}", markup=False, highlight=False)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN1 RUN2 ...", help="Folders that verbs made.")],
    out: Annotated[
        Path | None, typer.Option(help="A folder to write compare.md, .csv, .html, pareto.png and times.png to.")
    ] = None,
    cost: Annotated[str | None, typer.Option(help="Across the chart: flops, disk ...; default: parameters.")] = None,
    quality: Annotated[str | None, typer.Option(help="Up the chart: score:rte:dev:accuracy ...; default: the first.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a comparison that exists.")] = False,
    as_json: Json = False,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
) -> None:
    """Put runs side by side: sizes, scores, agreement and speed, with the models that they were made from.

    Example: tenfold compare small taught --out comparison
    """
    from tenfold.errors import TenfoldError
    from tenfold.reporting.comparing import compare as compared
    from tenfold.reporting.comparison import write_comparison
    from tenfold.reporting.sections.tradeoff import overview

    if out is None and (cost or quality):
        raise TenfoldError("--cost and --quality choose the chart's axes, got no --out to draw it in: add --out FOLDER")
    comparison = compared(runs)
    files = write_comparison(comparison, out, cost, quality, force) if out is not None else []
    if as_json:
        print_json({**comparison.to_dict(), "files": [str(file) for file in files]})
        return
    _print_overview(*overview(comparison.points, comparison.runs))
    for note in comparison.notes():
        out_console.print(f"note: {note}", markup=False)
    for file in files:
        out_console.print(str(file), markup=False)


def _print_overview(heads: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    """Models side by side, so many as a terminal is wide; the others below."""
    for start in range(0, len(rows), SIDE_BY_SIDE):
        models = rows[start : start + SIDE_BY_SIDE]
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column(heads[0])
        for model in models:
            table.add_column(Text(model[0] or ""), justify="right", overflow="fold")
        for k, head in enumerate(heads[1:], 1):
            table.add_row(Text(head), *(Text(model[k] or "-") for model in models))
        out_console.print(table)
