"""Time against batch, as in the paper's figure of inference times: a line for each model and path, a panel for each length."""

from collections.abc import Iterable, Sequence
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

Line = tuple[Role, str]


def figure_path(file: Path) -> Path:
    """What a user names FILE.png, without its suffix: there will be a picture, a drawing and a table of that name."""
    if file.suffix not in SUFFIXES:
        raise TenfoldError(f"--figure must be a name that ends in .png (.svg and .csv come along), got {file}: write FILE.png")
    return file.with_suffix("")


def draw_measurement(measurement: Measurement, path: Path) -> tuple[Path, Path, Path]:
    """PATH.png, PATH.svg and PATH.csv."""
    panels = dict.fromkeys((cell.dtype, cell.label) for cell in measurement.cells)
    across = min(len(panels), ACROSS)
    down = ceil(len(panels) / across)
    path.parent.mkdir(parents=True, exist_ok=True)
    with style():
        chart, grid = figure(down, across, size=(2.4 + 3.6 * across, 1.4 + 3.4 * down), squeeze=False, sharex=True)
        lines: dict[str, Any] = {}
        for place, (dtype, label) in zip(grid.flat, panels, strict=False):
            lines |= _panel(place, [cell for cell in measurement.cells if (cell.dtype, cell.label) == (dtype, label)])
            place.set(title=_title(dtype, label), xlabel="batch")
        for row in grid:
            row[0].set(ylabel="milliseconds a batch")
        for place in list(grid.flat)[len(panels) :]:
            place.remove()
        chart.legend(lines.values(), lines.keys(), loc="outside upper center", ncols=min(len(lines), 4))
        return save(chart, path, _rows(measurement.cells), COLUMNS)


def _panel(axes: Any, cells: Sequence[Cell]) -> dict[str, Any]:
    """Its lines by their labels."""
    drawn = {}
    for role, path in _lines(cells):
        timed = [(cell.batch, timing) for cell in cells if (timing := cell.timing(role, path)) and timing.state == TIMED]
        points = sorted((batch, 1e3 * (timing.median or 0)) for batch, timing in timed)
        (line,) = axes.plot(*zip(*points, strict=True), **_look(role, path))
        drawn[f"{role}, {path}"] = line
    batches = sorted({cell.batch for cell in cells})
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


def _lines(cells: Iterable[Cell]) -> list[Line]:
    """Those with at least one time, the original's first."""
    found = {(timing.model, timing.path) for cell in cells for timing in cell.timings if timing.state == TIMED}
    roles: tuple[Role, ...] = (ORIGINAL, COMPRESSED)
    return [(role, path) for role in roles for path in PATHS if (role, path) in found]


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
