"""The sum of a shared form and a private one: what all tiles have in common, and what each keeps for itself.

W_g = shared_g + private_g        factors carry the prefixes "shared_" and "private_"
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from tenfold.algebra.moments import Moments
from tenfold.forms.base import Factors, Form, Product, Shape
from tenfold.forms.low_rank import LowRank

T = TypeVar("T")


class _Remainder(Sequence[Tensor]):
    """Tiles minus what a form already explains, one at a time."""

    def __init__(self, tiles: Sequence[Tensor], form: Form, factors: Factors) -> None:
        self.tiles, self.form, self.factors = tiles, form, factors

    def __len__(self) -> int:
        return len(self.tiles)

    def __getitem__(self, g: int) -> Tensor:  # type: ignore[override]
        return self.tiles[g] - self.form.matrix(self.factors, g)


@dataclass(frozen=True)
class Mixed(Form):
    shared: Form
    private: LowRank
    kind: ClassVar[str] = "mixed"

    def check(self, n: int, i: int, o: int) -> None:
        self.shared.check(n, i, o)
        self.private.check(n, i, o)

    def within(self, n: int, i: int, o: int) -> Form:
        private = self.private.within(n, i, o)
        assert isinstance(private, LowRank)
        return Mixed(self.shared.within(n, i, o), private)

    def shapes(self, n: int, i: int, o: int) -> dict[str, Shape]:
        return _join(self.shared.shapes(n, i, o), self.private.shapes(n, i, o))

    def products(self, factors: Factors) -> tuple[Product, ...]:
        shared, private = _part(factors, "shared_"), _part(factors, "private_")
        return self.shared.products(shared) + self.private.products(private)

    def matrix(self, factors: Factors, g: int) -> Tensor:
        shared, private = _part(factors, "shared_"), _part(factors, "private_")
        return self.shared.matrix(shared, g) + self.private.matrix(private, g)

    def decompose(self, tiles: Sequence[Tensor], moments: Moments | None = None, rounds: int = 0) -> dict[str, Tensor]:
        """Each part fitted to what the other leaves, in turns; the private part starts because it loses less alone."""
        private = self.private.decompose(tiles, moments)
        shared = self.shared.decompose(_Remainder(tiles, self.private, private), moments, rounds)
        for _ in range(max(rounds, 1)):
            private = self.private.decompose(_Remainder(tiles, self.shared, shared), moments)
            shared = self.shared.decompose(_Remainder(tiles, self.private, private), moments, 1)
        return _join(shared, private)

    def refit(self, factors: Factors, g: int, tile: Tensor, moment: Tensor) -> dict[str, Tensor]:
        rest = tile - self.shared.matrix(_part(factors, "shared_"), g)
        return _join({}, self.private.refit(_part(factors, "private_"), g, rest, moment))

    def draw(self, n: int, i: int, o: int, std: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        half = std / 2**0.5
        return _join(self.shared.draw(n, i, o, half, generator), self.private.draw(n, i, o, half, generator))

    def fold_macs(self, n: int, i: int, o: int) -> int:
        return self.shared.fold_macs(n, i, o) + self.private.fold_macs(n, i, o)


def _join(shared: dict[str, T], private: dict[str, T]) -> dict[str, T]:
    return {f"shared_{k}": v for k, v in shared.items()} | {f"private_{k}": v for k, v in private.items()}


def _part(factors: Factors, prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in factors.items() if k.startswith(prefix)}
