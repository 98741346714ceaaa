"""What makes a score worthless, said beside it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenfold.tasks import Rows, Task, answers, floors, score

Array = NDArray[Any]

WARNING = "warning:"
"""How a note begins that nobody should overlook."""


def warnings(task: Task, who: str, outputs: Array, split: str, rows: Rows) -> list[str]:
    """The alarms of a model's outputs, as notes."""
    scores = score(task, outputs, rows.labels)
    return [f"{WARNING} {split}: {text}" for text in alarms(task, who, answers(task, outputs), scores, floors(task, rows))]


def alarms(task: Task, who: str, said: Array, scores: Mapping[str, float], floor: Mapping[str, float]) -> tuple[str, ...]:
    """A model that does not look at the text, or does no better than one that does not."""
    found = [f"{who} {same}: it does not look at the text"] if (same := constant(task, said)) else []
    metric = task.metrics[0]
    if scores[metric] <= floor[metric]:
        found.append(
            f"{who} is no better than its floor: {metric} {scores[metric]:.1f}, an answer that does not look at the text has "
            f"{floor[metric]:.1f}"
        )
    return tuple(found)


def constant(task: Task, said: Array) -> str | None:
    """What a model answers to every row, where that is one thing."""
    if len(said) < 2 or not (said == said[0]).all():
        return None
    if task.kind == "classification":
        return f'answers "{task.labels[int(said[0])]}" to all {len(said)} rows'
    if task.kind == "multi_label":
        held = ", ".join(task.labels[k] for k in np.flatnonzero(said[0])) or "no label"
        return f"answers {held} to all {len(said)} rows"
    return f"answers {float(said[0]):.4g} to all {len(said)} rows"


def floor_answer(task: Task, true: Array) -> str:
    """The answer that the floor of the headline is that of."""
    metric = task.metrics[0]
    if task.kind in ("regression", "embedding"):
        return "any one number"
    if metric == "f1":
        return f"always {task.labels[1]}"
    if metric == "matthews":
        return "any one class"
    if task.kind == "classification":
        return f"always {task.labels[int(np.bincount(true, minlength=len(task.labels)).argmax())]}"
    return "always the most frequent labels"
