"""Two kinds of heatmap: n x n over tiles, and blocks by layers with the numbers written in."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from torch import Tensor

from tenfold.analysis.record import Figure
from tenfold.plots import DIVERGING, GREY, SEQUENTIAL, figure, save

WRITTEN = 16
"""Columns up to which the numbers of a table fit into its cells."""


def heatmap(
    path: Path, title: str, values: Tensor, names: Sequence[str], runs: Sequence[str], what: str, centre: float
) -> None:
    """`runs` names each row's stretch: equal neighbours get one label between two lines. `centre` is white."""
    chart, axes = figure(size=(8.4, 7))
    picture = axes.imshow(values.numpy(), interpolation="nearest", **around(values, centre))
    axes.grid(False)
    edges, start = [], 0
    for run, members in groupby(runs):
        length = len(list(members))
        edges.append((start, length, run))
        start += length
    middles = [start + length / 2 - 0.5 for start, length, _ in edges]
    labels = [run for _, _, run in edges]
    every = max(1, len(labels) // 30)
    axes.set_xticks(middles[::every], labels[::every], rotation=90)
    axes.set_yticks(middles[::every], labels[::every])
    if len(edges) < len(runs):
        for start, _, _ in edges[1:]:
            axes.axhline(start - 0.5, color=GREY, linewidth=0.6)
            axes.axvline(start - 0.5, color=GREY, linewidth=0.6)
    axes.set_title(title)
    chart.colorbar(picture, ax=axes, label=what, shrink=0.85, extend="min" if centre else "max")
    rows = [(name, *row) for name, row in zip(names, values.tolist(), strict=True)]
    save(chart, path, rows, ("tile", *names))


def around(values: Tensor, centre: float) -> dict[str, Any]:
    """Colours as far to either side as values off the diagonal go: what a tile has with itself would hide the differences."""
    off = values.flatten()[:-1].unflatten(0, (len(values) - 1, len(values) + 1))[:, 1:]
    reach = float((off - centre).abs().max()) or 1.0
    return {"vmin": centre - reach, "vmax": centre + reach, "cmap": DIVERGING}


def table(
    path: Path,
    title: str,
    group: str | None,
    blocks: Sequence[str],
    layers: Sequence[int],
    values: Mapping[tuple[str, int], float],
    what: str,
    percent: bool = False,
) -> Figure:
    """values[block, layer]; a block that a layer lacks stays white."""
    import numpy as np
    from matplotlib.ticker import PercentFormatter

    grid = np.array([[values.get((block, layer), np.nan) for layer in layers] for block in blocks])
    chart, axes = figure(size=(2.6 + 0.62 * max(len(layers), 6), 1.6 + 0.42 * max(len(blocks), 4)))
    picture = axes.imshow(grid, cmap=SEQUENTIAL, aspect="auto")
    axes.grid(False)
    axes.set_xticks(range(len(layers)), [str(layer) for layer in layers])
    axes.set_yticks(range(len(blocks)), blocks)
    axes.set(title=title, xlabel="layer")
    if len(layers) <= WRITTEN:
        _write(axes, grid, picture, percent)
    chart.colorbar(picture, ax=axes, label=what, format=PercentFormatter(1, decimals=0) if percent else None)
    rows = [(block, layer, values[block, layer]) for block in blocks for layer in layers if (block, layer) in values]
    save(chart, path, rows, ("block", "layer", what))
    return Figure(path.name, title, group)


def _write(axes: Any, grid: Any, picture: Any, percent: bool) -> None:
    import numpy as np

    for (row, column), value in np.ndenumerate(grid):
        if np.isfinite(value):
            dark = picture.norm(value) < 0.55
            text = f"{100 * value:.0f}" if percent else f"{value:.3g}"
            axes.text(column, row, text, ha="center", va="center", fontsize=10, color="white" if dark else "black")
