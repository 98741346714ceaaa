"""What a task is: columns, labels, metrics; and its rows, split into train, dev and test."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal

Kind = Literal["classification", "multi_label", "regression", "embedding"]
Label = int | float | tuple[int, ...] | None
"""A class's index, a number, the indices of the classes that hold, or nothing where a row is unlabelled."""


@dataclass(frozen=True)
class Task:
    """metrics: by name, the headline first. labels: the names of the classes, in the order of the model's outputs.

    embedding: two texts and a score; the prediction is the cosine of their sentence vectors, and there is no head.
    """

    name: str
    kind: Kind
    columns: tuple[str, ...]
    label: str
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    length: int = 128

    @property
    def pair(self) -> bool:
        return len(self.columns) == 2

    @property
    def outputs(self) -> int:
        """How many numbers the head gives."""
        return len(self.labels) if self.kind in ("classification", "multi_label") else 1

    @property
    def problem(self) -> str:
        """transformers' problem_type."""
        names = {"classification": "single_label_classification", "multi_label": "multi_label_classification"}
        return names.get(self.kind, "regression")


@dataclass(frozen=True)
class Rows:
    """Texts, each a tuple of one or two strings, and as many labels."""

    texts: tuple[tuple[str, ...], ...]
    labels: tuple[Label, ...]

    def __post_init__(self) -> None:
        assert len(self.texts) == len(self.labels)

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Label]]:
        return iter(zip(self.texts, self.labels, strict=True))

    def take(self, indices: Sequence[int]) -> "Rows":
        return Rows(tuple(self.texts[i] for i in indices), tuple(self.labels[i] for i in indices))

    def unlabelled(self) -> "Rows":
        return replace(self, labels=(None,) * len(self))

    def __add__(self, other: "Rows") -> "Rows":
        return Rows(self.texts + other.texts, self.labels + other.labels)

    @property
    def digest(self) -> str:
        """sha256 of the content: what a score file carries."""
        return sha256(json.dumps([self.texts, self.labels], ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True)
class TaskData:
    """A task with its rows. dev: by name, several where a task has several (MNLI's matched and mismatched).

    notes: what a user should know of how the rows came about (a split that was made, rows that were left out, duplicates).
    """

    task: Task
    train: Rows
    dev: dict[str, Rows]
    test: dict[str, Rows] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
