"""What a run learns from and is scored on: rows as token ids, read and encoded once for all its cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from tenfold.checkpoints import Source
from tenfold.compression import Progress
from tenfold.errors import TenfoldError
from tenfold.evaluation.alarms import warnings
from tenfold.evaluation.pooling import pooling_of
from tenfold.evaluation.predicting import Pooling, predict
from tenfold.finetuning.losses import Scale, balanced_weights, cosine_scale
from tenfold.finetuning.settings import Finetune
from tenfold.pipeline import tokenizer_of
from tenfold.tasks import Encoded, Task, TaskData, TaskSpec, encode, floors, load_task, score

FAR = 20
"""Scores further from 0 than this take a head long to reach at the usual rates."""


@dataclass(frozen=True)
class Material:
    """pad: the id that rows are filled with. weights: (C,) of the classes. scale: of an embedding task's scores."""

    data: TaskData
    train: Encoded
    dev: Mapping[str, Encoded]
    pad: int
    pooling: Pooling
    weights: Tensor | None
    scale: Scale | None
    notes: tuple[str, ...]

    @property
    def task(self) -> Task:
        return self.data.task

    @property
    def chooser(self) -> str:
        """The split that states and settings are chosen on: the first, so MNLI's matched one."""
        return next(iter(self.dev))

    def predict(self, model: Any, split: str) -> Any:
        return predict(model, self.dev[split], pooling=self.pooling)

    def score(self, outputs: Any, split: str) -> dict[str, float]:
        return score(self.task, outputs, self.data.dev[split].labels)

    @cached_property
    def floors(self) -> dict[str, dict[str, float]]:
        """By split and metric: what the best answer that does not look at the text scores."""
        return {split: floors(self.task, self.data.dev[split]) for split in self.dev}

    def warnings(self, who: str, outputs: Any, split: str) -> list[str]:
        """What makes these outputs' score worthless."""
        return warnings(self.task, who, outputs, split, self.data.dev[split])


def prepare(source: Source, spec: TaskSpec, settings: Finetune, progress: Progress) -> Material:
    data = load_task(spec)
    if not len(data.train) or not data.dev:
        raise TenfoldError(f"fine-tuning needs rows of train and dev, got none of {data.task.name}: choose another task")
    tokenizer = tokenizer_of(source)
    progress(f"tokenising {len(data.train):,} rows")
    train = encode(data.train, data.task, tokenizer)
    _refuse_too_long(source, train.length)
    dev = {name: encode(rows, data.task, tokenizer) for name, rows in data.dev.items()}
    cut = {"train": train, **dev}
    told = [
        f"{rows.truncated:.1%} of the {len(rows):,} rows of {name} were cut at {rows.length} tokens"
        for name, rows in cut.items()
        if rows.truncated
    ]
    pads = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
    embedding = data.task.kind == "embedding"
    assert source.folder is not None
    return Material(
        data,
        train,
        dev,
        next(pad for pad in pads if pad is not None),
        pooling_of(source.folder) if embedding else "mean",
        balanced_weights(data.task, data.train) if settings.class_weights == "balanced" else None,
        cosine_scale(data.train.labels) if embedding else None,
        (*data.notes, *told, *_scale_note(data)),
    )


def _scale_note(data: TaskData) -> list[str]:
    if data.task.kind != "regression":
        return []
    low, high = (end(data.train.labels) for end in (min, max))  # type: ignore[type-var]
    if max(abs(low), abs(high)) <= FAR:  # type: ignore[arg-type]
        return []
    return [f"scores go from {low:g} to {high:g}, a head starts near 0: it learns faster where they are scaled to about 0 to 5"]


def _refuse_too_long(source: Source, length: int) -> None:
    """A tokenizer may know no limit where the model's table of positions has one."""
    places = getattr(source.config.get_text_config(), "max_position_embeddings", None)
    if places is not None and length > places:
        raise TenfoldError(f"rows must fit the {places} positions of {source.name}, got a length of {length}: lower --length")
