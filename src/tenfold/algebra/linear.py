"""The three dense solvers that everything else calls. They run in float64 whatever comes in: they are small."""

from collections.abc import Callable

import torch
from torch import Tensor


def top_eigenvectors(gram: Tensor, rank: int) -> Tensor:
    """The eigenvectors of a symmetric (a, a) matrix with the largest eigenvalues, as columns (a, rank), largest first."""
    _, vectors = torch.linalg.eigh(gram.double())
    return vectors[:, -rank:].flip(-1).to(gram.dtype)


def solve_positive(matrix: Tensor, right: Tensor) -> Tensor:
    """X with matrix X = right, for a positive definite matrix (a, a); a singular one gets the least ridge that helps."""
    m = matrix.double()
    level = m.diagonal().mean().clamp_min(torch.finfo(torch.float64).tiny)
    eye = torch.eye(len(m), dtype=m.dtype, device=m.device)
    for ridge in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6):
        factor, info = torch.linalg.cholesky_ex(m + ridge * level * eye)
        if not info.any():
            return torch.cholesky_solve(right.double(), factor).to(right.dtype)
    return (torch.linalg.pinv(m, hermitian=True) @ right.double()).to(right.dtype)


def conjugate_gradient(
    operator: Callable[[Tensor], Tensor],
    right: Tensor,
    start: Tensor,
    precondition: Callable[[Tensor], Tensor],
    iterations: int,
) -> Tensor:
    """A few steps of preconditioned conjugate gradients toward operator(x) = right, for a positive operator on tensors.

    Every step lowers the quadratic x.operator(x)/2 - right.x, so stopping early is safe.
    """
    x = start
    residual = right - operator(x)
    direction = z = precondition(residual)
    rho = (residual * z).sum()
    for _ in range(iterations):
        image = operator(direction)
        curvature = (direction * image).sum()
        if not curvature > 0 or not rho > 0:
            break
        step = rho / curvature
        x = x + step * direction
        residual = residual - step * image
        z = precondition(residual)
        rho, previous = (residual * z).sum(), rho
        direction = z + (rho / previous) * direction
    return x
