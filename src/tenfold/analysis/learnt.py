"""What a bank's factors hold: how far tiles are apart in them, which bank matrices are used, norms, ranks, movement.

Nothing here knows a folder; `start` and `raw` are other banks and matrices to compare with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from tenfold.analysis.blocks import Label, Plain, cosines, inner
from tenfold.analysis.spectra import energies, entropy_rank, stable_rank
from tenfold.analysis.views import RELATIONS, facts, relation
from tenfold.forms import Form, Mixed, TensorTrain, Tucker
from tenfold.nn import FactorBank
from tenfold.planning import Group


@dataclass(frozen=True)
class Usage:
    """shares (n, l): which part of a tile's energy each bank matrix brings, were they at right angles; rows sum to 1."""

    shares: Tensor

    @property
    def order(self) -> list[int]:
        """Bank matrices, the most used first."""
        return self.shares.mean(0).argsort(descending=True).tolist()

    def of(self, rows: Sequence[int]) -> list[float]:
        found: list[float] = self.shares[list(rows)].mean(0).tolist()
        return found


@dataclass(frozen=True)
class Learnt:
    """Of one group, its tiles in the order of the paper. `distances` (n, n) are 1 - cosine of what `vectors` names."""

    group: Group
    labels: list[Label]
    vectors: str
    distances: Tensor
    tiles: list[dict[str, Any]]
    factors: dict[str, dict[str, Any]]
    usage: Usage | None

    def by_relation(self) -> dict[str, float]:
        return self._means(relation)

    def by_role(self) -> dict[str, float]:
        """How far a role's blocks are from the same block of other layers."""
        return self._means(lambda a, b: a.role if a.block == b.block else None)

    def by_part(self) -> dict[str, float] | None:
        """Within a layer, between the parts of different sites: In 1 and Out 1 against In 1 and Out 2."""

        def kind(a: Label, b: Label) -> str | None:
            if a.layer != b.layer or a.role == b.role or not (a.part and b.part):
                return None
            return "same part" if a.part == b.part else "other part"

        return self._means(kind) or None

    def _means(self, kind: Any) -> dict[str, float]:
        found: dict[str, list[float]] = {}
        values = self.distances.tolist()
        for a, b in combinations(range(len(self.labels)), 2):
            name = kind(self.labels[a], self.labels[b])
            if name is not None:
                found.setdefault(name, []).append(values[a][b])
        return {name: fmean(found[name]) for name in sorted(found, key=lambda n: RELATIONS.index(n) if n in RELATIONS else 0)}

    def bank(self) -> dict[str, Any] | None:
        if self.usage is None:
            return None
        shares = self.usage.shares
        roles = dict.fromkeys(label.role for label in self.labels)
        layers = sorted({label.layer for label in self.labels})
        return {
            "roles": {role: self.usage.of([g for g, x in enumerate(self.labels) if x.role == role]) for role in roles},
            "layers": {str(k): self.usage.of([g for g, x in enumerate(self.labels) if x.layer == k]) for k in layers},
            "order": self.usage.order,
            "used": effective_number(shares.mean(0)),
            "used_by_tile": [effective_number(row) for row in shares],
        }


def effective_number(shares: Tensor) -> float:
    """exp of the entropy: k equal shares give k."""
    return float(torch.special.entr(shares).sum().exp())


class _Matrices(Sequence[Tensor]):
    def __init__(self, bank: FactorBank) -> None:
        self.bank = bank

    def __len__(self) -> int:
        return self.bank.n

    def __getitem__(self, g: int) -> Tensor:  # type: ignore[override]
        matrix = self.bank.matrix(g)
        return matrix if matrix.dtype == torch.float64 else matrix.float()


@torch.no_grad()
def learnt(
    group: Group, names: list[Label], bank: FactorBank, raw: Sequence[Tensor] | None, start: FactorBank | None
) -> Learnt:
    matrices = _Matrices(bank)
    before = None if start is None else _Matrices(start)
    what, gram = _vectors(bank.form, bank.factors(), matrices)
    tiles = []
    for g, label in enumerate(names):
        tile = {**facts(label), **_shape_of(matrices[g])}
        if raw is not None:
            tile |= {f"raw_{key}": value for key, value in _shape_of(raw[g]).items()} | _compared(matrices[g], raw[g])
        if before is not None:
            tile["moved"] = _moved(matrices[g], before[g])
        if isinstance(bank.form, Mixed):
            tile["private"] = _private_share(bank.form, bank.factors(), g)
        tiles.append(tile)
    factors = {name: _factor(value, None if start is None else start.factors()[name]) for name, value in bank.factors().items()}
    usage = bank_usage(bank.factors()) if isinstance(bank.form, Tucker) else None
    return Learnt(group, names, what, 1 - cosines(gram), tiles, factors, usage)


def _vectors(form: Form, factors: Mapping[str, Tensor], matrices: Sequence[Tensor]) -> tuple[str, Tensor]:
    """What stands for a tile beside the shared factors, with its inner products (n, n)."""
    if isinstance(form, Mixed) and isinstance(form.shared, TensorTrain | Tucker):
        return _vectors(form.shared, {k.removeprefix("shared_"): v for k, v in factors.items()}, matrices)
    if isinstance(form, Tucker):
        mix = factors["P"].double()
        return "P", mix @ mix.T
    if isinstance(form, TensorTrain):
        core = factors["core"].flatten(1)
        return "cores", (core @ core.T).double()
    return "matrices", inner(Plain(matrices))


def bank_usage(factors: Mapping[str, Tensor]) -> Usage:
    """P_gk^2 |U C_k V|^2, each row divided by its sum."""
    u, c, v = (factors[name].double() for name in ("U", "C", "V"))
    size = ((u.T @ u) @ c @ (v @ v.T) * c).sum((1, 2)).clamp_min(0)
    shares = factors["P"].double().square() * size
    return Usage(shares / shares.sum(1, keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny))


def _shape_of(w: Tensor) -> dict[str, float]:
    values = energies(w)
    return {"norm": float(values.sum().sqrt()), "entropy_rank": entropy_rank(values), "stable_rank": stable_rank(values)}


def _compared(w: Tensor, raw: Tensor) -> dict[str, float]:
    raw = raw.to(w.dtype)
    error, size = (w - raw).square().sum(dtype=torch.float64), raw.square().sum(dtype=torch.float64)
    cosine = torch.nn.functional.cosine_similarity(w.flatten(), raw.flatten(), dim=0)
    return {"error": float(error / size.clamp_min(torch.finfo(size.dtype).tiny)), "cosine": float(cosine)}


def _moved(now: Tensor, before: Tensor) -> float:
    """|now - before| / |before|."""
    size = before.double().norm().clamp_min(torch.finfo(torch.float64).tiny)
    return float((now.double() - before.double()).norm() / size)


def _private_share(form: Mixed, factors: Mapping[str, Tensor], g: int) -> float:
    """|private|^2 / (|shared|^2 + |private|^2) of one tile."""
    own = {k.removeprefix("private_"): v for k, v in factors.items() if k.startswith("private_")}
    private = form.private.matrix(own, g)
    shared = form.matrix(factors, g) - private
    sizes = torch.stack([shared.double().square().sum(), private.double().square().sum()])
    return float(sizes[1] / sizes.sum().clamp_min(torch.finfo(sizes.dtype).tiny))


def _factor(value: Tensor, before: Tensor | None) -> dict[str, Any]:
    """Ranks are those of the factor as a matrix: its first axis against all others."""
    found: dict[str, Any] = {"shape": list(value.shape), **_shape_of(value.flatten(1) if value.ndim > 1 else value[:, None])}
    if before is not None:
        cosine = torch.nn.functional.cosine_similarity(value.double().flatten(), before.double().flatten(), dim=0)
        found |= {"moved": _moved(value, before), "cosine": float(cosine)}
    return found
