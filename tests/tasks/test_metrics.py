"""Scores against scikit-learn and scipy on random predictions, and what answers that look at no text score."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sk

from tenfold.errors import TenfoldError
from tenfold.tasks import Rows, Task, answers, floors, glue, score, truth
from tenfold.tasks.metrics import METRICS

DRAW = np.random.default_rng(0)
REFERENCES: dict[str, Any] = {
    "accuracy": sk.accuracy_score,
    "exact": sk.accuracy_score,
    "f1": sk.f1_score,
    "f1_macro": lambda true, said: sk.f1_score(true, said, average="macro", zero_division=0),
    "f1_micro": lambda true, said: sk.f1_score(true, said, average="micro", zero_division=0),
    "matthews": sk.matthews_corrcoef,
    "pearson": lambda true, said: stats.pearsonr(true, said).statistic,
    "spearman": lambda true, said: stats.spearmanr(true, said).statistic,
}


def own(kind: str, classes: int) -> Task:
    labels = tuple(map(str, range(classes)))
    return Task("own", kind, ("text",), "label", labels, METRICS[kind])  # type: ignore[arg-type, index]


TASKS = [row.task for row in glue().values()]
TASKS += [own("classification", 5), own("regression", 0), own("embedding", 0), own("multi_label", 4)]


def draw(task: Task, n: int) -> tuple[Any, list[Any]]:
    outputs = DRAW.standard_normal((n, task.outputs)).astype(np.float32)
    if task.kind == "multi_label":
        return outputs, [tuple(np.flatnonzero(DRAW.random(task.outputs) < 0.3).tolist()) for _ in range(n)]
    if task.kind == "classification":
        return outputs, DRAW.integers(len(task.labels), size=n).tolist()
    return outputs, (outputs[:, 0] + DRAW.standard_normal(n)).tolist()


def expected_answers(task: Task, outputs: Any) -> Any:
    if task.kind == "classification":
        return outputs.argmax(1)
    return (outputs > 0).astype(int) if task.kind == "multi_label" else outputs[:, 0].astype(np.float64)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{task.kind}")
def test_scores_agree_with_the_references(task: Task) -> None:
    outputs, labels = draw(task, 300)
    found = score(task, outputs, labels)
    assert list(found) == list(task.metrics)
    said = expected_answers(task, outputs)
    assert np.array_equal(answers(task, outputs), said)
    for name, value in found.items():
        assert value == pytest.approx(100 * REFERENCES[name](truth(task, labels), said), abs=1e-10)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.name}-{task.kind}")
def test_right_answers_score_a_hundred(task: Task) -> None:
    _, labels = draw(task, 50)
    true = truth(task, labels)
    outputs = np.eye(len(task.labels))[true] if task.kind == "classification" else true.reshape(50, -1) * 2.0 - 1
    assert score(task, outputs, labels) == pytest.approx(dict.fromkeys(task.metrics, 100.0))


def test_floors_of_classes() -> None:
    """68 of 100 hold: the majority is right in 68%, and always yes has precision 0.68 and recall 1."""
    rows = Rows(tuple((str(i),) for i in range(100)), (1,) * 68 + (0,) * 32)
    mrpc, cola = glue()["mrpc"].task, glue()["cola"].task
    assert floors(mrpc, rows) == pytest.approx({"f1": 100 * 2 * 0.68 / 1.68, "accuracy": 68.0})
    assert floors(cola, rows) == {"matthews": 0.0}


def test_floors_of_several_labels_are_the_best_of_all_constants() -> None:
    task = own("multi_label", 3)
    _, labels = draw(task, 60)
    rows = Rows(tuple((str(i),) for i in range(60)), tuple(labels))
    true, found = truth(task, labels), floors(task, rows)
    constants = [np.tile(held, (60, 1)) for held in product((0, 1), repeat=3)]
    for name in ("exact", "f1_macro"):
        assert found[name] == pytest.approx(100 * max(REFERENCES[name](true, said) for said in constants))
    assert found["f1_micro"] <= 100 * max(REFERENCES["f1_micro"](true, said) for said in constants) + 1e-9


def test_floors_of_a_scale_are_zero() -> None:
    rows = Rows((("a",), ("b",), ("c",)), (1.0, 2.0, 3.0))
    assert floors(glue()["stsb"].task, rows) == {"spearman": 0.0, "pearson": 0.0}


def test_a_constant_prediction_correlates_with_nothing() -> None:
    found = score(glue()["stsb"].task, np.ones((4, 1)), [1.0, 2.0, 3.0, 4.0])
    assert found == {"spearman": 0.0, "pearson": 0.0}


@pytest.mark.parametrize(
    ("outputs", "labels", "told"),
    [
        (np.empty((0, 2)), [], "needs rows"),
        (np.array([[0.0, np.nan], [1, 0]]), [0, 1], "1 of 2 rows"),
        (np.array([[0.0, np.inf], [np.nan, 0]]), [0, 1], "2 of 2 rows"),
        (np.zeros((2, 2)), [0, None], "score another split"),
    ],
)
def test_what_cannot_be_scored(outputs: Any, labels: list[Any], told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        score(glue()["rte"].task, outputs, labels)
