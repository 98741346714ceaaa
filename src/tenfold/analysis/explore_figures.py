"""The figures of explore. Every csv holds the numbers that are drawn, and no others."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenfold.analysis.heatmaps import heatmap, table
from tenfold.analysis.record import Figure
from tenfold.analysis.views import Curves, Pairs, Structure, Variance
from tenfold.planning import parse_ratio
from tenfold.plots import GREY, PALETTE, figure, look, save, style

if TYPE_CHECKING:
    from tenfold.analysis.exploring import Exploration, Look
    from tenfold.analysis.predicting import Prediction

WEIGHTS, OUTPUTS = "weights", "outputs"
WHAT = {WEIGHTS: "variance", OUTPUTS: "output energy on real text"}


def draw(found: "Exploration", folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    with style():
        for each in found.looks:
            alone = len(found.looks) == 1
            figures += _group(each, folder, "" if alone else f"-{each.group.name}")
        if found.predictions:
            figures.append(predicted(found.predictions, folder))
    return figures


def _group(each: "Look", folder: Path, suffix: str) -> Iterator[Figure]:
    group = each.group
    for view, variance, pairs in ((WEIGHTS, each.weights, each.weight_pairs), (OUTPUTS, each.outputs, each.output_pairs)):
        if variance is None:
            continue
        yield curves(variance, view, folder / f"variance-{view}{suffix}", group.name)
        yield halves(variance, view, folder / f"half-{view}{suffix}", group.name)
        if pairs:
            yield joined(pairs, variance, view, folder / f"pairs-{view}{suffix}", group.name)
    yield modes(each.structure, folder / f"modes{suffix}", group.name)
    if group.n > 1:
        yield orthogonality(each.structure, folder / f"orthogonality{suffix}", group.name)
        for kind in each.structure.cosines:
            yield similarity(each.structure, kind, folder / f"similarity-{kind}{suffix}", group.name)


def curves(variance: Variance, view: str, path: Path, group: str) -> Figure:
    """Each tile a thin line, each role's mean a thick one."""
    found, size = variance.curves, variance.curves.kept[-1]
    x = [k / size for k in found.kept]
    roles = list(dict.fromkeys(label.role for label in variance.labels))
    chart, axes = figure()
    for label, row in zip(variance.labels, found.captured, strict=True):
        axes.plot(x, row, color=look(roles.index(label.role))["color"], linewidth=0.5, alpha=0.35)
    rows = [
        ("tile", name, k, y)
        for name, row in zip(found.names, found.captured, strict=True)
        for k, y in zip(found.kept, row, strict=True)
    ]
    for index, role in enumerate(roles):
        mean = found.mean([g for g, label in enumerate(variance.labels) if label.role == role])
        axes.plot(x, mean, **look(index), markevery=(index % 8 + 2, 12), label=role)
        rows += [("mean of role", role, k, y) for k, y in zip(found.kept, mean, strict=True)]
    rows += [("random numbers", "", *row) for row in _chance(axes, found)]
    _half(axes)
    axes.legend(loc="lower right", ncols=2 if len(roles) > 4 else 1)
    title = f"{WHAT[view].capitalize()} held by a tile's first dimensions"
    _share(axes, title, f"dimensions kept / {size} ({len(variance.labels)} tiles)", f"{WHAT[view]} captured")
    save(chart, path, rows, ("line", "name", "kept", "captured"))
    return Figure(path.name, title, group)


def halves(variance: Variance, view: str, path: Path, group: str) -> Figure:
    """Block by layer: what half of the dimensions hold."""
    layers = sorted({label.layer for label in variance.labels})
    blocks = list(dict.fromkeys(label.block for label in variance.labels))
    values = {(label.block, label.layer): half for label, half in zip(variance.labels, variance.curves.half, strict=True)}
    title = f"{WHAT[view].capitalize()} held by half of the dimensions"
    return table(path, title, group, blocks, layers, values, f"{WHAT[view]} captured", percent=True)


def joined(pairs: dict[str, Pairs], variance: Variance, view: str, path: Path, group: str) -> Figure:
    """Both ways of joining two tiles beside single tiles."""
    chart, panels = figure(1, len(pairs), size=(11, 4.6), sharey=True)
    single = variance.curves
    rows: list[tuple[Any, ...]] = [
        ("mean of single tiles", "", "", k, y) for k, y in zip(single.kept, single.mean(), strict=True)
    ]
    for axes, (way, found) in zip(panels, pairs.items(), strict=True):
        size = found.curves.kept[-1]
        x = [k / size for k in found.curves.kept]
        for name, kind, row in zip(found.curves.names, found.relations, found.curves.captured, strict=True):
            axes.plot(x, row, color=GREY, linewidth=0.5, alpha=0.35)
            rows += [(way, name, kind, k, y) for k, y in zip(found.curves.kept, row, strict=True)]
        mean = found.curves.mean()
        rows += [(f"mean {way}", "", "", k, y) for k, y in zip(found.curves.kept, mean, strict=True)]
        axes.plot(x, mean, color=PALETTE[1], label=f"{len(found.pairs)} pairs, mean")
        axes.plot(
            [k / single.kept[-1] for k in single.kept],
            single.mean(),
            color=PALETTE[0],
            linestyle="--",
            label="single tiles, mean",
        )
        rows += [(f"random numbers {way}", "", "", *row) for row in _chance(axes, found.curves)]
        _half(axes)
        axes.legend(loc="lower right")
        _share(axes, f"joined {way}", f"dimensions kept / {size}", f"{WHAT[view]} captured" if axes is panels[0] else "")
    title = f"{WHAT[view].capitalize()} held when two tiles share their dimensions"
    chart.suptitle(title)
    save(chart, path, rows, ("line", "pair", "relation", "kept", "captured"))
    return Figure(path.name, title, group)


def modes(found: Structure, path: Path, group: str) -> Figure:
    chart, axes = figure()
    rows = []
    for index, (name, curve) in enumerate(found.spectra.items()):
        size, mean = curve.kept[-1], curve.mean()
        axes.plot([k / size for k in curve.kept], mean, **look(index), markevery=8, label=f"{name} (of {size})")
        rows += [(name, k, y) for k, y in zip(curve.kept, mean, strict=True)]
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.5, label="nothing shared")
    _half(axes)
    axes.legend(loc="lower right")
    title = "Energy of the stack along its three modes"
    _share(axes, title, "share of the mode's dimensions kept", "energy captured")
    save(chart, path, rows, ("mode", "kept", "captured"))
    return Figure(path.name, title, group)


def orthogonality(found: Structure, path: Path, group: str) -> Figure:
    """How many pairs of slices have which cosine, in steps of two standard deviations of random matrices' cosines."""
    import numpy as np

    matrix = found.cosines["slices"].numpy()
    values = matrix[np.triu_indices(len(matrix), k=1)]
    sigma = 1 / (found.shape[0] * found.shape[1]) ** 0.5
    reach = max(float(np.abs(values).max()), 4 * sigma)
    counts, edges = np.histogram(values, bins=60, range=(-reach, reach))
    chart, axes = figure()
    axes.stairs(counts, edges, fill=True, color=PALETTE[0], label="pairs of tiles")
    axes.axvspan(-2 * sigma, 2 * sigma, color=PALETTE[4], alpha=0.45, label="95% of random matrices")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.legend()
    title = "Cosines between the tiles: 0 is at right angles"
    axes.set(title=title, xlabel="cosine of two tiles", ylabel="pairs (logarithmic)")
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    save(chart, path, rows, ("from", "to", "pairs"))
    return Figure(path.name, title, group)


SIMILAR = {
    "slices": "Cosines of the tiles themselves",
    "inputs": "Do tiles read the same directions? (cosine of W W')",
    "outputs": "Do tiles write the same directions? (cosine of W' W)",
}


def similarity(found: Structure, kind: str, path: Path, group: str) -> Figure:
    names = [label.name for label in found.labels]
    blocks = [label.block for label in found.labels]
    heatmap(path, SIMILAR[kind], found.cosines[kind], names, blocks, "cosine", centre=0)
    return Figure(path.name, SIMILAR[kind], group)


def predicted(predictions: "Sequence[Prediction]", folder: Path) -> Figure:
    """One line a form over the sizes; the recommended one of each size is ringed."""
    panels = [("weight", "weights"), ("output", "outputs on real text")]
    panels = panels[: 1 + any(p.output_error is not None for p in predictions)]
    sizes = {float(parse_ratio(p.size)): p.size for p in predictions}
    chart, axes = figure(1, len(panels), size=(6.2 * len(panels) + 1, 4.8), squeeze=False)
    rows: list[tuple[Any, ...]] = []
    for panel, (field, name) in zip(axes[0], panels, strict=True):
        rows += [(name, *row) for row in _form_lines(panel, predictions, field)]
        panel.set(xscale="log", xlabel="parameters of the matrices kept", ylabel=f"energy of the {name} lost", ylim=(0, None))
        panel.set_xticks([], minor=True)
        panel.set_xticks(list(sizes), list(sizes.values()))
        panel.legend(loc="lower left", fontsize=10)
    title = "Error before any teaching, by form and size"
    chart.suptitle(title)
    save(chart, folder / "predicted", rows, ("error of", "form", "method", "size", "kept", "error", "recommended"))
    return Figure("predicted", title, None)


def _form_lines(axes: Any, predictions: "Sequence[Prediction]", field: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for index, kind in enumerate(dict.fromkeys(series(p) for p in predictions)):
        points = sorted((p.to_dict() for p in predictions if series(p) == kind), key=lambda row: row["kept"])
        label = f"{kind} (at most)" if any(row[f"{field}_bound"] for row in points) else kind
        x, y = ([row[key] for row in points] for key in ("kept", f"{field}_error"))
        axes.plot(x, y, **look(index), label=label)
        rows += [(kind, row["method"], row["size"], row["kept"], row[f"{field}_error"], row["recommended"]) for row in points]
    ringed = [(row[3], row[4]) for row in rows if row[5]]
    axes.plot(*zip(*ringed, strict=True), "o", markersize=13, fillstyle="none", color="black", label="recommended")
    return rows


def series(prediction: "Prediction") -> str:
    """The form without its ranks: `II whole`, `IV 1/2 n`."""
    method, tile = prediction.candidate.plan.method, prediction.candidate.tile
    shared = "+".join(part.split("-")[0] for part in method.split("+"))
    if shared == "II":
        return f"II {tile}"
    return f"IV, bank of {method.split('-')[-2]}" if shared == "IV" else shared.replace("+", " + ")


def _chance(axes: Any, found: Curves) -> list[tuple[int, float]]:
    """The curve of random numbers, where there is one: what is above it is structure."""
    if found.random is None:
        return []
    x = [k / found.kept[-1] for k in found.kept]
    axes.plot(x, found.random, color="black", linestyle=":", linewidth=1.6, label="random numbers")
    return list(zip(found.kept, found.random, strict=True))


def _half(axes: Any) -> None:
    axes.axvline(0.5, color=GREY, linewidth=1, linestyle=":")


def _share(axes: Any, title: str, x: str, y: str) -> None:
    axes.set(title=title, xlabel=x, ylabel=y, xlim=(0, 1), ylim=(0, 1.01))
