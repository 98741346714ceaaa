"""The rounds of teaching: a chart of what was measured meanwhile, and a table of what each took."""

from collections.abc import Sequence
from typing import Any

from tenfold.reporting import units
from tenfold.reporting.collect import Run
from tenfold.reporting.html import Child, Html, absent, bullets, join, table, tag
from tenfold.reporting.records import Done
from tenfold.reporting.teaching import SCORES, VERBS, Curve, measures, round_name


def rounds(runs: Sequence[Run], curves: Sequence[Curve], command: str | None) -> Html:
    entries = [(run, entry) for run in runs for entry in run.entries(*VERBS)]
    if not entries:
        return absent("Not taught", command)
    parts: list[Child] = []
    if curves:
        caption = "Measured on rows that are not learnt from."
        parts.append(tag("figure", tag("figcaption", caption), id="curves", class_="chart"))
    heads = ("round", "teacher", "tokens", "steps", "time", "first", "last", "scores")
    named = len(runs) > 1
    rows = [_row(f"{run.name}: {round_name(entry)}" if named else round_name(entry), entry) for run, entry in entries]
    parts.append(table(heads, rows, caption="First and last are the loss on held-out rows", numbers=range(2, 7)))
    if notes := list(dict.fromkeys(note for _, entry in entries for note in entry.notes)):
        parts.append(bullets(notes))
    return join(parts, "\n")


def curve_data(curves: Sequence[Curve]) -> dict[str, Any]:
    """What curves.js draws."""
    named = [{"key": name, "label": name, "better": "higher" if name in SCORES else "lower"} for name in measures(curves)]
    return {"curves": [{"name": curve.name, "rows": list(curve.rows)} for curve in curves], "measures": named}


def _row(name: str, entry: Done) -> tuple[Child, ...]:
    losses = [loss for row in entry.curve if (loss := row.get("loss")) is not None]
    first, last = (f"{losses[k]:.4f}" if losses else None for k in (0, -1))
    return (
        name,
        entry.teacher,
        None if entry.tokens is None else units.prefixed(entry.tokens),
        None if entry.steps is None else f"{entry.steps:,}",
        units.duration(entry.seconds) if entry.seconds else None,
        first,
        last,
        "; ".join(_scores(split, values) for split, values in (entry.scores or {}).items()),
    )


def _scores(split: str, values: dict[str, float]) -> str:
    return f"{split}: " + ", ".join(f"{name} {value:.1f}" for name, value in values.items())
