"""Attention masks as lengths: real tokens of all sequences one after another, and back."""

from dataclasses import dataclass

import torch
from torch import Tensor


class Unpacked(Exception):
    """Why sequences cannot be packed."""


@dataclass(frozen=True, eq=False)
class Runs:
    """The real tokens of a batch: one run a sequence. `index` are their places among all; None: nothing is padded.

    `at_start`: every sequence has a real token where it begins.
    """

    lengths: tuple[int, ...]
    index: Tensor | None
    at_start: bool

    def pack(self, x: Tensor) -> Tensor:
        """(B, n, D) -> (T, D)."""
        flat = x.flatten(0, 1)
        return flat.contiguous() if self.index is None else flat.index_select(0, self.index)

    def unpack(self, y: Tensor, like: Tensor) -> Tensor:
        """Zeros where there is padding."""
        if self.index is None:
            return y.view_as(like)
        return torch.zeros_like(like).flatten(0, 1).index_copy_(0, self.index, y).view_as(like)


def runs(mask: Tensor | None, batch: int, length: int) -> Runs:
    """Of a mask (B, n), 0 at padding. Raises Unpacked."""
    if mask is None:
        return Runs((length,) * batch, None, True)
    if mask.shape != (batch, length):
        raise Unpacked(f"a mask of shape {tuple(mask.shape)}")
    real = mask != 0
    starts = (real[:, 1:] & ~real[:, :-1]).sum(dim=1) + real[:, 0]
    lengths, starts, first = torch.stack([real.sum(dim=1), starts, real[:, 0].long()]).tolist()  # waits for a device once
    if min(lengths) == 0:
        raise Unpacked("a sequence without tokens")
    if max(starts) > 1:
        raise Unpacked("a mask with holes")
    full = min(lengths) == length
    return Runs(tuple(lengths), None if full else real.flatten().nonzero().squeeze(1), all(first))
