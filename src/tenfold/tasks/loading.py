"""From what the user says to a task with its rows."""

from dataclasses import replace
from pathlib import Path

from tenfold.errors import TenfoldError
from tenfold.tasks.duplicates import duplicates
from tenfold.tasks.glue import GlueTask, glue_task
from tenfold.tasks.official import read_official
from tenfold.tasks.own import read_own, read_rows
from tenfold.tasks.spec import TaskSpec
from tenfold.tasks.splitting import at_most, split
from tenfold.tasks.tables import load_hub
from tenfold.tasks.task import Label, Rows, Task, TaskData


def load_task(spec: TaskSpec) -> TaskData:
    """A GLUE task, or the user's own; with the slice that is held out, and at most `limit` rows of train.

    With `held_out`, dev is that slice of train and nothing else: settings are chosen on rows that are not reported.
    """
    if (spec.task is None) == (spec.train is None):
        got = "neither" if spec.task is None else f"{spec.task} and {spec.train}"
        raise TenfoldError(f"a task is either one of GLUE's (--task) or your own rows (--train), got {got}")
    _refuse_ignored(spec)
    data = read_own(spec) if spec.task is None else _glue(spec, glue_task(spec.task))
    if spec.length is not None:
        data = replace(data, task=replace(data.task, length=spec.length))
    notes = [*data.notes, *_seen(data)]
    if spec.held_out:
        rest, drawn = split(data.train, data.task, spec.held_out, spec.seed)
        notes.append(f"held out {len(drawn)} of {len(data.train)} rows of train in place of dev, seed {spec.seed}")
        data = replace(data, train=rest, dev={"held_out": drawn})
    if len(limited := at_most(data.train, spec.limit, spec.seed)) < len(data.train):
        notes.append(f"{len(limited)} of {len(data.train)} rows of train, drawn at random, seed {spec.seed}")
    _refuse_empty_classes(data.task, limited)
    return replace(data, train=limited, notes=tuple(notes))


def _refuse_ignored(spec: TaskSpec) -> None:
    """What would change nothing. A task of GLUE may be taken for sentence vectors where it is pairs with a score."""
    if spec.task is None:
        if spec.data_dir is not None:
            raise TenfoldError(f"--data-dir is where GLUE's files are, got {spec.data_dir} with your own rows: leave it out")
        return
    kind = glue_task(spec.task).task.kind
    if spec.kind not in ("auto", kind) and (spec.kind, kind) != ("embedding", "regression"):
        raise TenfoldError(f"{spec.task} is a task of kind {kind}, got kind {spec.kind}: leave it out")
    if (spec.text_columns or spec.label_column) and not (spec.dev or spec.test):
        raise TenfoldError(f"{spec.task} has columns of its own, got others: they are for your own rows (--train, --dev)")


def load_rows(task: Task, spec: str) -> Rows:
    """Labelled rows of a table of the user's for a task that is known already."""
    return read_rows(task, spec, "dev")


def _glue(spec: TaskSpec, row: GlueTask) -> TaskData:
    data = read_official(row, Path(spec.data_dir).expanduser()) if spec.data_dir else _hub(row)
    if spec.kind == "embedding":
        data = replace(data, task=replace(data.task, kind="embedding"))
    chosen = replace(data.task, columns=spec.text_columns or data.task.columns, label=spec.label_column or data.task.label)
    if spec.dev or spec.test:
        dev = {"dev": read_rows(chosen, spec.dev, "dev")} if spec.dev else data.dev
        data = replace(data, dev=dev, test={"test": read_rows(chosen, spec.test, "test")} if spec.test else data.test)
    return data


def _hub(row: GlueTask) -> TaskData:
    """nyu-mll/glue: the same rows as the official folder, in its order."""
    parts = {
        part: {name: _hub_rows(row, _hub_split(part, name)) for name in row.files.get(part, {})}
        for part in ("train", "dev", "test")
    }
    return TaskData(row.task, parts["train"].get("train", Rows((), ())), parts["dev"], parts["test"])


def _hub_split(part: str, name: str) -> str:
    split = "validation" if part == "dev" else part
    return f"{split}_{name}" if name in ("matched", "mismatched") else split


def _hub_rows(row: GlueTask, split: str) -> Rows:
    table = load_hub("nyu-mll/glue", row.task.name, split)
    texts = tuple(zip(*(table[name] for name in row.task.columns), strict=True))
    labels: list[Label] = [_hub_label(row.task, value, split) for value in table[row.task.label]]
    return Rows(texts, tuple(labels))


def _hub_label(task: Task, value: object, split: str) -> Label:
    if split.startswith("test"):
        return None
    return float(str(value)) if task.kind == "regression" else task.labels.index(str(value))


def _seen(data: TaskData) -> list[str]:
    found = [(name, duplicates(rows, data.train)) for name, rows in data.dev.items()]
    return [
        f"{each.normalised} of {each.rows} rows of {name} have the text of a training row ({each.exact} exactly, the others "
        "but for case and spaces)"
        for name, each in found
        if each.normalised
    ]


def _refuse_empty_classes(task: Task, train: Rows) -> None:
    if not len(train):
        return
    held = {c for label in train.labels for c in (label if isinstance(label, tuple) else (label,))}
    if empty := [name for c, name in enumerate(task.labels) if c not in held]:
        raise TenfoldError(
            f"every class needs rows in train, got none for {', '.join(empty)}: add rows, or raise the limit on train"
        )
