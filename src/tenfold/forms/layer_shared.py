"""ALBERT: one full matrix for each role, used by every layer.

W_g = C_(g mod r)        C (r, i, o), tiles ordered layer by layer, r tiles a layer
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tenfold.algebra.linear import solve_positive
from tenfold.algebra.moments import Moments, ridged
from tenfold.errors import PlanError
from tenfold.forms.base import Factors, Form, Product, Shape


@dataclass(frozen=True)
class LayerShared(Form):
    r: int
    n: int
    kind: ClassVar[str] = "layer_shared"

    def check(self, n: int, i: int, o: int) -> None:
        if n % self.r or n != self.n:
            raise PlanError(
                f"layer_shared needs the same number of tiles in every layer, got {n} tiles at {self.r} a layer: "
                "choose sites that every layer has"
            )

    def within(self, n: int, i: int, o: int) -> Form:
        return self

    def shapes(self, n: int, i: int, o: int) -> dict[str, Shape]:
        return {"C": (self.r, i, o)}

    def products(self, factors: Factors) -> tuple[Product, ...]:
        return (Product(None, factors["C"].unbind(0) * (self.n // self.r), None),)

    def matrix(self, factors: Factors, g: int) -> Tensor:
        return factors["C"][g % self.r]

    def decompose(self, tiles: Sequence[Tensor], moments: Moments | None = None, rounds: int = 0) -> dict[str, Tensor]:
        """The mean over layers, or the least squares solution (sum S)^-1 sum S W: exact, so `rounds` is of no use."""
        out = []
        for role in range(self.r):
            indices = range(role, len(tiles), self.r)
            if moments is None:
                out.append(torch.stack([tiles[g] for g in indices]).mean(0))
                continue
            weights = [ridged(moments[g]) for g in indices]
            target = torch.stack([s @ tiles[g] for s, g in zip(weights, indices, strict=True)]).sum(0)
            out.append(solve_positive(torch.stack(weights).sum(0), target))
        return {"C": torch.stack(out)}

    def refit(self, factors: Factors, g: int, tile: Tensor, moment: Tensor) -> dict[str, Tensor]:
        return {}

    def draw(self, n: int, i: int, o: int, std: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        scale = std.view(-1, self.r).square().mean(0).sqrt()
        return {"C": torch.randn(self.r, i, o, generator=generator) * scale[:, None, None]}

    def fold_macs(self, n: int, i: int, o: int) -> int:
        return 0
