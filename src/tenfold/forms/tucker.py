"""IV: the cores themselves are mixtures of the matrices of a small bank.

W_g = U (sum_k P_gk C_k) V        U (i, p), P (n, l), C (l, p, q), V (q, o)

Names as in the paper, whose l is the layer rank and whose code calls P factor_layer. III is the case l = n, P = I;
ALBERT is U = V = I, C one matrix a role, P repeating the identity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tenfold.algebra import weighted
from tenfold.algebra.moments import Moments, ridged
from tenfold.algebra.tucker import bank, tucker
from tenfold.forms.base import Factors, Form, Product, Shape, check_rank
from tenfold.forms.tensor_train import TensorTrain, draw_sides, ridged_all


@dataclass(frozen=True)
class Tucker(Form):
    l: int  # noqa: E741 - the paper's name
    p: int
    q: int
    kind: ClassVar[str] = "tucker"

    def check(self, n: int, i: int, o: int) -> None:
        check_rank("the bank of tucker", self.l, n, f"the {n} tiles of its group")
        TensorTrain(self.p, self.q).check(n, i, o)

    def within(self, n: int, i: int, o: int) -> Form:
        return Tucker(min(self.l, n), min(self.p, i), min(self.q, o))

    def shapes(self, n: int, i: int, o: int) -> dict[str, Shape]:
        return {"U": (i, self.p), "P": (n, self.l), "C": (self.l, self.p, self.q), "V": (self.q, o)}

    def products(self, factors: Factors) -> tuple[Product, ...]:
        core = (factors["P"] @ factors["C"].flatten(1)).unflatten(1, (self.p, self.q))
        return (Product(factors["U"], core.unbind(0), factors["V"]),)

    def matrix(self, factors: Factors, g: int) -> Tensor:
        return factors["U"] @ torch.einsum("k,kpq->pq", factors["P"][g], factors["C"]) @ factors["V"]

    def decompose(self, tiles: Sequence[Tensor], moments: Moments | None = None, rounds: int = 0) -> dict[str, Tensor]:
        if moments is None:
            u, v, core = tucker(tiles, self.p, self.q, self.l, rounds)
            mix, c = bank(core, self.l)
        else:
            u, v, mix, c = weighted.fit_bank(tiles, ridged_all(moments), self.p, self.q, self.l, rounds)
        return {"U": u, "P": mix, "C": c, "V": v}

    def refit(self, factors: Factors, g: int, tile: Tensor, moment: Tensor) -> dict[str, Tensor]:
        """P_g by least squares on the output; V need not be orthonormal (a trained one is not)."""
        u, v = factors["U"], factors["V"]
        s = ridged(moment)
        _, triangle = torch.linalg.qr(v.T)
        orthonormal = torch.linalg.solve_triangular(triangle.T, v, upper=False)
        target = u.T @ s @ tile @ orthonormal.T
        return {"P": weighted.solve_mix([u.T @ s @ u], [target], [0], factors["C"] @ triangle.T)[0]}

    def draw(self, n: int, i: int, o: int, std: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        u, v = draw_sides(i, o, self.p, self.q, generator)
        c = torch.randn(self.l, self.p, self.q, generator=generator) * (i * o / (self.p * self.q)) ** 0.5
        mix = torch.nn.functional.normalize(torch.randn(n, self.l, generator=generator), dim=1)
        scale = std.mean().clamp_min(torch.finfo(std.dtype).tiny)
        return {"U": u, "P": mix * (std / scale)[:, None], "C": c * scale, "V": v}

    def fold_macs(self, n: int, i: int, o: int) -> int:
        return n * self.l * self.p * self.q


def merge(factors: Factors) -> dict[str, Tensor]:
    """A tucker's factors as a tensor train's with the same matrices: core = P C. What the paper calls III after training."""
    return {
        "U": factors["U"],
        "core": torch.einsum("gk,kpq->gpq", factors["P"], factors["C"]),
        "V": factors["V"],
    }
