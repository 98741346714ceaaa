"""Second moments of the inputs of tiles: what turns a weight error into an output error."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Moments:
    """Tile g reads inputs whose second moment is `matrices[of[g]]` (i, i). Q, K and V share one; so do the In tiles."""

    matrices: Sequence[Tensor]
    of: tuple[int, ...]

    def __getitem__(self, g: int) -> Tensor:
        return self.matrices[self.of[g]]

    def __len__(self) -> int:
        return len(self.of)


def ridged(moment: Tensor, ridge: float = 1e-4) -> Tensor:
    """S + ridge * mean(diag S) I: directions that the text never used keep a small weight, and S can be inverted."""
    level = moment.diagonal().mean().clamp_min(torch.finfo(moment.dtype).tiny)
    return moment + ridge * level * torch.eye(len(moment), dtype=moment.dtype, device=moment.device)


def identity_moments(n: int, i: int, like: Tensor) -> Moments:
    """S = I: the output error is then the weight error."""
    return Moments([torch.eye(i, dtype=like.dtype, device=like.device)], (0,) * n)
