"""report.html: one file that tells of a run, or of several, and asks for nothing from anywhere."""

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from math import isfinite
from pathlib import Path
from string import Template
from typing import Any

from tenfold._version import __version__
from tenfold.records import REPORT
from tenfold.reporting.collect import Run, collect_all
from tenfold.reporting.html import Child, Html, escape, join, tag
from tenfold.reporting.points import Point, points
from tenfold.reporting.sections.analysed import analysed, looked
from tenfold.reporting.sections.fits import fits
from tenfold.reporting.sections.making import making
from tenfold.reporting.sections.plan import plan
from tenfold.reporting.sections.rounds import curve_data, rounds
from tenfold.reporting.sections.scores import agreement, scores
from tenfold.reporting.sections.speed import speed
from tenfold.reporting.sections.sweep import sweep
from tenfold.reporting.sections.tradeoff import chart_data, tradeoff
from tenfold.reporting.story import headlines, lead, missing
from tenfold.reporting.teaching import Curve, curves
from tenfold.reporting.writing import write_whole

SCRIPTS = ("chart.js", "pareto.js", "curves.js", "theme.js")

Section = tuple[str, str, Child]
"""Its id, its title, and what is in it; one with nothing in it is left out."""


def write_report(folder: Path, others: Sequence[Path] = ()) -> Path:
    """FOLDER/report.html; the chart and the curves hold the other runs too."""
    run, *more = collect_all([folder, *others])
    return write_whole(folder / REPORT, report(run, more))


def report(run: Run, others: Sequence[Run] = ()) -> str:
    runs = [run, *others]
    found, lines = points(runs), curves(runs)
    data = {**chart_data(found), **curve_data(lines)}
    return assemble(run.name, lead(run), tiles(run), _sections(run, runs, found, lines), data)


def _sections(run: Run, runs: Sequence[Run], found: Sequence[Point], lines: Sequence[Curve]) -> list[Section]:
    """A folder without a model has nothing of a model's that could be missing."""
    commands = {each.what: each.command for each in missing(run)}
    scored = scores(run.scores, commands.get("No scores on a task")) if run.scores or run.model else None
    timed = speed(run.measurement, commands.get("No measured speed")) if run.measurement or run.model else None
    taught = rounds(runs, lines, commands.get("Not taught since it was compressed")) if run.model or lines else None
    return [
        ("tradeoff", "Cost against quality", tradeoff(found, runs)),
        ("sweep", "Models side by side", sweep(run.results)),
        ("scores", "Scores", scored),
        ("agreement", "Agreement with the original", agreement(run.agreement) if run.agreement else None),
        ("speed", "Speed", timed),
        ("teaching", "Teaching", taught),
        ("fits", "What each matrix lost", fits(run)),
        ("plan", "Plan", plan(run)),
        ("look", "What could be compressed", looked(run)),
        ("analysis", "What the factors learnt", analysed(run, commands.get("No analysis of its factors"))),
        ("making", "How it was made", making(run)),
    ]


def tiles(run: Run) -> Html:
    shown = [
        tag("div", tag("dt", each.name), tag("dd", each.value, tag("small", each.against) if each.against else None))
        for each in headlines(run)
    ]
    return tag("dl", *shown, class_="tiles") if shown else Html("")


def assemble(title: str, lead: str, tiles: Html, sections: Sequence[Section], data: dict[str, Any]) -> str:
    """The page. Its script reads `data`; nothing in it can end the element that holds it."""
    held = [(key, name, inside) for key, name, inside in sections if inside is not None]
    links = join((tag("li", tag("a", name, href=f"#{key}")) for key, name, _ in held), "\n")
    parts = [
        tag("section", tag("h2", name, id=f"{key}-title"), inside, id=key, aria_labelledby=f"{key}-title")
        for key, name, inside in held
    ]
    return Template(web("page.html")).substitute(
        generator=escape(f"tenfold {__version__}"),
        title=escape(title),
        lead=escape(lead),
        tiles=tiles,
        links=links,
        sections=join(parts, "\n"),
        footer=escape(f"Written by tenfold {__version__}. This page is one file and loads nothing else."),
        data=embedded(data),
        style=web("page.css"),
        script="\n".join(map(web, SCRIPTS)),
    )


def embedded(data: Any) -> str:
    """JSON for a script element: no `<`, and null for what is not finite."""
    return json.dumps(_finite(data), allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


@cache
def web(name: str) -> str:
    return resources.files("tenfold.reporting").joinpath("web", name).read_text(encoding="utf-8")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not isfinite(data) else data
