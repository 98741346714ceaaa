"""How much of a matrix a few dimensions hold.

W (i, o), energies sigma_k^2 (its squared singular values, the largest first), m = min(i, o) of them.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

STEPS = 64
"""Points of a curve."""


def energies(w: Tensor, moment: Tensor | None = None) -> Tensor:
    """sigma_k^2 of W, or of S^(1/2) W: the energies of the outputs x W where E x x' = S. Float64, m of them."""
    i, o = w.shape
    w = w.double()
    if moment is None:
        gram = w.T @ w if o <= i else w @ w.T
    elif o <= i:
        gram = w.T @ (moment.double() @ w)
    else:
        root = torch.linalg.cholesky(moment.double(), upper=True) @ w
        gram = root @ root.T
    return torch.linalg.eigvalsh(gram).flip(0).clamp_min(0).cpu()


def variances(w: Tensor) -> Tensor:
    """What principal component analysis of the rows of W finds, up to the factor 1 / (i - 1): the mean row is taken out."""
    return energies(w.double() - w.double().mean(0))


def grid(dimensions: int) -> list[int]:
    """0, ..., dimensions in at most STEPS equal steps; half of the dimensions is among them."""
    steps = min(STEPS, dimensions)
    return sorted({round(dimensions * k / steps) for k in range(steps + 1)} | {dimensions // 2})


def captured(values: Tensor, kept: Sequence[int]) -> list[float]:
    """The share of the energy in the first k dimensions, for each k. A matrix of zeros is held by any."""
    total = float(values.sum())
    if not total:
        return [1.0] * len(kept)
    sums = torch.cat([values.new_zeros(1), values.cumsum(0)])
    return [min(float(sums[min(k, len(values))]) / total, 1.0) for k in kept]


def dimensions_for(values: Tensor, share: float) -> int:
    """The fewest dimensions that hold this share."""
    return int((values.cumsum(0) < share * values.sum()).sum()) + 1 if values.sum() else 0


def stable_rank(values: Tensor) -> float:
    """|W|_F^2 / sigma_1^2."""
    return float(values.sum() / values[0]) if values[0] > 0 else 0.0


def entropy_rank(values: Tensor) -> float:
    """exp of the entropy of sigma_k / sum sigma (Roy and Vetterli 2007): k equal singular values give k."""
    sigma = values.sqrt()
    if not sigma.sum():
        return 0.0
    return float(torch.special.entr(sigma / sigma.sum()).sum().exp())


def numerical_rank(values: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> int:
    """Singular values above sigma_1 max(i, o) eps, eps that of the precision in which W was given."""
    level = max(shape) * max(torch.finfo(dtype).eps, 1e-8)  # squares in float64 tell no smaller ones apart
    return int((values > values[0] * level**2).sum())
