"""III: all tiles share both outer factors and keep a core each.

W_g = U core_g V        U (i, p), core (n, p, q), V (q, o)

The paper's Sigma_i is core_g, its d is p = q. As a tensor train the stack is U x core x V with TT ranks p and q.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tenfold.algebra import weighted
from tenfold.algebra.moments import Moments, ridged
from tenfold.algebra.tucker import tucker
from tenfold.forms.base import Factors, Form, Product, Shape, check_rank


@dataclass(frozen=True)
class TensorTrain(Form):
    p: int
    q: int
    kind: ClassVar[str] = "tensor_train"

    def check(self, n: int, i: int, o: int) -> None:
        check_rank("the input rank of tensor_train", self.p, i, f"the input side of its {i} x {o} tiles")
        check_rank("the output rank of tensor_train", self.q, o, f"the output side of its {i} x {o} tiles")

    def within(self, n: int, i: int, o: int) -> Form:
        return TensorTrain(min(self.p, i), min(self.q, o))

    def shapes(self, n: int, i: int, o: int) -> dict[str, Shape]:
        return {"U": (i, self.p), "core": (n, self.p, self.q), "V": (self.q, o)}

    def products(self, factors: Factors) -> tuple[Product, ...]:
        return (Product(factors["U"], factors["core"].unbind(0), factors["V"]),)

    def matrix(self, factors: Factors, g: int) -> Tensor:
        return factors["U"] @ factors["core"][g] @ factors["V"]

    def decompose(self, tiles: Sequence[Tensor], moments: Moments | None = None, rounds: int = 0) -> dict[str, Tensor]:
        if moments is None:
            u, v, core = tucker(tiles, self.p, self.q, None, rounds)
        else:
            u, v, core = weighted.fit(tiles, ridged_all(moments), self.p, self.q, rounds)
        return {"U": u, "core": core, "V": v}

    def refit(self, factors: Factors, g: int, tile: Tensor, moment: Tensor) -> dict[str, Tensor]:
        return {"core": weighted.solve_core(tile, ridged(moment), factors["U"], factors["V"])}

    def draw(self, n: int, i: int, o: int, std: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        u, v = draw_sides(i, o, self.p, self.q, generator)
        core = torch.randn(n, self.p, self.q, generator=generator)
        return {"U": u, "core": core * (std * (i * o / (self.p * self.q)) ** 0.5)[:, None, None], "V": v}

    def fold_macs(self, n: int, i: int, o: int) -> int:
        return 0


def draw_sides(i: int, o: int, p: int, q: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """U and V with columns and rows of about unit length."""
    return torch.randn(i, p, generator=generator) / i**0.5, torch.randn(q, o, generator=generator) / o**0.5


def ridged_all(moments: Moments) -> Moments:
    return Moments([ridged(s) for s in moments.matrices], moments.of)
