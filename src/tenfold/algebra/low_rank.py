"""The best rank-d product A B for one matrix, in weight space (Eckart-Young) or under the moment of its inputs.

W (i, o), S (i, i). Minimises |S^(1/2) (W - A B)|^2; S = None means S = I.
"""

import torch
from torch import Tensor

from tenfold.algebra.linear import top_eigenvectors


def truncate(w: Tensor, rank: int, moment: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """A (i, rank), B (rank, o). The Gram matrix of the shorter side is decomposed, never the matrix itself.

    o <= i: the top eigenvectors Q of W' S W give B = Q', A = W Q. Otherwise, with S = R' R and those of R W W' R',
    B = Q' R W, A = R^-1 Q. At full rank both are exact, however small the singular values are.
    """
    i, o = w.shape
    if o <= i:
        weighted = w if moment is None else moment @ w
        q = top_eigenvectors(w.T @ weighted, rank)
        return w @ q, q.T
    if moment is None:
        q = top_eigenvectors(w @ w.T, rank)
        return q, q.T @ w
    root = torch.linalg.cholesky(moment.double(), upper=True).to(w.dtype)
    y = root @ w
    q = top_eigenvectors(y @ y.T, rank)
    return torch.linalg.solve_triangular(root, q, upper=True), q.T @ y


def normalise(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A B as unit columns, their scales, unit rows: A diag(s) B (the paper's II-alpha)."""
    tiny = torch.finfo(a.dtype).tiny
    left, right = a.norm(dim=-2).clamp_min(tiny), b.norm(dim=-1).clamp_min(tiny)
    return a / left, left * right, b / right[:, None]


def balance(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A B with each scale split evenly between its column and its row, so that both train at one speed."""
    tiny = torch.finfo(a.dtype).tiny
    ratio = (b.norm(dim=-1).clamp_min(tiny) / a.norm(dim=-2).clamp_min(tiny)).sqrt()
    return a * ratio, b / ratio[:, None]
