"""Time against batch, as in the paper's figure of inference times: a line for each model and path, a panel for each length."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

from tenfold.errors import TenfoldError
from tenfold.measurement.paths import PATHS
from tenfold.measurement.record import COMPRESSED, ORIGINAL, TIMED, Cell, Measurement, Role, Timing
from tenfold.plots import figure, look, save, style

COLUMNS = ("model", "path", "dtype", "length", "batch", "median_ms", "p95_ms", "calls")
SUFFIXES = ("", ".png", ".svg", ".csv")
ACROSS = 3
"""Panels side by side."""


@dataclass(frozen=True)
class Line:
    """One model on one path: milliseconds by batch, in the panel of a precision and a length."""

    panel: tuple[str, str]
    name: str
    look: Mapping[str, Any]
    points: Sequence[tuple[int, float]]


def figure_path(file: Path) -> Path:
    """What a user names FILE.png, without its suffix: there will be a picture, a drawing and a table of that name."""
    if file.suffix not in SUFFIXES:
        raise TenfoldError(f"--figure must be a name that ends in .png (.svg and .csv come along), got {file}: write FILE.png")
    return file.with_suffix("")


def draw_measurement(measurement: Measurement, path: Path) -> tuple[Path, Path, Path]:
    """PATH.png, PATH.svg and PATH.csv."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with style():
        return save(chart_of(_lines(measurement.cells)), path, _rows(measurement.cells), COLUMNS)


def chart_of(lines: Sequence[Line]) -> Any:
    """A panel for each precision and length, one legend of all names. Call it inside `style()`."""
    panels = list(dict.fromkeys(line.panel for line in lines))
    across = min(len(panels), ACROSS)
    down = ceil(len(panels) / across)
    chart, grid = figure(down, across, size=(2.4 + 3.6 * across, 1.4 + 3.4 * down), squeeze=False, sharex=True)
    drawn: dict[str, Any] = {}
    for axes, panel in zip(grid.flat, panels, strict=False):
        drawn |= _panel(axes, [line for line in lines if line.panel == panel])
        axes.set(title=_title(*panel), xlabel="batch")
    for row in grid:
        row[0].set(ylabel="milliseconds a batch")
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    chart.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=min(len(drawn), across + 1))
    return chart


def panel_of(cell: Cell) -> tuple[str, str]:
    return cell.dtype, cell.label


def _panel(axes: Any, lines: Sequence[Line]) -> dict[str, Any]:
    """Its lines by their names."""
    drawn = {}
    for line in lines:
        (drawn[line.name],) = axes.plot(*zip(*sorted(line.points), strict=True), **line.look)
    batches = sorted({batch for line in lines for batch, _ in line.points})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(batches, labels=[str(batch) for batch in batches])
    axes.minorticks_off()
    _plain_ticks(axes)
    return drawn


def _plain_ticks(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _lines(cells: Sequence[Cell]) -> list[Line]:
    """Those with at least one time, the original's first."""
    found: dict[tuple[tuple[str, str], Role, str], list[tuple[int, float]]] = {}
    roles: tuple[Role, ...] = (ORIGINAL, COMPRESSED)
    for role, path, cell in product(roles, PATHS, cells):
        timing = cell.timing(role, path)
        if timing is not None and timing.state == TIMED and timing.median is not None:
            found.setdefault((panel_of(cell), role, path), []).append((cell.batch, 1e3 * timing.median))
    order = dict.fromkeys(panel_of(cell) for cell in cells)
    lines = [Line(panel, f"{role}, {path}", _look(role, path), points) for (panel, role, path), points in found.items()]
    return sorted(lines, key=lambda line: list(order).index(line.panel))


def _look(role: Role, path: str) -> dict[str, Any]:
    """A colour and a marker a path; the original is dashed with hollow markers."""
    found = look(list(PATHS).index(path))
    return found | ({"linestyle": "--", "markerfacecolor": "white"} if role == ORIGINAL else {"linestyle": "-"})


def _title(dtype: str, label: str) -> str:
    return f"length {label}, {dtype}" if label.isdigit() else f"{label}, {dtype}"


def _rows(cells: Iterable[Cell]) -> list[tuple[Any, ...]]:
    return [
        (t.model, t.path, cell.dtype, cell.label, cell.batch, *_milliseconds(t))
        for cell in cells
        for t in cell.timings
        if t.calls
    ]


def _milliseconds(timing: Timing) -> tuple[float, float, int]:
    assert timing.median is not None and timing.p95 is not None
    return 1e3 * timing.median, 1e3 * timing.p95, timing.calls
