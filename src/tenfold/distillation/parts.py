"""What losses are made of: sums over real items, masks, and ways to look at tensors. Letters as in `losses`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec

import torch
from torch import Tensor

from tenfold.errors import TenfoldError

P = ParamSpec("P")


@dataclass(frozen=True)
class Part:
    """A sum over `count` real items. Divide by the count of the whole batch: that over all accumulation steps and processes."""

    total: Tensor
    count: Tensor

    @property
    def mean(self) -> Tensor:
        return self.total / self.count.clamp(min=1)

    def __add__(self, other: "Part") -> "Part":
        """Of two pieces of a batch the whole; of several layers or kinds of vectors their mean."""
        return Part(self.total + other.total, self.count + other.count)


def precise(
    loss: Callable[Concatenate[Tensor, Tensor, Tensor, P], Part],
) -> Callable[Concatenate[Tensor, Tensor, Tensor, P], Part]:
    """All arithmetic in float32 or better, under autocast too; no gradient to the teacher."""

    @wraps(loss)
    def wrapped(student: Tensor, teacher: Tensor, mask: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> Part:
        with torch.autocast(student.device.type, enabled=False):
            return loss(at_least_float32(student), at_least_float32(teacher.detach()), mask.bool(), *args, **kwargs)

    return wrapped


def at_least_float32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def real(x: Tensor, mask: Tensor) -> Tensor:
    """Zeros in place of padding, whatever was there, and no gradient to it."""
    return x.masked_fill(~mask[..., None], 0)


def pair_mask(mask: Tensor, causal: bool = False) -> Tensor:
    """Pairs (b, t, t) of a real query and a real key; where `causal`, of no later key. A mask of pairs stays as it is."""
    if mask.dim() == 3:
        return mask
    pairs = mask[:, :, None] & mask[:, None, :]
    return pairs.tril() if causal else pairs


def merge_heads(vectors: Tensor) -> Tensor:
    return vectors.transpose(1, 2).flatten(2)


def masked_log_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    """Over the keys that are kept; 0 elsewhere, and no gradient from there. The minimum, as a row of -inf has no softmax."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~keep, lowest).log_softmax(-1).masked_fill(~keep, 0)


def pool(hidden: Tensor, mask: Tensor, pooling: str = "mean") -> Tensor:
    """Sentence vectors (b, D): the mean over real tokens, or the first real token (cls). A row without any gives zeros."""
    hidden = real(hidden, mask)
    if pooling == "mean":
        return hidden.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
    if pooling != "cls":
        raise TenfoldError(f'sentence vectors are pooled by mean or cls, got "{pooling}"')
    first = mask.int().argmax(1)
    return hidden[torch.arange(len(hidden), device=hidden.device), first]


class Spread:
    """The variance of a teacher's states around their mean over all real tokens seen, mean over features: a loss's `scale`.

    Measure it once, on the same batches in every process. Chan's update, so that large means cost no digits.
    """

    def __init__(self) -> None:
        self.count, self.mean, self.square = 0, torch.zeros(()), torch.zeros(())

    @torch.no_grad()
    def add(self, hidden: Tensor, mask: Tensor) -> None:
        rows = at_least_float32(hidden[mask.bool()])
        if not len(rows):
            return
        mean, count = rows.mean(0), self.count + len(rows)
        shift = mean - self.mean.to(rows)
        self.square = self.square.to(rows) + (rows - mean).square().sum(0) + shift.square() * (self.count * len(rows) / count)
        self.mean = self.mean.to(rows) + shift * (len(rows) / count)
        self.count = count

    @property
    def value(self) -> float:
        if self.count < 2 or not (variance := float(self.square.mean()) / self.count):
            raise TenfoldError(f"a variance needs two tokens that differ, got {self.count}: measure it on more text")
        return variance
