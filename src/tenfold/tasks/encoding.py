"""Rows as token ids: a dataset that trainers and `predict` batch with `collate`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tenfold.tasks.task import Label, Rows, Task

KEYS = ("input_ids", "attention_mask", "token_type_ids")
SECOND = "_2"
"""Behind the names of an embedding task's second text, which is a row of its own and no segment."""

Item = dict[str, Any]
_LONGEST = 1 << 20
"""transformers says 10^30 where a tokenizer has no limit."""


class Encoded(Dataset[Item]):
    """Dicts of input_ids, attention_mask, token_type_ids (where the tokenizer gives them) and, where known, labels.

    truncated: the share of rows that were cut at `length` tokens.
    """

    def __init__(self, task: Task, items: list[Item], truncated: float, length: int, pad: dict[str, int], left: bool) -> None:
        self.task, self.items, self.truncated, self.length = task, items, truncated, length
        self._pad, self._left = pad, left

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Item:
        return self.items[index]

    def collate(self, items: Sequence[Item]) -> dict[str, Tensor]:
        """Padded to the longest row of these. labels: (b,) classes, (b,) numbers, or (b, classes) of 0 and 1."""
        batch = {key: self._padded(key, [item[key] for item in items]) for key in items[0] if key != "labels"}
        if "labels" in items[0]:
            kind = torch.long if self.task.kind == "classification" else torch.float32
            batch["labels"] = torch.tensor([item["labels"] for item in items], dtype=kind)
        return batch

    def _padded(self, key: str, rows: list[list[int]]) -> Tensor:
        width, value = max(map(len, rows)), self._pad[key.removesuffix(SECOND)]
        fill = [[value] * (width - len(row)) for row in rows]
        return torch.tensor([f + row if self._left else row + f for f, row in zip(fill, rows, strict=True)])


def encode(rows: Rows, task: Task, tokenizer: Any, length: int | None = None) -> Encoded:
    """Pairs become one row of two segments, or for an embedding task two rows. length: default the task's."""
    limit = min(length or task.length, tokenizer.model_max_length if tokenizer.model_max_length < _LONGEST else _LONGEST)
    columns = list(zip(*rows.texts, strict=True)) or [()] * len(task.columns)
    if task.kind == "embedding":
        first, cut_first = _tokens(tokenizer, limit, columns[0])
        second, cut_second = _tokens(tokenizer, limit, columns[1])
        items = [a | {f"{key}{SECOND}": value for key, value in b.items()} for a, b in zip(first, second, strict=True)]
        cut = [a or b for a, b in zip(cut_first, cut_second, strict=True)]
    else:
        items, cut = _tokens(tokenizer, limit, *columns)
    for item, label in zip(items, rows.labels, strict=True):
        if label is not None:
            item["labels"] = _target(task, label)
    fallback = tokenizer.eos_token_id or 0
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else fallback
    pads = {"input_ids": pad, "attention_mask": 0, "token_type_ids": getattr(tokenizer, "pad_token_type_id", 0)}
    return Encoded(task, items, sum(cut) / max(len(cut), 1), limit, pads, tokenizer.padding_side == "left")


def _tokens(tokenizer: Any, limit: int, *columns: Sequence[str]) -> tuple[list[Item], list[bool]]:
    """The ids of each row, and whether it was longer than `limit`."""
    if not columns[0]:
        return [], []
    texts = [list(column) for column in columns]
    found = tokenizer(*texts, truncation=True, max_length=limit)
    keys = [key for key in KEYS if key in found]
    items = [{key: list(found[key][i]) for key in keys} for i in range(len(texts[0]))]
    if found.encodings is not None:
        return items, [bool(one.overflowing) for one in found.encodings]
    whole = tokenizer(*texts, truncation=False)["input_ids"]
    return items, [len(ids) > limit for ids in whole]


def _target(task: Task, label: Label) -> int | float | list[float]:
    if task.kind == "multi_label":
        assert isinstance(label, tuple)
        return [float(c in label) for c in range(len(task.labels))]
    assert isinstance(label, int | float)
    return int(label) if task.kind == "classification" else float(label)
