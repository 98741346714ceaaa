"""The tiles of a group as analysis reads them: named, and a few rows at a time, so that no stack is ever held whole.

n tiles W_g (i, o) in the order of the paper: layer by layer, in each layer Q, K, V, O, In 1..4, Out 1..4.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from tenfold.algebra.moments import Moments
from tenfold.planning.plan import Group

SLAB = 2**23
"""How many numbers of a stack are held at a time."""


@dataclass(frozen=True)
class Label:
    """Which tile it is. `part` counts the tiles of one site from 1, row by row; 0 where the site is one tile."""

    path: str
    role: str
    layer: int
    part: int

    @property
    def block(self) -> str:
        """`ffn.in 2`: the same in every layer."""
        return f"{self.role} {self.part}" if self.part else self.role

    @property
    def name(self) -> str:
        return f"{self.layer} {self.block}"


def labels(group: Group) -> list[Label]:
    found = []
    for site, grid in group.grids():
        count = len(grid) * len(grid[0])
        found += [Label(site.path, site.role, site.layer, part + 1 if count > 1 else 0) for part in range(count)]
    return found


def by_role(names: Sequence[Label]) -> list[int]:
    """The order in which each block comes with its like of the other layers: all Q, then all K, ..."""
    first = {name.block: k for k, name in reversed(list(enumerate(names)))}
    return sorted(range(len(names)), key=lambda g: (first[names[g].block], names[g].layer))


class Stack(Sequence[Tensor], ABC):
    """n matrices of one shape, made when asked for."""

    def __init__(self, n: int, shape: tuple[int, int]) -> None:
        self.n, self.shape = n, shape

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, g: int) -> Tensor:  # type: ignore[override]
        if not 0 <= g < self.n:
            raise IndexError(g)
        return self.rows(g, 0, self.shape[0])

    @abstractmethod
    def rows(self, g: int, a: int, b: int) -> Tensor:
        """Rows a..b-1 of matrix g."""

    def slabs(self, cuts: Sequence[int] = ()) -> Iterator[tuple[int, int, Tensor]]:
        """(a, b, rows a..b-1 of all matrices (n, b - a, o)); no slab reaches over a cut."""
        i, o = self.shape
        step = max(1, SLAB // (self.n * o))
        edges = sorted({*range(0, i, step), *(cut for cut in cuts if 0 < cut < i), i})
        for a, b in pairwise(edges):
            yield a, b, torch.stack([self.rows(g, a, b) for g in range(self.n)])


class Plain(Stack):
    """Matrices as they are."""

    def __init__(self, tiles: Sequence[Tensor]) -> None:
        super().__init__(len(tiles), (tiles[0].shape[0], tiles[0].shape[1]))
        self.tiles = tiles

    def rows(self, g: int, a: int, b: int) -> Tensor:
        return self.tiles[g][a:b]


class Outputs(Stack):
    """S_g^(1/2) W_g: an energy of it is an energy of what the tile gives on real text. The root is the symmetric one."""

    def __init__(self, tiles: Stack, moments: Moments) -> None:
        super().__init__(tiles.n, tiles.shape)
        self.tiles, self.moments = tiles, moments
        self.root = cache(self._root)

    def _root(self, s: int) -> Tensor:
        moment = self.moments.matrices[s]
        values, vectors = torch.linalg.eigh(moment.double())
        return ((vectors * values.clamp_min(0).sqrt()) @ vectors.T).to(moment.dtype)

    def rows(self, g: int, a: int, b: int) -> Tensor:
        tile = self.tiles[g]
        return self.root(self.moments.of[g])[a:b].to(tile.dtype) @ tile


class Sides(Stack):
    """W W' (or W' W) without its mean level: which directions a tile reads (or writes) more than others.

    Equal up to a rotation of the other side, two tiles have a cosine of 1; two random ones have 0.
    """

    def __init__(self, tiles: Stack, output: bool) -> None:
        side = tiles.shape[output]
        super().__init__(tiles.n, (side, side))
        self.tiles, self.output = tiles, output

    def rows(self, g: int, a: int, b: int) -> Tensor:
        w = self.tiles[g].T if self.output else self.tiles[g]
        rows = w[a:b] @ w.T
        rows[:, a:b] -= w.square().sum() / len(w) * torch.eye(b - a, dtype=w.dtype, device=w.device)
        return rows


class Remainder(Stack):
    """W_g - A_g B_g."""

    def __init__(self, tiles: Stack, a: Sequence[Tensor], b: Sequence[Tensor]) -> None:
        super().__init__(tiles.n, tiles.shape)
        self.tiles, self.a, self.b = tiles, a, b

    def rows(self, g: int, a: int, b: int) -> Tensor:
        return self.tiles.rows(g, a, b) - self.a[g][a:b] @ self.b[g]


class Rotated(Stack):
    """U' W_g V' for orthonormal U (i, p), V (q, o): every core of HOSVD of lower ranks is a corner of it."""

    def __init__(self, tiles: Stack, u: Tensor, v: Tensor) -> None:
        super().__init__(tiles.n, (u.shape[1], v.shape[0]))
        self.tiles, self.u, self.v = tiles, u, v

    def rows(self, g: int, a: int, b: int) -> Tensor:
        return self.u[:, a:b].T @ self.tiles[g] @ self.v.T


def inner(stack: Stack) -> Tensor:
    """(n, n), float64: <W_g, W_h>, the Gram matrix of the stack's first mode."""
    total = torch.zeros(stack.n, stack.n, dtype=torch.float64)
    for _, _, slab in stack.slabs():
        flat = slab.flatten(1)
        total += (flat @ flat.T).double().cpu()
    return total


def cosines(gram: Tensor) -> Tensor:
    """Of vectors with these inner products; a vector of zeros is at right angles to all."""
    norms = gram.diagonal().clamp_min(0).sqrt()
    outer = torch.outer(norms, norms)
    return torch.where(outer > 0, gram / outer.clamp_min(torch.finfo(outer.dtype).tiny), 0.0).clamp(-1, 1)
