"""One model's outputs on a task's rows: loaded with its own head, which must answer the task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tenfold.checkpoints import Source, find, load
from tenfold.compression import Progress
from tenfold.errors import TenfoldError
from tenfold.evaluation.pooling import pooling_of
from tenfold.evaluation.predicting import predict
from tenfold.pipeline import tokenizer_of
from tenfold.records import digest
from tenfold.tasks import Rows, Task, answers, encode, score

Array = NDArray[Any]
GENERIC = "label_"
"""How transformers calls classes that nobody named: LABEL_0, LABEL_1, ..."""


@dataclass(frozen=True)
class Answers:
    """said: in the form of `tasks.answers`, by split. scores: by split and metric. model: sha256 of the weights. doubt: what
    was taken for granted of the head."""

    name: str
    said: Mapping[str, Array]
    scores: Mapping[str, Mapping[str, float]]
    model: str
    doubt: str | None


@dataclass(frozen=True)
class Loaded:
    """A model of MODEL that scores are asked of, before its weights are read."""

    source: Source

    @classmethod
    def of(cls, model: str) -> "Loaded":
        return cls(find(model, weights=True))

    @cached_property
    def network(self) -> Any:
        return load(self.source).float().to("cuda" if torch.cuda.is_available() else "cpu")

    def answer(self, task: Task, splits: Mapping[str, Rows], say: Progress) -> Answers:
        """NaN or infinity among the outputs is an error, never a score."""
        assert self.source.folder is not None and self.source.header is not None
        order, tokenizer = self._order(task), tokenizer_of(self.source)
        pooling = pooling_of(self.source.folder) if task.kind == "embedding" else "mean"
        said, scores = {}, {}
        for split, rows in splits.items():
            encoded = encode(rows.unlabelled(), task, tokenizer)
            outputs = predict(self.network, encoded, progress=lambda text: say(f"{self.source.name}: {text}"), pooling=pooling)
            if bad := int((~np.isfinite(outputs)).any(1).sum()):
                raise TenfoldError(
                    f"outputs must be finite, got NaN or infinity in {bad} of {len(outputs)} rows of {task.name} {split} from "
                    f"{self.source.name}: the model is broken"
                )
            outputs = outputs[:, order]
            said[split], scores[split] = answers(task, outputs), score(task, outputs, rows.labels)
        return Answers(self.source.name, said, scores, digest(self.source.header.files), self._doubt(task))

    @property
    def _classes(self) -> list[str]:
        names = self.source.config.id2label
        return [str(names[k]).casefold() for k in sorted(names)]

    @property
    def _unnamed(self) -> bool:
        return all(name.startswith(GENERIC) for name in self._classes)

    def _doubt(self, task: Task) -> str | None:
        if not task.labels or not self._unnamed:
            return None
        return f"{self.source.name} does not name its classes: taken for {', '.join(task.labels)}, in this order"

    def _order(self, task: Task) -> Sequence[int]:
        """For each class of the task, which output of the head speaks of it."""
        if task.kind == "embedding":
            return [0]
        network = self.network
        if network.base_model is network or not type(network).__name__.endswith("ForSequenceClassification"):
            raise TenfoldError(
                f"{task.name} needs a model with a classification head, got {self.source.name}, a {type(network).__name__}: "
                "fine-tune it first (tenfold finetune)"
            )
        names = self._classes
        if len(names) != task.outputs:
            raise TenfoldError(
                f"the head must give {task.outputs} numbers for {task.name}, got {len(names)} from {self.source.name}: "
                "it was made for another task"
            )
        wanted = [label.casefold() for label in task.labels]
        if not wanted or self._unnamed:
            return range(len(names))
        if sorted(names) != sorted(wanted):
            raise TenfoldError(
                f"the head's classes must be those of {task.name} ({', '.join(task.labels)}), got {', '.join(names)} from "
                f"{self.source.name}: it was made for another task"
            )
        return [names.index(label) for label in wanted]
