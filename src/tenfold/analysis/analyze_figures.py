"""The figures of analyze. Every csv holds the numbers that are drawn, and no others."""

from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean

from tenfold.analysis.heatmaps import around, heatmap, table
from tenfold.analysis.learnt import Learnt
from tenfold.analysis.record import Figure
from tenfold.plots import SEQUENTIAL, figure, look, save, style

VECTORS = {"P": "factor vectors P", "cores": "cores", "matrices": "reconstructed matrices"}
TABLES = {
    "error": ("Energy of each block's weights that is lost", "share lost", True),
    "entropy_rank": ("Effective rank of the reconstructed matrices", "entropy rank", False),
    "raw_entropy_rank": ("Effective rank of the original's matrices", "entropy rank", False),
    "private": ("Share of the private part in each block's energy", "private share", True),
    "moved": ("How far each block's matrix moved from its start", "|change| / |start|", True),
}
"""Field of a tile -> title, what the colour means, whether it is shown in percent."""


def draw(found: Sequence[Learnt], folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    with style():
        for each in found:
            suffix = f"-{each.group.name}" if len(found) > 1 else ""
            figures += _group(each, folder, suffix)
    return figures


def _group(each: Learnt, folder: Path, suffix: str) -> Iterator[Figure]:
    name = each.group.name
    if each.group.n > 1:
        yield distances(each, folder / f"distances{suffix}")
        yield in_layers(each, folder / f"distances-in-layers{suffix}")
    yield norms(each, folder / f"norms{suffix}")
    if each.usage is not None:
        yield usage(each, folder / f"usage{suffix}")
    layers = sorted({label.layer for label in each.labels})
    blocks = list(dict.fromkeys(label.block for label in each.labels))
    for field, (title, what, percent) in TABLES.items():
        if field in each.tiles[0]:
            values = {(label.block, label.layer): tile[field] for label, tile in zip(each.labels, each.tiles, strict=True)}
            path = folder / f"{field.replace('_', '-')}{suffix}"
            yield table(path, title, name, blocks, layers, values, what, percent)


def distances(each: Learnt, path: Path) -> Figure:
    """Layer by layer, in each layer the paper's order of blocks. White: at right angles."""
    title = f"Cosine distances between {VECTORS[each.vectors]}, layer by layer"
    names = [label.name for label in each.labels]
    heatmap(path, title, each.distances, names, [f"layer {label.layer}" for label in each.labels], "1 - cosine", centre=1)
    return Figure(path.name, title, each.group.name)


def in_layers(each: Learnt, path: Path) -> Figure:
    """The blocks on the diagonal of the first heatmap, of four layers: of 12 the 1st, 4th, 8th and 12th, as in the paper."""
    layers = sorted({label.layer for label in each.labels})
    shown = [layers[max(round(k * len(layers) / 3) - 1, 0)] for k in range(4)] if len(layers) > 4 else layers
    colours = around(each.distances, 1)
    chart, panels = figure(1, len(shown), size=(3.6 * len(shown) + 1.6, 4.4), squeeze=False)
    rows = []
    for axes, layer in zip(panels[0], shown, strict=True):
        members = [g for g, label in enumerate(each.labels) if label.layer == layer]
        blocks = [each.labels[g].block for g in members]
        values = each.distances[members][:, members]
        picture = axes.imshow(values.numpy(), interpolation="nearest", **colours)
        axes.grid(False)
        axes.set_title(f"layer {layer}")
        axes.tick_params(labelsize=9)
        axes.set_xticks(range(len(blocks)), blocks, rotation=90)
        axes.set_yticks(range(len(blocks)), blocks if axes is panels[0][0] else [""] * len(blocks))
        rows += [
            (layer, a, b, value)
            for a, row in zip(blocks, values.tolist(), strict=True)
            for b, value in zip(blocks, row, strict=True)
        ]
    chart.colorbar(picture, ax=panels[0].tolist(), label="1 - cosine")
    title = f"Cosine distances between {VECTORS[each.vectors]} within a layer"
    chart.suptitle(title)
    save(chart, path, rows, ("layer", "block", "other block", "distance"))
    return Figure(path.name, title, each.group.name)


def norms(each: Learnt, path: Path) -> Figure:
    """By role over the layers; a role's parts as their root mean square."""
    kinds = {"norm": "reconstructed"} | ({"raw_norm": "original"} if "raw_norm" in each.tiles[0] else {})
    roles = list(dict.fromkeys(label.role for label in each.labels))
    chart, panels = figure(1, len(kinds), size=(5.4 * len(kinds) + 1.8, 4.4), sharey=True, squeeze=False)
    rows = []
    for axes, (field, kind) in zip(panels[0], sorted(kinds.items(), reverse=True), strict=True):
        for index, role in enumerate(roles):
            layers = sorted({label.layer for label in each.labels if label.role == role})
            line = [
                sqrt(fmean(t[field] ** 2 for t in each.tiles if (t["role"], t["layer"]) == (role, layer))) for layer in layers
            ]
            axes.plot(layers, line, **look(index), label=role)
            rows += [(kind, role, layer, value) for layer, value in zip(layers, line, strict=True)]
        axes.set(title=kind, xlabel="layer", ylim=(0, None))
        axes.xaxis.get_major_locator().set_params(integer=True)
    panels[0][0].set_ylabel("Frobenius norm of a tile")
    panels[0][-1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
    title = "Norms of the matrices"
    chart.suptitle(title)
    save(chart, path, rows, ("matrices", "role", "layer", "norm"))
    return Figure(path.name, title, each.group.name)


def usage(each: Learnt, path: Path) -> Figure:
    """Which matrices of the bank roles and layers use, the most used one first."""
    bank = each.bank()
    assert bank is not None
    order = bank["order"]
    chart, panels = figure(2, 1, size=(9, 6.4), sharex=True, height_ratios=(len(bank["roles"]), len(bank["layers"])))
    top = max(value for kind in ("roles", "layers") for row in bank[kind].values() for value in row)
    rows = []
    for axes, kind in zip(panels, ("roles", "layers"), strict=True):
        values = [[row[k] for k in order] for row in bank[kind].values()]
        picture = axes.imshow(values, cmap=SEQUENTIAL, aspect="auto", interpolation="nearest", vmin=0, vmax=top)
        axes.grid(False)
        axes.set_yticks(range(len(values)), [name if kind == "roles" else f"layer {name}" for name in bank[kind]])
        rows += [
            (kind.removesuffix("s"), name, k, share)
            for name, row in zip(bank[kind], values, strict=True)
            for k, share in zip(order, row, strict=True)
        ]
    panels[-1].set_xlabel(f"matrix of the bank, the most used first (of {len(order)})")
    chart.colorbar(picture, ax=list(panels), label="share of a tile's energy")
    title = f"Usage of the bank: as if {bank['used']:.0f} of {len(order)} were used evenly"
    chart.suptitle(title)
    save(chart, path, rows, ("by", "name", "bank matrix", "share"))
    return Figure(path.name, title, each.group.name)
