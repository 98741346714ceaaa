"""HOSVD and HOOI of a stack of n tiles in weight space, by Gram matrices; no unfolding is ever held or decomposed.

W_g (i, o) = U core_g V, and with a bank core_g = sum_k P_gk C_k.
U (i, p), V (q, o), core (n, p, q), P (n, l), C (l, p, q); U, V and P have orthonormal columns or rows.

tensorly's partial_tucker keeps the whole tensor and unfolds it in every mode. At n = 144, D = 768 that is 0.34 GB a copy.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tenfold.algebra.linear import top_eigenvectors


def hosvd(tiles: Sequence[Tensor], p: int, q: int) -> tuple[Tensor, Tensor]:
    """U and V from the Gram matrices of the two unfoldings."""
    i, o = tiles[0].shape
    left, right = tiles[0].new_zeros(i, i), tiles[0].new_zeros(o, o)
    for g in range(len(tiles)):
        w = tiles[g]
        left += w @ w.T
        right += w.T @ w
    return top_eigenvectors(left, p), top_eigenvectors(right, q).T


def cores(tiles: Sequence[Tensor], u: Tensor, v: Tensor) -> Tensor:
    """The best cores for orthonormal U and V: core_g = U' W_g V'."""
    return torch.stack([u.T @ tiles[g] @ v.T for g in range(len(tiles))])


def bank(core: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """P (n, l) and C (l, p, q): the best bank of `size` matrices for n cores, from their (n, n) Gram matrix."""
    flat = core.flatten(1)
    mix = top_eigenvectors(flat @ flat.T, size)
    return mix, (mix.T @ flat).unflatten(1, core.shape[1:])


def improve(tiles: Sequence[Tensor], u: Tensor, v: Tensor, size: int | None) -> tuple[Tensor, Tensor]:
    """One HOOI round: U for fixed V (and P), then V for the new U."""
    n = len(tiles)
    half = torch.stack([tiles[g] @ v.T for g in range(n)])
    u = top_eigenvectors(_gram(_mixed(half, bank(u.T @ half, size)[0] if size else None)), u.shape[1])
    half = torch.stack([tiles[g].T @ u for g in range(n)])
    mix = bank(v @ half, size)[0] if size else None
    return u, top_eigenvectors(_gram(_mixed(half, mix)), v.shape[0]).T


def _mixed(stack: Tensor, mix: Tensor | None) -> Tensor:
    return stack if mix is None else torch.einsum("gk,gab->kab", mix, stack)


def _gram(stack: Tensor) -> Tensor:
    flat = stack.transpose(0, 1).flatten(1)
    return flat @ flat.T


def tucker(tiles: Sequence[Tensor], p: int, q: int, size: int | None, rounds: int) -> tuple[Tensor, Tensor, Tensor]:
    """U, V and the n cores after HOSVD and `rounds` of HOOI; `size` is that of the bank the cores will be put in."""
    u, v = hosvd(tiles, p, q)
    for _ in range(rounds):
        u, v = improve(tiles, u, v, size)
    return u, v, cores(tiles, u, v)
