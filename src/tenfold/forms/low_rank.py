"""II: every tile has factors of its own.

II-beta  W_g = A_g B_g                A (n, i, d), B (n, d, o)
II-alpha W_g = A_g diag(s_g) B_g      with unit columns and rows, s (n, d)

The paper writes U_i, V_i for A_g, B_g. It counts a full d x d middle for II-alpha although an SVD's is diagonal; ours is
diagonal, so II-alpha is II-beta plus n d numbers, and II-beta is what one normally wants.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from tenfold.algebra.low_rank import balance, normalise, truncate
from tenfold.algebra.moments import Moments, ridged
from tenfold.forms.base import Factors, Form, Product, Shape, check_rank


@dataclass(frozen=True)
class LowRank(Form):
    d: int
    diagonal: bool = False
    kind: ClassVar[str] = "low_rank"

    def check(self, n: int, i: int, o: int) -> None:
        check_rank("the rank of low_rank", self.d, min(i, o), f"the shorter side of its {i} x {o} tiles")

    def within(self, n: int, i: int, o: int) -> Form:
        return replace(self, d=min(self.d, i, o))

    def shapes(self, n: int, i: int, o: int) -> dict[str, Shape]:
        scale = {"s": (n, self.d)} if self.diagonal else {}
        return {"A": (n, i, self.d), **scale, "B": (n, self.d, o)}

    def products(self, factors: Factors) -> tuple[Product, ...]:
        scale = factors["s"].unbind(0) if self.diagonal else None
        return (Product(factors["A"].unbind(0), scale, factors["B"].unbind(0)),)

    def matrix(self, factors: Factors, g: int) -> Tensor:
        left = factors["A"][g] * factors["s"][g] if self.diagonal else factors["A"][g]
        return left @ factors["B"][g]

    def decompose(self, tiles: Sequence[Tensor], moments: Moments | None = None, rounds: int = 0) -> dict[str, Tensor]:
        """The truncated SVD, or its closed form under moments: exact either way, so `rounds` is of no use."""
        pairs = [self._pair(tiles[g], None if moments is None else moments[g]) for g in range(len(tiles))]
        return {name: torch.stack([pair[name] for pair in pairs]) for name in pairs[0]}

    def _pair(self, tile: Tensor, moment: Tensor | None) -> dict[str, Tensor]:
        a, b = truncate(tile, self.d, None if moment is None else ridged(moment))
        if not self.diagonal:
            a, b = balance(a, b)
            return {"A": a, "B": b}
        a, s, b = normalise(a, b)
        return {"A": a, "s": s, "B": b}

    def refit(self, factors: Factors, g: int, tile: Tensor, moment: Tensor) -> dict[str, Tensor]:
        return self._pair(tile, moment)

    def draw(self, n: int, i: int, o: int, std: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        a = torch.randn(n, i, self.d, generator=generator)
        b = torch.randn(n, self.d, o, generator=generator)
        scale = (std / self.d**0.5)[:, None]
        if self.diagonal:
            return {"A": a / i**0.5, "s": scale.expand(n, self.d) * (i * o) ** 0.5, "B": b / o**0.5}
        root = scale.sqrt()[:, :, None]
        return {"A": a * root, "B": b * root}

    def fold_macs(self, n: int, i: int, o: int) -> int:
        return 0
