"""A model's own input embeddings as word vectors: for any language that its tokenizer knows."""

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from tenfold.tasks.augmentation.pieces import Pieces
from tenfold.tasks.augmentation.vectors import neighbours

_IDS = 8192


class Embeddings:
    """A word of one piece has that piece's vector, one of several pieces their mean; candidates are pieces that are words."""

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name, self._model, self._pieces = f"embeddings ({name})", model, Pieces(tokenizer)

    def fingerprint(self) -> str:
        return sha256(self._vectors.numpy().tobytes()).hexdigest()

    def candidates(self, words: Sequence[str], k: int) -> dict[str, tuple[str, ...]]:
        """Words of which the tokenizer does not know a part are left out."""
        vectors = self._vectors
        whole = {i: name for i, name in self._pieces.whole.items() if i < len(vectors)}
        cut = zip(words, self._pieces.of(words), strict=True)
        known = {word: ids for word, ids in cut if ids and max(ids) < len(vectors)}
        if not known or not whole:
            return {}
        queries = torch.stack([vectors[list(ids)].mean(0) for ids in known.values()])
        return neighbours([*known], queries, [*whole.values()], vectors[[*whole]], k)

    @cached_property
    @torch.no_grad()
    def _vectors(self) -> Tensor:
        """(vocabulary, d). Asked of the module, not of its weight: a compressed model's table is a product."""
        table = self._model.get_input_embeddings()
        ids = torch.arange(table.num_embeddings, device=next(self._model.parameters()).device)
        return torch.cat([table(part).float().cpu() for part in ids.split(_IDS)])
