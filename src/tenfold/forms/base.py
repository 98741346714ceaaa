"""What a form is: how a group of n same-shaped tiles is written, as pure functions over tensors.

Letters: g tile, i input side of a tile, o output side, p rank on the input side, q rank on the output side,
k matrix of a bank, b everything in front of the last axis of x.

Tiles are in the layout of `y = x W`: W_g is (i, o). A `Linear` stores the transpose.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tenfold.algebra.moments import Moments
from tenfold.errors import PlanError

Shape = tuple[int, ...]
Factors = Mapping[str, Tensor]
Grid = Sequence[Sequence[int]]
"""The tiles of one site: grid[r][c] is the index in the group of the tile at block row r, block column c."""


@dataclass(frozen=True)
class Product:
    """W_g = left_g core_g right_g. A shared side is one tensor, a private one a tuple with one tensor a tile.

    None stands for the identity; a core with one axis is a diagonal.
    """

    left: Tensor | tuple[Tensor, ...] | None
    core: tuple[Tensor, ...] | None
    right: Tensor | tuple[Tensor, ...] | None


class Form(ABC):
    """One way to write a group. Instances are frozen dataclasses that hold the ranks and nothing else."""

    kind: ClassVar[str]

    @abstractmethod
    def check(self, n: int, i: int, o: int) -> None:
        """Raise PlanError where the ranks do not fit n tiles of (i, o)."""

    @abstractmethod
    def within(self, n: int, i: int, o: int) -> "Form":
        """The same form with each number lowered to the largest that fits."""

    @abstractmethod
    def shapes(self, n: int, i: int, o: int) -> dict[str, Shape]:
        """Every factor by name; all counting of parameters starts here."""

    @abstractmethod
    def products(self, factors: Factors) -> tuple[Product, ...]:
        """The sum of products that the cheap path multiplies with. Computed once a forward pass, for all tiles."""

    @abstractmethod
    def matrix(self, factors: Factors, g: int) -> Tensor:
        """W_g (i, o), straight from the definition."""

    @abstractmethod
    def decompose(self, tiles: Sequence[Tensor], moments: Moments | None = None, rounds: int = 0) -> dict[str, Tensor]:
        """Factors close to the tiles: in weight space, or in output space where input moments are given.

        `rounds` is the number of alternating improvements after the first guess (HOOI in weight space).
        """

    @abstractmethod
    def refit(self, factors: Factors, g: int, tile: Tensor, moment: Tensor) -> dict[str, Tensor]:
        """What belongs to tile g alone, fitted again to a new input moment; the shared factors stay.

        Returns slices: {name: the new factors[name][g]}. Empty where a tile owns nothing.
        """

    @abstractmethod
    def draw(self, n: int, i: int, o: int, std: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Random factors whose W_g has standard deviation std[g]."""

    @abstractmethod
    def fold_macs(self, n: int, i: int, o: int) -> int:
        """Multiply-adds of `products`: what a forward pass pays once, whatever its number of tokens."""


def parameters(form: Form, n: int, i: int, o: int) -> int:
    return sum(torch.Size(shape).numel() for shape in form.shapes(n, i, o).values())


def apply(products: Sequence[Product], grid: Grid, x: Tensor) -> Tensor:
    """x (b, rows * i) -> (b, columns * o) through the tiles of one site, never building a matrix.

    A shared left is multiplied once a block row; block rows are added in the small space before a shared right.
    """
    parts = x.split(x.shape[-1] // len(grid), dim=-1)
    total = None
    for product in products:
        y = torch.cat(_columns(product, grid, parts), dim=-1)
        total = y if total is None else total + y
    assert total is not None
    return total


def _columns(product: Product, grid: Grid, parts: Sequence[Tensor]) -> list[Tensor]:
    left, core, right = product.left, product.core, product.right
    if isinstance(left, Tensor):
        parts = [part @ left for part in parts]
    out = []
    for column in range(len(grid[0])):
        total = None
        for row, part in zip(grid, parts, strict=True):
            g = row[column]
            h = part @ left[g] if isinstance(left, tuple) else part
            if core is not None:
                h = h * core[g] if core[g].ndim == 1 else h @ core[g]
            if isinstance(right, tuple):
                h = h @ right[g]
            total = h if total is None else total + h
        assert total is not None
        out.append(total @ right if isinstance(right, Tensor) else total)
    return out


def macs(form: Form, n: int, i: int, o: int, rows: int, columns: int) -> int:
    """Multiply-adds a token of `apply` on a site of rows x columns tiles, counted from the factors that it multiplies.

    A matrix product of (a, b) counts a * b; diagonals and additions count nothing, as in torch's FLOP counter.
    """
    meta = {name: torch.empty(shape, device="meta") for name, shape in form.shapes(n, i, o).items()}
    total = 0
    for product in form.products(meta):
        if isinstance(product.left, Tensor):
            total += rows * product.left.numel()
        elif product.left is not None:
            total += rows * columns * product.left[0].numel()
        if product.core is not None and product.core[0].ndim == 2:
            total += rows * columns * product.core[0].numel()
        if isinstance(product.right, Tensor):
            total += columns * product.right.numel()
        elif product.right is not None:
            total += rows * columns * product.right[0].numel()
    return total


def check_rank(name: str, rank: int, limit: int, what: str) -> None:
    if not 1 <= rank <= limit:
        raise PlanError(f"{name} must lie between 1 and {limit} ({what}), got {rank}: choose a rank in that range")
