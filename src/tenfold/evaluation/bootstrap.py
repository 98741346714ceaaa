"""Is one model better than another on the same rows, or are these rows lucky? A paired bootstrap of the headline metric."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenfold.evaluation.counted import counted
from tenfold.tasks.task import Task

Array = NDArray[Any]

RESAMPLES = 10_000
_AT_ONCE = 200_000
"""Numbers in a table of counts: what a processor's cache holds."""


@dataclass(frozen=True)
class Difference:
    """ours - theirs in points; a 95% interval over rows; p, two-sided: how often chance turns the sign."""

    difference: float
    low: float
    high: float
    p: float


def paired(
    task: Task, true: Array, ours: Sequence[Array], theirs: Sequence[Array], seed: int = 0, resamples: int = RESAMPLES
) -> Difference:
    """Both sides' answers (an array for each of their seeds) on the same drawn rows; a side's score is the mean over seeds.

    Rows with the same truth and the same answers are one sort: a resample is how many of each sort it holds, which is
    multinomial, as if rows were drawn one by one.
    """
    columns = [values.reshape(len(values), -1) for values in (true, *ours, *theirs)]
    sorts, numbers = np.unique(np.concatenate(columns, axis=1), axis=0, return_counts=True)
    parts = np.split(sorts, np.cumsum([column.shape[1] for column in columns])[:-1], axis=1)
    found = [part if true.ndim == 2 else part[:, 0] for part in parts]
    sides = found[1 : 1 + len(ours)], found[1 + len(ours) :]

    def difference(counts: Array) -> Array:
        scores = [[counted(task.metrics[0], task, said, found[0], counts) for said in side] for side in sides]
        return np.mean(scores[0], axis=0) - np.mean(scores[1], axis=0)

    drawn = np.concatenate([difference(counts) for counts in _draws(numbers, seed, resamples)])
    low, high = np.percentile(drawn, [2.5, 97.5])
    turned = min((drawn <= 0).sum(), (drawn >= 0).sum())
    return Difference(
        float(difference(numbers[None])[0]), float(low), float(high), min(1.0, float(2 * (turned + 1) / (resamples + 1)))
    )


def _draws(numbers: Array, seed: int, resamples: int) -> Iterator[Array]:
    """(some, sorts) at a time."""
    draw, rows = np.random.default_rng(seed), int(numbers.sum())
    some = max(1, _AT_ONCE // len(numbers))
    for start in range(0, resamples, some):
        yield draw.multinomial(rows, numbers / rows, size=min(some, resamples - start))
