"""What a stage trains on and is measured on: rows of text, or a task's rows."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset, Subset

from tenfold.compression import Progress
from tenfold.distillation.blocks import unwrap
from tenfold.distillation.losses import IGNORED
from tenfold.distillation.pairing import EMBEDDING
from tenfold.distillation.stage import Stage
from tenfold.errors import TenfoldError
from tenfold.evaluation.alarms import warnings
from tenfold.evaluation.predicting import Pooling, predict
from tenfold.tasks import Encoded, encode, score
from tenfold.tasks.own import read_rows
from tenfold.tasks.task import Rows, Task, TaskData
from tenfold.text import build

MEASURED = 1000
"""Rows of a dev set that losses are measured on; scores take all of them."""
SHORT, LONG, PASSES = 3, 30, 60_000
"""Epochs of the task stage lie between these; in between a run sees so many rows."""


@dataclass(frozen=True)
class Material:
    """row_tokens: real tokens of a row, in the mean. rows: what an epoch is, however many copies augmentation adds.

    content: a name that is another where the rows are others, so that a run does not go on with other data.
    """

    train: Dataset[Any]
    held_out: Dataset[Any]
    collate: Callable[[Any], dict[str, Any]]
    row_tokens: float
    rows: int
    content: str
    data: TaskData | None = None
    notes: tuple[str, ...] = ()
    dev: Mapping[str, Encoded] = field(default_factory=dict)
    pooling: Pooling = "mean"

    def steps(self, stage: Stage) -> int:
        assert stage.batch is not None
        if self.data is None:
            return max(1, round(stage.tokens / (stage.batch * self.row_tokens)))
        epochs = stage.epochs or min(max(PASSES / self.rows, SHORT), LONG)
        return max(1, round(epochs * self.rows / stage.batch))

    def headline(self, student: Any) -> dict[str, float]:
        """The first metric on the first dev split, as `score`: what the best state is chosen by."""
        assert self.data is not None
        split = next(iter(self.dev))
        scores = score(self.data.task, self._outputs(student, split), self.data.dev[split].labels)
        return {"score": next(iter(scores.values()))}

    def scored(self, student: Any) -> tuple[dict[str, dict[str, float]], list[str]]:
        """All metrics on all dev splits, and what makes them worthless: one answer to all rows, no better than the floor."""
        scores: dict[str, dict[str, float]] = {}
        told: list[str] = []
        for split in self.dev:
            outputs = self._outputs(student, split)
            assert self.data is not None
            scores[split] = score(self.data.task, outputs, self.data.dev[split].labels)
            told += warnings(self.data.task, "the student", outputs, split, self.data.dev[split])
        return scores, told

    def _outputs(self, student: Any, split: str) -> Any:
        return predict(unwrap(student), self.dev[split], pooling=self.pooling)


def general_material(stage: Stage, tokenizer: Any, progress: Progress) -> Material:
    assert stage.text is not None and stage.batch is not None
    corpus = build(stage.text, tokenizer, stage.corpus, progress=progress)
    corpus.require(stage.held_out + stage.batch)
    train, held_out = corpus.split(stage.held_out)
    return Material(train, held_out, corpus.collate, corpus.tokens / len(corpus), len(train), corpus.folder.name)


def task_material(stage: Stage, data: TaskData, tokenizer: Any, teacher: Any, progress: Progress) -> Material:
    """The task's training rows with their changed copies, and its first dev split."""
    assert stage.task is not None and stage.batch is not None
    if not len(data.train) or not data.dev:
        raise TenfoldError(f"the task stage needs rows to train and to measure on, got none for {data.task.name}: take another")
    rows, notes = _augmented(stage, data, tokenizer, teacher, progress)
    progress(f"tokenising {len(rows):,} rows")
    train = _inputs(rows, data.task, tokenizer, stage.task.length)
    if len(train) < stage.batch:
        raise TenfoldError(f"a task must fill at least one batch of {stage.batch} rows, got {len(train)}: give a smaller batch")
    if cut := train.encoded.truncated:
        notes.append(f"{cut:.1%} of the rows were cut at {train.encoded.length} tokens")
    measured = _inputs(next(iter(data.dev.values())), data.task, tokenizer, stage.task.length)
    return Material(
        train,
        Subset(measured, range(min(MEASURED, len(measured)))),
        train.encoded.collate,
        row_tokens=sum(len(item["input_ids"]) for item in train.encoded.items) / len(train),
        rows=len(data.train) * (2 if data.task.kind == EMBEDDING else 1),
        content=hashlib.sha256(" ".join(part.digest for part in (rows, *data.dev.values())).encode()).hexdigest(),
        data=data,
        notes=tuple(notes),
        dev={split: encode(part, data.task, tokenizer, stage.task.length) for split, part in data.dev.items()},
        pooling=stage.pooling or "mean",
    )


def _augmented(stage: Stage, data: TaskData, tokenizer: Any, teacher: Any, progress: Progress) -> tuple[Rows, list[str]]:
    """All rows to train on, and what is to be said of them."""
    rows, notes = data.train, list(data.notes)
    if stage.unlabelled is not None:
        more = read_rows(data.task, stage.unlabelled, "test").unlabelled()
        rows += more
        notes.append(f"{len(more):,} more rows of {Path(stage.unlabelled).name}, labelled by the teacher")
    if stage.augment is None:
        return rows, notes
    from tenfold.tasks.augmentation import augment

    copies = augment(data.train, data.task, stage.augment, tokenizer, teacher, progress)
    notes.append(f"augmentation: {len(copies):,} changed copies of {len(data.train):,} rows, labelled by the teacher")
    return rows + copies, notes


class Inputs(Dataset[Any]):
    """Encoded rows that all have labels: ones that do not count where a row has none of its own."""

    def __init__(self, encoded: Encoded, missing: Any) -> None:
        self.encoded, self.missing = encoded, missing

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"labels": self.missing, **self.encoded[index]}


def _inputs(rows: Rows, task: Task, tokenizer: Any, length: int | None) -> Inputs:
    """An embedding task's texts are rows of their own: there is nothing to say of two at once."""
    if task.kind == EMBEDDING:
        texts = tuple((text,) for pair in rows.texts for text in pair)
        rows = Rows(texts, (None,) * len(texts))
        task = replace(task, kind="regression", columns=("text",))
    missing: Any = math.nan
    if task.kind == "classification":
        missing = IGNORED
    elif task.kind == "multi_label":
        missing = [math.nan] * task.outputs
    return Inputs(encode(rows, task, tokenizer, length), missing)
