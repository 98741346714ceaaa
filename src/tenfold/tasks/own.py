"""The user's own tables as a task: what was guessed and what was left out is said in notes."""

from collections.abc import Sequence
from typing import Any

from tenfold.errors import TenfoldError
from tenfold.tasks.columns import choose_columns
from tenfold.tasks.labels import class_names, guess_kind, refuse_missing, to_labels
from tenfold.tasks.metrics import METRICS
from tenfold.tasks.spec import TaskSpec
from tenfold.tasks.splitting import split
from tenfold.tasks.tables import Columns, column, read_table
from tenfold.tasks.task import Kind, Rows, Task, TaskData

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
"""What a dataset of the hub calls them, where its name does not say."""


def read_own(spec: TaskSpec) -> TaskData:
    """Train, dev (out of train where there is none) and test (unlabelled where it has no label column)."""
    assert spec.train is not None
    table = read_table(spec.train)
    chosen = choose_columns(table, spec.train, spec.text_columns, spec.label_column)
    values = table[chosen.label]
    kind: Kind = guess_kind(values) if spec.kind == "auto" else spec.kind
    refuse_missing(kind, values, chosen.label, spec.train)
    if kind == "embedding" and len(chosen.texts) != 2:
        raise TenfoldError(f"an embedding task compares two texts, got {chosen.texts[0]} alone: name two text columns")
    names = class_names(kind, values, chosen.label)
    task = Task("own", kind, chosen.texts, chosen.label, names, METRICS[kind], spec.length or 128)
    train = Rows(_texts(table, task.columns, spec.train), to_labels(kind, values, names, spec.train))
    notes = [chosen.note] if chosen.note else []
    if spec.kind == "auto":
        notes.append(f"taken for {_told(task)}; --kind says otherwise")
    test = {"test": read_rows(task, spec.test, "test")} if spec.test else {}
    if spec.dev:
        return TaskData(task, train, {"dev": read_rows(task, spec.dev, "dev")}, test, tuple(notes))
    rest, drawn = split(train, task, spec.dev_share, spec.seed)
    if not len(drawn):
        raise TenfoldError(f"a dev split of {spec.dev_share:.0%} needs more rows than the {len(train)} of train: give --dev")
    notes.append(f"no dev split was given: {len(drawn)} of {len(train)} rows of train, stratified, seed {spec.seed}")
    return TaskData(task, rest, {"dev": drawn}, test, tuple(notes))


def read_rows(task: Task, spec: str, part: str) -> Rows:
    """More rows for a task that is known already; its columns must be there, for a test split not the label."""
    table = read_table(spec, SPLITS[part])
    texts = _texts(table, task.columns, spec)
    values: Sequence[Any] | None = table.get(task.label)
    if part == "test" and (values is None or all(value in (None, "") for value in values)):
        return Rows(texts, (None,) * len(texts))
    values = column(table, task.label, spec)
    refuse_missing(task.kind, values, task.label, spec)
    return Rows(texts, to_labels(task.kind, values, task.labels, spec))


def _texts(table: Columns, names: tuple[str, ...], spec: str) -> tuple[tuple[str, ...], ...]:
    found = []
    for name in names:
        values = column(table, name, spec)
        if strange := [value for value in values if not isinstance(value, str | None)]:
            raise TenfoldError(f'text must be strings, got {strange[0]!r} in the column "{name}" of {spec}: name another')
        if empty := [i for i, value in enumerate(values, 1) if not (value or "").strip()]:
            raise TenfoldError(
                f'text must not be empty, got {len(empty)} empty cells in the column "{name}" of {spec}, the first in row '
                f"{empty[0]}: remove those rows"
            )
        found.append([value.strip() for value in values])
    return tuple(zip(*found, strict=True))


def _told(task: Task) -> str:
    shown = f"{', '.join(task.labels[:6])}{' ...' if task.labels[6:] else ''}"
    if task.kind == "multi_label":
        return f"{len(task.labels)} labels of which several may hold ({shown})"
    return f"{len(task.labels)} classes ({shown})" if task.labels else "a score (regression)"
