"""Time against batch of every measured run, each on its own fastest path: the paper's figure of inference times."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tenfold.measurement.figure import Line, chart_of, panel_of
from tenfold.measurement.record import COMPRESSED, ORIGINAL, TIMED, Cell, Role, Timing
from tenfold.plots import look, save, style
from tenfold.reporting.collect import Run
from tenfold.reporting.points import original_name

COLUMNS = ("run", "model", "dtype", "length", "batch", "path", "median_ms")
OLD: dict[str, Any] = {"color": "black", "marker": "*", "linestyle": "--", "linewidth": 1.4, "markerfacecolor": "white"}
"""Originals: one line for each time that they were measured, so that one sees how far two measurements compare."""


def draw_times(runs: Sequence[Run], path: Path) -> tuple[Path, Path, Path] | None:
    """PATH.png, PATH.svg and PATH.csv; None where no run has a time."""
    rows, lines = [], []
    for index, run in enumerate(run for run in runs if run.measurement is not None):
        roles: tuple[tuple[Role, str, dict[str, Any]], ...]
        roles = ((ORIGINAL, original_name(run), OLD), (COMPRESSED, run.name, look(index)))
        for role, name, style_of in roles:
            found = [(cell, timing) for cell in _cells(run) if (timing := fastest(cell, role)) is not None]
            lines += _lines(name, style_of, found)
            rows += [
                (run.name, name, cell.dtype, cell.label, cell.batch, timing.path, 1e3 * (timing.median or 0))
                for cell, timing in found
            ]
    if not lines:
        return None
    with style():
        return save(chart_of(lines), path, rows, COLUMNS)


def fastest(cell: Cell, role: Role) -> Timing | None:
    timed = [each for each in cell.timings if (each.model, each.state) == (role, TIMED) and each.median]
    return min(timed, key=lambda each: each.median or 0, default=None)


def _cells(run: Run) -> Sequence[Cell]:
    return run.measurement.cells if run.measurement else ()


def _lines(name: str, style_of: dict[str, Any], found: Sequence[tuple[Cell, Timing]]) -> list[Line]:
    panels = dict.fromkeys(panel_of(cell) for cell, _ in found)
    return [
        Line(
            panel,
            name,
            style_of,
            [(cell.batch, 1e3 * (timing.median or 0)) for cell, timing in found if panel_of(cell) == panel],
        )
        for panel in panels
    ]
