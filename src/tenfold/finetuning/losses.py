"""What a task asks of a model's outputs: the loss of each row, and what the row weighs.

b rows, C classes. outputs are (b, C) logits, or (b, 1) numbers or cosines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tenfold.errors import TenfoldError
from tenfold.tasks.task import Rows, Task


@dataclass(frozen=True)
class Scale:
    """Scores as cosines: those within [-1, 1] as they are, others with the training rows' smallest at 0 and largest at 1."""

    low: float = 0.0
    width: float = 1.0

    def __call__(self, scores: Tensor) -> Tensor:
        return (scores - self.low) / self.width


def cosine_scale(labels: Sequence[Any]) -> Scale:
    low, high = min(labels), max(labels)
    if low >= -1 and high <= 1:
        return Scale()
    return Scale(low, (high - low) or 1.0)


def balanced_weights(task: Task, rows: Rows) -> Tensor:
    """n / (C n_c) for every class c, as scikit-learn's "balanced": (C,)."""
    if task.kind != "classification":
        raise TenfoldError(f"class weights belong to a task with one class a row, got {task.kind}: leave --class-weights out")
    counts = torch.bincount(torch.tensor([int(label) for label in rows.labels]), minlength=len(task.labels))  # type: ignore[arg-type]
    if not bool(counts.all()):
        absent = [name for name, n in zip(task.labels, counts.tolist(), strict=True) if not n]
        raise TenfoldError(f"balanced weights need rows of every class, got none of {', '.join(absent)} in train: add some")
    return len(rows) / (len(task.labels) * counts.float())


def row_losses(task: Task, outputs: Tensor, labels: Tensor, scale: Scale | None = None) -> Tensor:
    """(b,): cross-entropy, binary cross-entropy meant over classes, squared error, or that of cosine and scaled score."""
    if task.kind == "classification":
        return F.cross_entropy(outputs, labels, reduction="none")
    if task.kind == "multi_label":
        return F.binary_cross_entropy_with_logits(outputs, labels.to(outputs.dtype), reduction="none").mean(1)
    targets = labels.to(outputs.dtype) if scale is None else scale(labels.to(outputs.dtype))
    return (outputs.reshape(targets.shape) - targets).square()


def row_weights(labels: Tensor, weights: Tensor | None) -> Tensor:
    """(b,): that of a row's class, or 1."""
    return torch.ones(len(labels), device=labels.device) if weights is None else weights.to(labels.device)[labels]
