"""Sites as what the fused kernels read: x u, of which each reader takes columns, and c left right.

Every site must be of low rank. A left factor that several readers share is in u once. Readers whose factors are a sum of shared
and private ones all take all of u, with rows of zeros for what belongs to others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from tenfold.forms import Grid, Product
from tenfold.runtime.encoders import NoBlocks
from tenfold.runtime.fold import core_of, side_of, times
from tenfold.runtime.kernels import Reader


@dataclass(frozen=True, eq=False)
class Source:
    """A site: the products of its bank, its tiles, its bias."""

    products: Sequence[Product]
    grid: Grid
    bias: Tensor | None


def read_side(sources: Sequence[Source]) -> tuple[Tensor, list[Reader]]:
    """u and one reader a site."""
    columns: list[Tensor] = []
    known: dict[tuple[int, ...], slice] = {}
    found = [[piece for product in source.products for piece in _reading(product, source.grid)] for source in sources]
    places: list[list[slice]] = []
    for pieces in found:
        own = []
        for left, _, key in pieces:
            if key not in known:
                start = sum(column.shape[1] for column in columns)
                columns.append(left)
                known[key] = slice(start, start + left.shape[1])
            own.append(known[key])
        places.append(own)
    total = sum(column.shape[1] for column in columns)
    spans = [(min(place.start for place in own), max(place.stop for place in own)) for own in places]
    gaps = [sum(p.stop - p.start for p in own) < high - low for own, (low, high) in zip(places, spans, strict=True)]
    if not _apart(spans) or any(gaps):
        spans = [(0, total)] * len(sources)
    readers = []
    for source, pieces, own, (low, high) in zip(sources, found, places, spans, strict=True):
        weight = pieces[0][1].new_zeros(high - low, pieces[0][1].shape[1])
        for (_, right, _), place in zip(pieces, own, strict=True):
            weight[place.start - low : place.stop - low] += right
        readers.append(Reader(weight, source.bias, low))
    return torch.cat(columns, dim=1), readers


def write_side(source: Source) -> tuple[Tensor, Tensor]:
    """left and right."""
    pieces = [piece for product in source.products for piece in _writing(product, source.grid)]
    return torch.cat([left for left, _ in pieces], dim=1), torch.cat([right for _, right in pieces])


def _reading(product: Product, grid: Grid) -> list[tuple[Tensor, Tensor, tuple[int, ...]]]:
    """Pairs of a left and a right, and a name that equal lefts share."""
    rows = len(grid)
    if isinstance(product.left, Tensor):
        right = torch.cat([torch.cat([_full(_right(product, g)) for g in row], dim=1) for row in grid])
        return [(torch.block_diag(*[product.left] * rows), right, (id(product.left),))]
    return [(left, right, (id(product), g)) for g, left, right in _tiles(product, grid)]


def _writing(product: Product, grid: Grid) -> list[tuple[Tensor, Tensor]]:
    columns = len(grid[0])
    if isinstance(product.right, Tensor):
        left = torch.cat([torch.cat([_full(_left(product, g)) for g in row], dim=1) for row in grid])
        return [(left, torch.block_diag(*[product.right] * columns))]
    return [(left, right) for _, left, right in _tiles(product, grid)]


def _tiles(product: Product, grid: Grid) -> list[tuple[int, Tensor, Tensor]]:
    """Every tile by itself, at its place among zeros."""
    rows, columns = len(grid), len(grid[0])
    found = []
    for r, row in enumerate(grid):
        for c, g in enumerate(row):
            left, right = _full(side_of(product.left, g)), _full(_right(product, g))
            i, o = left.shape[0], right.shape[1]
            left = F.pad(left, (0, 0, r * i, (rows - 1 - r) * i))
            found.append((g, left, F.pad(right, (c * o, (columns - 1 - c) * o))))
    return found


def _left(product: Product, g: int) -> Tensor | None:
    return times(side_of(product.left, g), core_of(product, g))


def _right(product: Product, g: int) -> Tensor | None:
    return times(core_of(product, g), side_of(product.right, g))


def _full(side: Tensor | None) -> Tensor:
    if side is None:
        raise NoBlocks("its matrices are whole, not of low rank")
    return torch.diag(side) if side.ndim == 1 else side


def _apart(spans: Sequence[tuple[int, int]]) -> bool:
    """Whether ranges are equal or do not touch."""
    different = sorted(set(spans))
    return all(a[1] <= b[0] for a, b in pairwise(different))
