"""Folding: what a few sites that read the same x multiply with, worked out once from their factors.

Letters as in forms/base.py, with R block rows and C block columns of tiles a site, S sites that read the same x:

    y_s = sum over terms of  z W,    z = columns of x L,    L shared by the sites where their factors are

The core of a product goes into the side where it is cheaper. A shared U (i, p) with the core inside V, for Q, K, V and the
In tiles: x U once, then W = [core_1 V | core_2 V ...] (p, C o). A shared V (q, o) with the core inside U, for Out tiles:
x [U core_1; U core_2; ...] (R i, q), then V once. BERT's layer takes 16 D d multiply-adds a token so, a tuple of private
sides is concatenated over the sites. The same functions make constants (for serving) and traced tensors (for ONNX).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tenfold.forms import Grid, Product


@dataclass(frozen=True)
class Step:
    """One matrix product. A weight (a, b) serves each of `blocks` pieces of x; a weight (k, a, b) has one matrix a piece."""

    weight: Tensor
    blocks: int = 1

    @property
    def plain(self) -> bool:
        return self.weight.ndim == 2 and self.blocks == 1

    @property
    def macs(self) -> int:
        return self.weight.numel() * self.blocks

    def __call__(self, x: Tensor) -> Tensor:
        if self.plain:
            return x @ self.weight
        if self.weight.ndim == 2:
            return (x.unflatten(-1, (self.blocks, -1)) @ self.weight).flatten(-2)
        return torch.einsum("...ka,kab->...kb", x.unflatten(-1, (self.weight.shape[0], -1)), self.weight).flatten(-2)


@dataclass(frozen=True)
class Part:
    """Columns start:stop of left product number `left`; None: of x itself."""

    left: int | None
    start: int = 0
    stop: int | None = None

    def of(self, x: Tensor, lefts: Sequence[Tensor]) -> Tensor:
        z = x if self.left is None else lefts[self.left]
        return z if self.stop is None else z[..., self.start : self.stop]


@dataclass(frozen=True)
class Term:
    """One summand of a site's output. `swap` (R, C): the part holds R x C pieces that the step wants as C x R."""

    parts: tuple[Part, ...]
    step: Step | None
    swap: tuple[int, int] | None = None

    def input(self, x: Tensor, lefts: Sequence[Tensor]) -> Tensor:
        found = [part.of(x, lefts) for part in self.parts]
        z = found[0] if len(found) == 1 else torch.cat(found, dim=-1)
        return z if self.swap is None else z.unflatten(-1, (*self.swap, -1)).transpose(-3, -2).flatten(-3)


@dataclass(frozen=True)
class Folded:
    """The left products that the sites share, and each site's terms."""

    lefts: tuple[Step, ...]
    sites: tuple[tuple[Term, ...], ...]

    @property
    def macs(self) -> int:
        """Multiply-adds a token, for all sites together."""
        return sum(step.macs for step in self.steps())

    @property
    def products(self) -> int:
        """Matrix products, for all sites together."""
        return len(self.steps())

    @property
    def depth(self) -> int:
        """Products that wait for each other, on the longest way through."""
        return bool(self.lefts) + max(sum(term.step is not None for term in site) for site in self.sites)

    def steps(self) -> list[Step]:
        return [*self.lefts, *(term.step for site in self.sites for term in site if term.step is not None)]

    def with_weights(self, weights: Iterable[Tensor]) -> "Folded":
        """The same with other tensors, in the order of `steps`."""
        given = iter(weights)
        lefts = tuple(replace(step, weight=next(given)) for step in self.lefts)
        sites = tuple(
            tuple(term if term.step is None else replace(term, step=replace(term.step, weight=next(given))) for term in site)
            for site in self.sites
        )
        return Folded(lefts, sites)


def add_terms(terms: Sequence[Term], x: Tensor, lefts: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    """A site's output. The bias, and what is there already, ride along in the product where the library can add."""
    y = bias
    for term in terms:
        z = term.input(x, lefts)
        if term.step is not None and term.step.plain and y is not None and z.ndim > 1:
            rows = y if y.ndim == 1 else y.flatten(0, -2)
            y = torch.addmm(rows, z.flatten(0, -2), term.step.weight).unflatten(0, z.shape[:-1])
        else:
            part = z if term.step is None else term.step(z)
            y = part if y is None else part + y.to(part.dtype)
    assert y is not None
    return y


def fold(products: Sequence[Product], grids: Sequence[Grid]) -> Folded:
    """The sites of `grids`, which read the same x, through left and right constants: each product on its cheaper side."""
    lefts: list[Step] = []
    sites: list[list[Term]] = [[] for _ in grids]
    for product in products:
        ways = [_into_right(product, grids), *([] if isinstance(product.right, tuple) else [_into_left(product, grids)])]
        best = min(ways, key=lambda way: (way.macs, way.products))
        offset = len(lefts)
        lefts += best.lefts
        for own, terms in zip(sites, best.sites, strict=True):
            own += [_shifted(term, offset) for term in terms]
    return Folded(*_join_lefts(lefts, [_join_terms(terms) for terms in sites]))


def dense(products: Sequence[Product], grids: Sequence[Grid]) -> Folded:
    """Every site's own matrix, multiplied out."""
    return whole([torch.cat([torch.cat([sum_tile(products, g) for g in row], dim=1) for row in grid]) for grid in grids])


def whole(matrices: Iterable[Tensor]) -> Folded:
    """Sites that are a matrix each."""
    return Folded((), tuple((Term((Part(None),), Step(matrix)),) for matrix in matrices))


def beside(several: Sequence[Folded]) -> Folded:
    """The sites of several, which all read the same x, as one; plain left products become one product."""
    lefts: list[Step] = []
    sites: list[list[Term]] = []
    for folded in several:
        sites += [[_shifted(term, len(lefts)) for term in terms] for terms in folded.sites]
        lefts += folded.lefts
    return Folded(*_join_lefts(lefts, sites))


def joined(folded: Folded) -> Folded:
    """All sites as one, whose output is theirs side by side, where they multiply the same; otherwise as it was."""
    terms = [site[0] for site in folded.sites]
    alike = all(len(site) == 1 for site in folded.sites) and all(term.parts == terms[0].parts for term in terms)
    steps = [term.step for term in terms if term.step is not None and term.step.plain and term.swap is None]
    if not alike or len(steps) < len(terms):
        return folded
    weight = torch.cat([step.weight for step in steps], dim=1)
    return Folded(folded.lefts, ((Term(terms[0].parts, Step(weight)),),))


def sum_tile(products: Sequence[Product], g: int) -> Tensor:
    """W_g from its products."""
    total = None
    for product in products:
        found = times(times(side_of(product.left, g), core_of(product, g)), side_of(product.right, g))
        assert found is not None
        total = found if total is None else total + found
    assert total is not None
    return total


def _into_right(product: Product, grids: Sequence[Grid]) -> Folded:
    lefts: list[Step] = []
    sites = []
    shared = isinstance(product.left, Tensor) or product.left is None
    if isinstance(product.left, Tensor):
        lefts.append(Step(product.left, len(grids[0])))
    for grid in grids:
        rows, columns = len(grid), len(grid[0])
        tiles = [[times(core_of(product, g), side_of(product.right, g)) for g in row] for row in grid]
        if not shared:
            assert isinstance(product.left, tuple)
            wide = [torch.cat([product.left[g] for g in row], dim=1) for row in grid]
            lefts.append(Step(wide[0]) if rows == 1 else Step(torch.stack(wide)))
        part = Part(None) if product.left is None else Part(len(lefts) - 1)
        if shared:
            step = _step(_block(tiles))
            sites.append((Term((part,), step),))
        else:
            stacked = [_stack([tiles[r][c] for r in range(rows)]) for c in range(columns)]
            step = _step(stacked[0]) if columns == 1 else _step(_stack_columns(stacked))
            sites.append((Term((part,), step, (rows, columns) if min(rows, columns) > 1 else None),))
    return Folded(tuple(lefts), tuple(sites))


def _into_left(product: Product, grids: Sequence[Grid]) -> Folded:
    lefts: list[Step] = []
    sites = []
    for grid in grids:
        matrix = _block([[times(side_of(product.left, g), core_of(product, g)) for g in row] for row in grid])
        if matrix is not None:
            lefts.append(Step(matrix))
        part = Part(None) if matrix is None else Part(len(lefts) - 1)
        right = None if product.right is None else Step(product.right, len(grid[0]))  # type: ignore[arg-type]
        sites.append((Term((part,), right),))
    return Folded(tuple(lefts), tuple(sites))


def side_of(side: Tensor | tuple[Tensor, ...] | None, g: int) -> Tensor | None:
    return side[g] if isinstance(side, tuple) else side


def core_of(product: Product, g: int) -> Tensor | None:
    return None if product.core is None else product.core[g]


def times(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """A product in which None is the identity and a vector a diagonal."""
    if a is None or b is None:
        return b if a is None else a
    if a.ndim == 1:
        return a * b if b.ndim == 1 else a[:, None] * b
    return a * b if b.ndim == 1 else a @ b


def _block(tiles: Sequence[Sequence[Tensor | None]]) -> Tensor | None:
    """One matrix of blocks; a single vector is a diagonal, identities stay None."""
    if len(tiles) == len(tiles[0]) == 1:
        only = tiles[0][0]
        return torch.diag(only) if only is not None and only.ndim == 1 else only
    found = [[tile for tile in row if tile is not None] for row in tiles]
    assert all(len(row) == len(tiles[0]) for row in found), "blocks of identities cannot be tiles of a form"
    return torch.cat([torch.cat(row, dim=1) for row in found])


def _stack(tiles: Sequence[Tensor | None]) -> Tensor | None:
    return _block([[tile] for tile in tiles])


def _stack_columns(columns: Sequence[Tensor | None]) -> Tensor | None:
    found = [column for column in columns if column is not None]
    return torch.stack(found) if found else None


def _step(matrix: Tensor | None) -> Step | None:
    return None if matrix is None else Step(matrix)


def _shifted(term: Term, offset: int) -> Term:
    parts = tuple(part if part.left is None else Part(part.left + offset, part.start, part.stop) for part in term.parts)
    return Term(parts, term.step, term.swap)


def _join_lefts(
    lefts: Sequence[Step], sites: Sequence[Sequence[Term]]
) -> tuple[tuple[Step, ...], tuple[tuple[Term, ...], ...]]:
    """Plain left matrices as one, side by side: they read the same x."""
    plain = [index for index, step in enumerate(lefts) if step.plain]
    if len(plain) < 2:
        return tuple(lefts), tuple(map(tuple, sites))
    joined = Step(torch.cat([lefts[index].weight for index in plain], dim=1))
    others = [index for index in range(len(lefts)) if index not in plain]
    places, start = {index: Part(number + 1) for number, index in enumerate(others)}, 0
    for index in plain:
        width = lefts[index].weight.shape[1]
        places[index] = Part(0, start, start + width)
        start += width
    moved = [tuple(_placed(term, places) for term in terms) for terms in sites]
    return (joined, *(lefts[index] for index in others)), tuple(moved)


def _placed(term: Term, places: dict[int, Part]) -> Term:
    parts = [part if part.left is None else places[part.left] for part in term.parts]
    merged: list[Part] = []
    for part in parts:
        if merged and part.left == merged[-1].left and part.left is not None and part.start == merged[-1].stop:
            merged[-1] = Part(part.left, merged[-1].start, part.stop)
        else:
            merged.append(part)
    return Term(tuple(merged), term.step, term.swap)


def _join_terms(terms: Sequence[Term]) -> list[Term]:
    """Terms that end in plain matrices as one: their inputs side by side, their matrices stacked."""
    plain = [term for term in terms if term.step is not None and term.step.plain and term.swap is None]
    if len(plain) < 2:
        return list(terms)
    weight = torch.cat([term.step.weight for term in plain if term.step is not None])
    joined = Term(tuple(part for term in plain for part in term.parts), Step(weight))
    return [joined, *(term for term in terms if term not in plain)]
