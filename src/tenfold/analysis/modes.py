"""The stack of n tiles along each of its three modes, from Gram matrices: what HOSVD would find.

U and V hold the eigenvectors of sum_g W_g W_g' and sum_g W_g' W_g; the core of ranks (p, q) is the corner of U' W_g V'.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tenfold.algebra.linear import top_eigenvectors
from tenfold.analysis.blocks import Rotated, Stack


@dataclass(frozen=True)
class Modes:
    """Gram matrices of the input side (i, i) and of the output side (o, o)."""

    left: Tensor
    right: Tensor

    @property
    def energy(self) -> float:
        return float(self.left.double().trace())


def modes(stack: Stack) -> Modes:
    i, o = stack.shape
    first = stack[0]
    left, right = first.new_zeros(i, i), first.new_zeros(o, o)
    for g in range(stack.n):
        w = stack[g]
        left += w @ w.T
        right += w.T @ w
    return Modes(left, right)


def spectrum(gram: Tensor) -> Tensor:
    """Eigenvalues, the largest first; those below zero are rounding."""
    return torch.linalg.eigvalsh(gram.double()).flip(0).clamp_min(0).cpu()


Corner = tuple[int, int]


def corners(stack: Stack, found: Modes, wanted: Sequence[Corner], largest: Corner) -> tuple[Tensor, dict[Corner, Tensor]]:
    """What HOSVD at every pair of ranks up to the largest (r, s) would keep, each number of the rotated tiles read once.

    The first: (r + 1, s + 1), the energy of the cores of ranks (p, q). The second: the Gram matrix (n, n) of the cores, for
    the wanted corners only, which must lie one inside the other; its l largest eigenvalues are what a bank of l keeps.
    """
    rotated = Rotated(stack, top_eigenvectors(found.left, largest[0]), top_eigenvectors(found.right, largest[1]).T)
    nested = sorted(set(wanted))
    assert all(a[1] <= b[1] for a, b in pairwise(nested)), nested
    energy = torch.zeros(largest, dtype=torch.float64)
    shells = torch.zeros(len(nested), stack.n, stack.n, dtype=torch.float64)
    for a, b, slab in rotated.slabs(cuts=[p for p, _ in nested]):
        energy[a:b] = slab.square().sum(0).double().cpu()
        left = 0
        for k, (p, q) in enumerate(nested):
            if b <= p:
                part = slab[:, :, left:q].flatten(1)
                shells[k] += (part @ part.T).double().cpu()
                left = q
    sums = torch.nn.functional.pad(energy.cumsum(0).cumsum(1), (1, 0, 1, 0))
    return sums, dict(zip(nested, shells.cumsum(0), strict=True))
