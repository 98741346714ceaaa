"""Cost against quality as a still picture: PNG, SVG and the CSV that it was drawn from."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.patheffects import withStroke
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
from matplotlib.transforms import Bbox

from tenfold.plots import DASHES, GREY, PALETTE, figure, save, style
from tenfold.reporting.collect import DENSE
from tenfold.reporting.facts import Axis
from tenfold.reporting.points import ORIGINAL_FORM, Point

MARKERS = {
    "low_rank": "s",
    "tensor_train": "^",
    "tucker": "D",
    "mixed": "o",
    "layer_shared": "P",
    DENSE: "v",
    ORIGINAL_FORM: "*",
}
"""As on the page; what has no mark of its own gets the dense model's."""
COLOURS = dict(zip(MARKERS, (*PALETTE[:4], PALETTE[7], PALETTE[6], PALETTE[6]), strict=True))
PLACES = ((8, -4, "left"), (-8, -4, "right"), (0, 9, "center"), (0, -17, "center"))
LONGEST = 30


def draw(points: Sequence[Point], cost: Axis, quality: Axis, path: Path) -> tuple[Path, Path, Path]:
    """PATH.png, PATH.svg, PATH.csv of the points that have both numbers."""
    known = [point for point in points if cost in point.values and quality in point.values]
    best = {point.name for point in front(known, cost, quality)}
    with style():
        chart, axes = figure()
        for form in dict.fromkeys(point.form for point in known):
            own = [point for point in known if point.form == form]
            axes.plot(
                [point.values[cost] for point in own],
                [point.values[quality] for point in own],
                linestyle="none",
                marker=MARKERS.get(form, MARKERS[DENSE]),
                markersize=9 if form != ORIGINAL_FORM else 13,
                color=COLOURS.get(form, COLOURS[DENSE]),
                label=form.replace("_", " "),
            )
        line = sorted((point.values[cost], point.values[quality]) for point in known if point.name in best)
        axes.plot(*zip(*line, strict=True), linestyle=DASHES[1], linewidth=1.2, color=GREY, zorder=1)
        if all(point.values[cost] > 0 for point in known):
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(EngFormatter(cost.unit if cost.unit != "ms" else ""))
        axes.set(xlabel=_title(cost), ylabel=_title(quality))
        axes.margins(0.12)
        axes.legend(loc="best")
        _name(chart, axes, known, cost, quality)
        rows = [(p.name, p.form, p.method, p.values[cost], p.values[quality], p.name in best) for p in known]
        return save(chart, path, rows, ("model", "form", "method", cost.key, quality.key, "on the front"))


def front(points: Iterable[Point], cost: Axis, quality: Axis) -> list[Point]:
    """Those that no other beats: none is as cheap and better, or cheaper and as good."""
    sign = -1 if quality.better == "lower" else 1
    found: list[Point] = []
    for point in sorted(points, key=lambda p: (p.values[cost], -sign * p.values[quality])):
        if not found or sign * point.values[quality] > sign * found[-1].values[quality]:
            found.append(point)
    return found


def _title(axis: Axis) -> str:
    unit = f", {axis.unit}" if axis.unit in ("ms", "%") else ""
    return f"{axis.label}{unit}\n({axis.better} is better)"


def _name(chart: Any, axes: Any, points: Sequence[Point], cost: Axis, quality: Axis) -> None:
    """Names beside the marks, where one of four places is free; the others are in the CSV."""
    chart.draw_without_rendering()
    spots = [axes.transData.transform((point.values[cost], point.values[quality])) for point in points]
    taken = [Bbox.from_extents(x - 7, y - 7, x + 7, y + 7) for x, y in spots]
    taken.append(axes.get_legend().get_window_extent())
    for point in points:
        name = point.name if len(point.name) <= LONGEST else f"{point.name[: LONGEST - 1]}…"
        for x, y, side in PLACES:
            at = (point.values[cost], point.values[quality])
            text = axes.annotate(name, at, (x, y), textcoords="offset points", ha=side, fontsize=10, parse_math=False)
            text.set_path_effects([withStroke(linewidth=3, foreground="white")])
            box = text.get_window_extent()
            if axes.bbox.containsx(box.x0) and axes.bbox.containsx(box.x1) and not box.count_overlaps(taken):
                taken.append(box)
                break
            text.remove()
