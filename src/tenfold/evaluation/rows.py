"""Which rows a model is scored on, and which it learnt from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tenfold.errors import TenfoldError
from tenfold.tasks import Kind, Rows, Task, TaskData, TaskSpec, duplicates, load_rows, load_task
from tenfold.tasks.columns import choose_columns
from tenfold.tasks.metrics import METRICS
from tenfold.tasks.tables import read_table


@dataclass(frozen=True)
class Scored:
    """splits: labelled rows. warnings: by split, what is wrong with them."""

    task: Task
    splits: Mapping[str, Rows]
    warnings: Mapping[str, tuple[str, ...]]


def rows_for(made: tuple[Task, TaskSpec] | None, asked: TaskSpec | None, config: Any, name: str) -> Scored:
    """Dev (all of it, also where settings were chosen on a slice of train) and a labelled test split; `asked` says otherwise.

    made: what the model was made for. Without, the task is the one asked, or read off the model's head.
    """
    if made is None:
        return _foreign(asked, config, name)
    task, spec = made
    given = {key: getattr(asked, key) for key in asked.model_fields_set} if asked is not None else {}
    if "train" in given:
        raise TenfoldError(f"{name} was made for rows of its own, got --train as well: leave it out, or give --dev")
    task = replace(task, columns=given.get("text_columns") or task.columns, label=given.get("label_column") or task.label)
    places = {key: given[key] for key in ("data_dir",) if key in given}
    if asked is not None and asked.dev is not None:
        return _checked(task, {"dev": load_rows(task, asked.dev)}, *_learnt(spec.model_copy(update=places)))
    data = load_task(spec.model_copy(update={**places, "held_out": 0.0}))
    if (data.task.kind, data.task.labels) != (task.kind, task.labels):
        raise TenfoldError(
            f"the rows of {name} must have the classes that it learnt, got {', '.join(data.task.labels)} instead of "
            f"{', '.join(task.labels)}: have they changed? name others with --dev"
        )
    learnt, why = (data.train, None) if not spec.held_out else _learnt(spec.model_copy(update=places))
    return _checked(task, _splits(data), learnt, why)


def _foreign(asked: TaskSpec | None, config: Any, name: str) -> Scored:
    """A model that nobody's task.json speaks for."""
    if asked is None or (asked.task is None and asked.train is None and asked.dev is None):
        raise TenfoldError(
            f"{name} does not say what it was made for, got no task either: name one (--task sst2) or give --dev FILE"
        )
    if asked.task is not None or asked.train is not None:
        data = load_task(asked)
        return _checked(data.task, _splits(data), data.train, None)
    assert asked.dev is not None
    table = read_table(asked.dev, "validation")
    columns = choose_columns(table, asked.dev, asked.text_columns, asked.label_column)
    kind = _kind(config, columns.texts) if asked.kind == "auto" else asked.kind
    classes = kind in ("classification", "multi_label")
    labels = tuple(str(config.id2label[k]) for k in sorted(config.id2label)) if classes else ()
    task = Task("own", kind, columns.texts, columns.label, labels, METRICS[kind], asked.length or 128)
    return _checked(task, {"dev": load_rows(task, asked.dev)}, None, "it does not say what it learnt from")


def _splits(data: TaskData) -> dict[str, Rows]:
    """Dev and test, which have the same names where there are several (MNLI's)."""
    return {**data.dev, **{name if name == "test" else f"test_{name}": rows for name, rows in data.test.items()}}


def _kind(config: Any, texts: tuple[str, ...]) -> Kind:
    """What a head answers, as its config says; two texts without a head are compared by their vectors."""
    names = getattr(config, "architectures", None) or [""]
    if len(texts) == 2 and not names[0].endswith("ForSequenceClassification"):
        return "embedding"
    if config.problem_type == "multi_label_classification":
        return "multi_label"
    return "classification" if config.num_labels > 1 else "regression"


def _learnt(spec: TaskSpec) -> tuple[Rows | None, str | None]:
    """The rows that the model was trained on, or why they cannot be had any more."""
    try:
        return load_task(spec).train, None
    except TenfoldError as error:
        return None, str(error)


def _checked(task: Task, splits: Mapping[str, Rows], learnt: Rows | None, why: str | None) -> Scored:
    """Splits without labels are left out: there is nothing to score them against."""
    labelled = {split: rows for split, rows in splits.items() if len(rows) and None not in rows.labels}
    if not labelled:
        raise TenfoldError(f"scores need labelled rows, got none of {task.name}: its answers go to the server (tenfold submit)")
    return Scored(task, labelled, {split: _seen(rows, learnt, why) for split, rows in labelled.items()})


def _seen(rows: Rows, learnt: Rows | None, why: str | None) -> tuple[str, ...]:
    if learnt is None:
        return (f"whether these rows were seen in training could not be checked: {why}",)
    found = duplicates(rows, learnt)
    if not found.normalised:
        return ()
    return (
        f"{found.normalised} of {found.rows} rows were seen in training: {found.exact} have exactly the text of a training "
        f"row, {found.normalised - found.exact} but for case and spaces",
    )
