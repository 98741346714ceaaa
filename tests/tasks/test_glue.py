"""GLUE from the hub, its names, its slices; and what a task spec must not say."""

from pathlib import Path
from typing import Any

import pytest
from glue_files import write_task_files

from tenfold.errors import TenfoldError
from tenfold.tasks import TaskSpec, glue, glue_task, load_task
from tenfold.tasks import loading as module
from tenfold.tasks.duplicates import duplicates, normalised
from tenfold.tasks.spec import parse_augment, parse_task
from tenfold.tasks.task import Rows

ROWS = {"train": 40, "dev": 6, "test": 4}
SPLITS = {"mnli": ["train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched"], "ax": ["test"]}


def hub(asked: list[tuple[str, str | None, str]]) -> Any:
    """As load_hub gives them: classes by name, None where a test row has no label."""

    def load(name: str, config: str | None, split: str) -> dict[str, list[Any]]:
        asked.append((name, config, split))
        task = glue()[config or ""].task
        texts = {column: [f"{split} {column} {i}" for i in range(6)] for column in task.columns}
        labels: list[Any] = [task.labels[i % len(task.labels)] if task.labels else i / 2 for i in range(6)]
        return {**texts, task.label: [None] * 6 if split.startswith("test") else labels, "idx": [*range(6)]}

    return load


@pytest.mark.parametrize("name", glue())
def test_every_task_from_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None, str]] = []
    monkeypatch.setattr(module, "load_hub", hub(asked))
    data, row = load_task(TaskSpec(task=name)), glue()[name]
    assert asked == [("nyu-mll/glue", name, split) for split in SPLITS.get(name, ["train", "validation", "test"])]
    assert ([*data.dev], [*data.test]) == ([*row.files["dev"]], [*row.files["test"]])
    for rows in (data.train, *data.dev.values()):
        assert list(rows.labels) == [i % len(row.task.labels) if row.task.labels else i / 2 for i in range(len(rows))]
    for split, rows in data.test.items():
        assert rows.labels == (None,) * 6
        expected = f"test_{split}" if name == "mnli" else "test"
        assert rows.texts[2] == tuple(f"{expected} {column} 2" for column in row.task.columns)


def test_the_order_of_classes_is_the_hubs() -> None:
    """ClassLabel names of nyu-mll/glue."""
    assert {name: row.task.labels for name, row in glue().items()} == {
        "cola": ("unacceptable", "acceptable"),
        "sst2": ("negative", "positive"),
        "mrpc": ("not_equivalent", "equivalent"),
        "stsb": (),
        "qqp": ("not_duplicate", "duplicate"),
        "mnli": ("entailment", "neutral", "contradiction"),
        "qnli": ("entailment", "not_entailment"),
        "rte": ("entailment", "not_entailment"),
        "wnli": ("not_entailment", "entailment"),
        "ax": ("entailment", "neutral", "contradiction"),
    }


def test_the_headline_metrics_are_those_of_the_papers_main_table() -> None:
    found = {name: row.task.metrics[0] for name, row in glue().items()}
    assert found == {
        "cola": "matthews", "sst2": "accuracy", "mrpc": "f1", "stsb": "spearman", "qqp": "f1", "mnli": "accuracy",
        "qnli": "accuracy", "rte": "accuracy", "wnli": "accuracy", "ax": "matthews",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["SST-2", "sst2", "sst-2", "SST_2", "Sst2"])
def test_a_task_by_any_spelling(name: str) -> None:
    assert glue_task(name).task.name == "sst2"


@pytest.mark.parametrize(("name", "told"), [("sst3", 'did you mean "sst2"'), ("squad", "known: "), ("", "known: ")])
def test_an_unknown_task_lists_the_known(name: str, told: str) -> None:
    with pytest.raises(TenfoldError, match=told) as error:
        glue_task(name)
    assert all(known in str(error.value) for known in glue())


def test_a_slice_of_train_in_place_of_dev(tmp_path: Path) -> None:
    write_task_files(tmp_path, "rte", ROWS)
    whole = load_task(TaskSpec(task="rte", data_dir=str(tmp_path)))
    data = load_task(TaskSpec(task="rte", data_dir=str(tmp_path), held_out=0.25))
    assert [*data.dev] == ["held_out"]
    held = data.dev["held_out"]
    assert len(held) == 10 and held.labels.count(0) == 5
    assert sorted((*data.train.texts, *held.texts)) == sorted(whole.train.texts)
    assert any("held out 10 of 40 rows of train" in note for note in data.notes)


def test_at_most_so_many_rows(tmp_path: Path) -> None:
    write_task_files(tmp_path, "rte", ROWS)
    spec = TaskSpec(task="rte", data_dir=str(tmp_path), limit=10)
    data = load_task(spec)
    assert len(data.train) == 10 and len(data.dev["dev"]) == 6
    assert load_task(spec).train == data.train
    assert load_task(spec.model_copy(update={"seed": 1})).train != data.train
    assert "10 of 40 rows of train, drawn at random, seed 0" in data.notes


def test_stsb_as_sentence_vectors(tmp_path: Path) -> None:
    write_task_files(tmp_path, "stsb", ROWS)
    task = load_task(TaskSpec(task="stsb", data_dir=str(tmp_path), kind="embedding")).task
    assert (task.kind, task.name, task.metrics) == ("embedding", "stsb", ("spearman", "pearson"))


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "got neither"),
        ({"task": "rte", "train": "x.csv"}, "rte and x.csv"),
        ({"task": "rte", "kind": "regression"}, "got kind regression"),
        ({"task": "rte", "kind": "embedding"}, "got kind embedding"),
        ({"task": "rte", "text_columns": ("a",)}, "columns of its own"),
        ({"train": "x.csv", "data_dir": "y"}, "leave it out"),
    ],
)
def test_what_would_be_ignored_is_refused(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        load_task(TaskSpec(**spec))


@pytest.mark.parametrize(
    ("data", "told"),
    [({"tsk": "rte"}, 'did you mean "task"'), ({"limit": 0}, "limit is wrong"), ({"held_out": 1}, "held_out is wrong")],
)
def test_settings_are_strict(data: dict[str, Any], told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        parse_task(data)


def test_augmentation_settings_are_strict() -> None:
    with pytest.raises(TenfoldError, match='did you mean "copies"'):
        parse_augment({"copiess": 3})


def test_duplicates_but_for_case_and_spaces() -> None:
    train = Rows((("A cat.", "a dog"), ("B", "C")), (0, 1))
    rows = Rows((("A cat.", "a dog"), ("a  CAT. ", "A dog"), ("a dog", "A cat."), ("B", "c")), (0, 0, 0, 0))
    found = duplicates(rows, train)
    assert (found.rows, found.exact, found.normalised) == (4, 1, 3)
    assert normalised(("A  b",)) == ("a b",)
