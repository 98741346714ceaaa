"""Scores as GLUE prints them, 0 to 100, and what a constant answer scores. Through scikit-learn and scipy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenfold.errors import TenfoldError
from tenfold.tasks.task import Kind, Label, Rows, Task

Array = NDArray[Any]

METRICS: dict[Kind, tuple[str, ...]] = {
    "classification": ("accuracy", "f1_macro"),
    "multi_label": ("f1_micro", "f1_macro", "exact"),
    "regression": ("spearman", "pearson"),
    "embedding": ("spearman", "pearson"),
}
"""Of a user's own task, the headline first. exact: the share of rows whose labels are all right."""


def score(task: Task, outputs: Array, labels: Sequence[Label]) -> dict[str, float]:
    """Every metric of the task, the headline first. outputs (n, task.outputs): logits, or the number itself."""
    if len(outputs) == 0:
        raise TenfoldError(f"{task.name} needs rows to be scored on, got none")
    if bad := int((~np.isfinite(np.asarray(outputs, np.float64))).any(axis=tuple(range(1, np.ndim(outputs)))).sum()):
        raise TenfoldError(f"outputs must be finite, got NaN or infinity in {bad} of {len(outputs)} rows: the model is broken")
    if any(label is None for label in labels):
        raise TenfoldError(f"{task.name} needs labels to be scored against, got rows without: score another split")
    return _all(task, answers(task, outputs), truth(task, labels))


def answers(task: Task, outputs: Array) -> Array:
    """What the model says: a class's index (n,), a number (n,), or which classes hold (n, classes)."""
    values = np.asarray(outputs, np.float64)
    if task.kind == "classification":
        return values.argmax(1)
    return (values > 0).astype(int) if task.kind == "multi_label" else values.reshape(len(values))


def truth(task: Task, labels: Sequence[Label]) -> Array:
    """Labels in the form of `answers`."""
    if task.kind == "multi_label":
        table = np.zeros((len(labels), len(task.labels)), int)
        for row, held in zip(table, labels, strict=True):
            assert isinstance(held, tuple)
            row[list(held)] = 1
        return table
    return np.asarray(labels, int if task.kind == "classification" else np.float64)


def floors(task: Task, rows: Rows) -> dict[str, float]:
    """By metric, the best that an answer can score on these rows that does not look at the text.

    accuracy: the majority class; f1: always yes; matthews and correlations: 0; of several labels: always the k most
    frequent ones, or the most frequent set.
    """
    true = truth(task, rows.labels)
    constants = _constants(task, true)
    found = [_all(task, np.broadcast_to(constant, true.shape), true) for constant in constants]
    return {name: max((each[name] for each in found), default=0.0) for name in task.metrics}


def _constants(task: Task, true: Array) -> list[Array]:
    if task.kind == "classification":
        return [np.array(c) for c in range(len(task.labels))]
    if task.kind == "multi_label":
        order = (-true.mean(0)).argsort(kind="stable")
        usual = [np.isin(np.arange(len(order)), order[:k]).astype(int) for k in range(len(order) + 1)]
        sets, counts = np.unique(true, axis=0, return_counts=True)
        return [*usual, sets[counts.argmax()]]
    return []


def _all(task: Task, said: Array, true: Array) -> dict[str, float]:
    return {name: 100.0 * _metric(name, said, true) for name in task.metrics}


def _metric(name: str, said: Array, true: Array) -> float:
    from scipy.stats import pearsonr, spearmanr
    from sklearn import metrics

    if name in ("pearson", "spearman"):
        if len(true) < 2 or np.ptp(said) == 0 or np.ptp(true) == 0:
            return 0.0  # a constant has no correlation; to call it NaN would hide a dead model from every average
        return float((pearsonr if name == "pearson" else spearmanr)(said, true).statistic)
    if name == "f1":
        return float(metrics.f1_score(true, said, zero_division=0))
    if name.startswith("f1_"):
        return float(metrics.f1_score(true, said, average=name.removeprefix("f1_"), zero_division=0))
    if name == "matthews":
        return float(metrics.matthews_corrcoef(true, said))
    assert name in ("accuracy", "exact")
    return float(metrics.accuracy_score(true, said))
