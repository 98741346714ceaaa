"""Rows of tokens on disk, as a dataset for torch's DataLoader."""

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from tenfold.errors import TenfoldError
from tenfold.text.layout import Layout

TOKENS, ROWS, META = "tokens.bin", "rows.bin", "meta.json"
"""Token ids of the text one after another; rows (n, 4) int64 as `rows.plan_rows` says; everything else."""

Item = dict[str, Tensor]


class Corpus(Dataset[Item]):
    """Item i is a row: input_ids, attention_mask and, where the tokenizer gives segment ids, token_type_ids.

    The files are mapped into memory, not read; a copy in another process maps them again.
    """

    def __init__(self, folder: Path, chosen: NDArray[np.int64] | None = None) -> None:
        self.folder, self._chosen = folder, chosen
        self.meta: dict[str, Any] = json.loads((folder / META).read_text(encoding="utf-8"))
        self._single, self._pair = (Layout(**self.meta[name]) for name in ("single", "pair"))
        self._tokens = _mapped(folder / TOKENS, self.meta["dtype"])
        self._rows = _mapped(folder / ROWS, "int64").reshape(-1, 4)

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.folder, self._chosen)

    def __len__(self) -> int:
        return len(self._rows if self._chosen is None else self._chosen)

    def __getitem__(self, i: int) -> Item:
        if not -len(self) <= i < len(self):
            raise IndexError(f"row {i} of {len(self)}")
        a, b, c, d = self._rows[i if self._chosen is None else self._chosen[i]].tolist()
        texts, layout = ([self._tokens[a:b]], self._single) if c == d else ([self._tokens[a:b], self._tokens[c:d]], self._pair)
        ids = torch.from_numpy(layout.ids(texts))
        item = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if layout.typed:
            item["token_type_ids"] = torch.from_numpy(layout.types(texts))
        return item

    def collate(self, rows: Sequence[Item]) -> Item:
        """A batch, padded at the end of each row to the longest."""
        padding = {"input_ids": self.meta["pad"], "attention_mask": 0, "token_type_ids": self.meta["pad_type"]}
        return {name: pad_sequence([row[name] for row in rows], True, padding[name]) for name in rows[0]}

    @cached_property
    def tokens(self) -> int:
        """Tokens in all rows, special ones included: the ones in attention_mask."""
        rows = self._rows if self._chosen is None else self._rows[self._chosen]
        a, b, c, d = rows.T
        pairs = int((c != d).sum())
        special = self._pair.special * pairs + self._single.special * (len(rows) - pairs)
        return int((b - a + d - c).sum()) + special

    def split(self, held_out: int) -> tuple["Corpus", "Corpus"]:
        """All rows but `held_out` ones, and those: taken at even distances, so that they come from all of the text."""
        if not 0 < held_out < len(self):
            raise TenfoldError(
                f"held-out rows must be at least 1 and leave some to train on, got {held_out} of {len(self)}: "
                "hold out fewer or give more text"
            )
        chosen = np.arange(len(self._rows)) if self._chosen is None else self._chosen
        out = (2 * np.arange(held_out) + 1) * len(chosen) // (2 * held_out)
        return Corpus(self.folder, np.delete(chosen, out)), Corpus(self.folder, chosen[out])

    def require(self, rows: int) -> None:
        """Refuse text that is smaller than one batch."""
        if len(self) < rows:
            length = self.meta["settings"]["length"]
            raise TenfoldError(
                f"text must fill at least one batch of {rows} rows of {length} tokens, got {len(self)} rows: "
                "give more text, or a smaller batch or length"
            )


def is_whole(folder: Path) -> bool:
    """Whether the files are there and as long as they were when they were written."""
    try:
        sizes = json.loads((folder / META).read_text(encoding="utf-8"))["sizes"]
        return all((folder / name).stat().st_size == sizes[name] for name in (TOKENS, ROWS))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _mapped(path: Path, dtype: str) -> NDArray[Any]:
    return np.asarray(np.memmap(path, dtype, "r"))
