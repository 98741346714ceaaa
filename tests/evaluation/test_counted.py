"""Metrics out of counts are scikit-learn's and scipy's on the rows themselves, also where classes are absent and values tie."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tenfold.evaluation.bootstrap import paired
from tenfold.evaluation.counted import counted
from tenfold.tasks import Task
from tenfold.tasks.metrics import score

Array = NDArray[Any]
DRAW = np.random.default_rng(7)
N, B = 23, 60

LABELS = {"two": ("no", "yes"), "four": ("a", "b", "c", "d")}
CASES = [
    ("classification", "two", ("accuracy", "f1", "f1_macro", "matthews")),
    ("classification", "four", ("accuracy", "f1_macro", "matthews")),
    ("multi_label", "four", ("f1_micro", "f1_macro", "exact")),
    ("regression", None, ("spearman", "pearson")),
]


def rows(kind: str, classes: int) -> tuple[Any, Array, Array]:
    """Labels as tasks hold them, the same as an array, and a model's outputs that are right more often than not."""
    if kind == "regression":
        marks = DRAW.integers(0, 6, N) / 2
        return tuple(marks.tolist()), marks, np.round(marks + DRAW.normal(size=N), 1)[:, None]
    if kind == "multi_label":
        table = DRAW.random((N, classes)) < 0.3
        labels = tuple(tuple(np.flatnonzero(row).tolist()) for row in table)
        return labels, table.astype(int), table + DRAW.normal(size=table.shape) - 0.5
    true: Array = DRAW.choice(classes, N, p=[0.06, *[0.94 / (classes - 1)] * (classes - 1)])
    return tuple(true.tolist()), true, np.eye(classes)[true] + DRAW.normal(size=(N, classes))


def said_by(kind: str, outputs: Array) -> Array:
    return outputs[:, 0] if kind == "regression" else (outputs > 0).astype(int) if kind == "multi_label" else outputs.argmax(1)


@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")  # scikit-learn's on a draw of one class
@pytest.mark.parametrize(("kind", "names", "metrics"), CASES)
@pytest.mark.parametrize("size", [2, N])
def test_counts_give_what_the_drawn_rows_give(kind: Any, names: str | None, metrics: tuple[str, ...], size: int) -> None:
    """Draws of two rows are often of one class, or of one value twice."""
    task = Task("x", kind, ("text",), "label", LABELS[names] if names else (), metrics)
    labels, true, outputs = rows(kind, len(task.labels))
    drawn = DRAW.integers(0, N, (B, size))
    counts = np.stack([np.bincount(row, minlength=N) for row in drawn])
    expected = [score(task, outputs[row], [labels[i] for i in row]) for row in drawn]
    for name in metrics:
        found = counted(name, task, said_by(kind, outputs), true, counts)
        np.testing.assert_allclose(found, [each[name] for each in expected], rtol=0, atol=1e-8)
    assert len({each[metrics[0]] for each in expected}) > 1


def test_a_correlation_with_a_constant_is_zero() -> None:
    task, true = Task("x", "regression", ("text",), "label", (), ("spearman",)), DRAW.normal(size=N)
    for name in ("pearson", "spearman"):
        assert counted(name, task, np.full(N, 0.1), true, np.ones((1, N), int)) == 0.0


BINARY = Task("x", "classification", ("text",), "label", ("no", "yes"), ("accuracy", "f1"))


def answers(right: float, true: Array) -> Array:
    return np.where(DRAW.random(len(true)) < right, true, 1 - true)


def test_the_interval_is_that_of_rows_drawn_one_by_one() -> None:
    true = DRAW.integers(0, 2, 300)
    ours, theirs = answers(0.8, true), answers(0.75, true)
    found = paired(BINARY, true, [ours], [theirs], seed=1)
    gain = 100.0 * ((ours == true).astype(float) - (theirs == true))
    drawn = gain[DRAW.integers(0, 300, (10_000, 300))].mean(1)
    assert found.difference == pytest.approx(gain.mean())
    np.testing.assert_allclose([found.low, found.high], np.percentile(drawn, [2.5, 97.5]), atol=0.5)
    assert found.p == pytest.approx(2 * min((drawn <= 0).mean(), (drawn >= 0).mean()), abs=0.03)
    assert found == paired(BINARY, true, [ours], [theirs], seed=1)
    assert found != paired(BINARY, true, [ours], [theirs], seed=2)


def test_a_real_gap_is_told_from_none() -> None:
    true = DRAW.integers(0, 2, 400)
    good, bad = answers(0.95, true), answers(0.6, true)
    apart = paired(BINARY, true, [good], [bad])
    assert apart.low > 0 and apart.p < 0.001
    same = paired(BINARY, true, [good], [good])
    assert (same.difference, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)


def test_seeds_of_a_side_are_averaged() -> None:
    true = DRAW.integers(0, 2, 200)
    ours, theirs = [answers(0.9, true) for _ in range(3)], [answers(0.8, true)]
    found = paired(BINARY, true, ours, theirs)
    mean = 100 * (np.mean([(each == true).mean() for each in ours]) - (theirs[0] == true).mean())
    assert found.difference == pytest.approx(mean)
    assert found.low < found.difference < found.high
