"""Candidates from a masked language model: what it would put where a word stands, given the rest of the text.

All masked variants of all texts go through the model together, batched by length; the head sees the masked places only.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tenfold.errors import TenfoldError
from tenfold.tasks.augmentation.pieces import Pieces
from tenfold.tasks.augmentation.words import Word, others
from tenfold.text.progress import Say, duration

TOKENS = {"cpu": 4096, "cuda": 65536}
"""Of a batch, padding included."""

_ROWS = 1024
_SLACK = 8
"""Predictions that may be the word itself in another case, or each other."""


def has_head(model: Any) -> bool:
    """Whether the model predicts masked tokens: an encoder of the class that AutoModelForMaskedLM gives for its config."""
    from transformers import AutoModelForMaskedLM

    mapping = AutoModelForMaskedLM._model_mapping
    if type(model.config) not in mapping or getattr(model.config, "is_encoder_decoder", False):
        return False
    return isinstance(model, mapping[type(model.config)])


@dataclass(frozen=True)
class Variants:
    """Texts as ids, and their masked variants: text `row` with the tokens start:end replaced by one mask."""

    ids: list[list[int]]
    places: NDArray[np.int64]
    """(variants, 4): row, number of the word in it, start, end."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        whole = np.array([len(row) for row in self.ids], np.int64)
        row, _, start, end = self.places.T
        return whole[row] - (end - start) + 1

    def masked(self, variant: int, mask: int) -> tuple[list[int], int]:
        """The ids of a variant and where its mask stands."""
        row, _, start, end = self.places[variant].tolist()
        return [*self.ids[row][:start], mask, *self.ids[row][end:]], start


def fill(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    words: Sequence[Sequence[Word]],
    k: int,
    say: Say = lambda _: None,
    tokens: int | None = None,
) -> list[list[tuple[str, ...]]]:
    """For each of the words of each text up to k whole words, the most probable first; none beyond the model's length.

    The text goes through `tokenizer`, the model's own, and all the pieces of a word become one mask. `tokens`: of a batch.
    """
    _require(tokenizer)
    variants = _variants(model, tokenizer, texts, words)
    found: list[list[tuple[str, ...]]] = [[()] * len(each) for each in words]
    say(f"masked LM: {len(variants.places):,} masked words")
    whole = Pieces(tokenizer).whole
    began = said = monotonic()
    done = 0
    with _ready(model) as device:
        allowed = torch.tensor(sorted(i for i in whole if i < _width(model)), device=device)
        for batch in _batches(variants.lengths, tokens or TOKENS[device.type]):
            ranked = _predict(model, tokenizer, variants, batch, allowed, k).tolist()
            for variant, ids in zip(batch.tolist(), ranked, strict=True):
                row, word = variants.places[variant, :2].tolist()
                found[row][word] = others(words[row][word].text, [whole[i] for i in ids], k)
            done += len(batch)
            if monotonic() - said > 1:
                said = monotonic()
                left = duration((said - began) * (len(variants.places) / done - 1))
                say(f"masked LM: {done:,} of {len(variants.places):,} masked words, about {left} left")
    return found


def _require(tokenizer: Any) -> None:
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise TenfoldError("a masked LM needs a tokenizer with a mask token, got one without: name another masked LM")
    if not tokenizer.is_fast:
        raise TenfoldError(
            f"a masked LM needs a fast tokenizer, got {type(tokenizer).__name__}: take a folder that has tokenizer.json"
        )


def _variants(model: Any, tokenizer: Any, texts: Sequence[str], words: Sequence[Sequence[Word]]) -> Variants:
    if not texts:
        return Variants([], np.empty((0, 4), np.int64))
    length = _length(model, tokenizer)
    encoded = tokenizer(list(texts), truncation=True, max_length=length, return_offsets_mapping=True, verbose=False)
    places = [
        (row, number, *place)
        for row, (offsets, each) in enumerate(zip(encoded["offset_mapping"], words, strict=True))
        for number, place in enumerate(_covering(offsets, each))
        if place is not None
    ]
    return Variants(encoded["input_ids"], np.array(places, np.int64).reshape(-1, 4))


def _covering(offsets: Sequence[tuple[int, int]], words: Sequence[Word]) -> list[tuple[int, int] | None]:
    """The tokens that reach into each word, first and past the last; None where the text was cut before it ended."""
    places: list[tuple[int, int] | None] = []
    real = [(i, start, end) for i, (start, end) in enumerate(offsets) if end > start]
    at = 0
    for word in words:
        while at < len(real) and real[at][2] <= word.start:
            at += 1
        inside = [i for i, start, _ in real[at : at + len(word.text) + 1] if start < word.end]
        reached = inside and offsets[inside[-1]][1] >= word.end
        places.append((inside[0], inside[-1] + 1) if reached else None)
    return places


def _length(model: Any, tokenizer: Any) -> int:
    """Positions of RoBERTa and MPNet start at 2, so that two of those in the config are out of reach."""
    positions = getattr(model.config, "max_position_embeddings", None) or 512
    return max(1, min(int(tokenizer.model_max_length), positions - 2))


def _batches(lengths: NDArray[np.int64], tokens: int) -> Iterator[NDArray[np.int64]]:
    """Variants of about the same length together: as many as fill `tokens` when padded to the longest."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and stop - start < _ROWS and (stop + 1 - start) * lengths[order[stop]] <= tokens:
            stop += 1
        yield order[start:stop]
        start = stop


@torch.no_grad()
def _predict(model: Any, tokenizer: Any, variants: Variants, batch: NDArray[np.int64], allowed: Tensor, k: int) -> Tensor:
    """(variants of the batch, up to k + slack): ids of whole words, the most probable first."""
    rows, places = zip(*(variants.masked(variant, tokenizer.mask_token_id) for variant in batch.tolist()), strict=True)
    width = max(map(len, rows))
    padding = tokenizer.pad_token_id or 0
    ids = torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    with _only_at(model, torch.tensor(places, device=allowed.device)):
        logits = model(input_ids=ids.to(allowed.device), attention_mask=mask.to(allowed.device)).logits[:, 0]
    best = logits[:, allowed].topk(min(k + _SLACK, len(allowed))).indices
    return allowed[best]


@contextmanager
def _only_at(model: Any, places: Tensor) -> Iterator[None]:
    """The base model gives the head one place of each row: scores of a vocabulary for every token would be thrown away."""

    def keep(module: Any, args: Any, output: Any) -> Any:  # noqa: ARG001 - the signature of a hook
        hidden = output[0]
        return type(output)(last_hidden_state=hidden[torch.arange(len(places), device=hidden.device), places][:, None])

    handle = model.base_model.register_forward_hook(keep)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _ready(model: Any) -> Iterator[torch.device]:
    """In eval mode, on a CUDA device where there is one; afterwards as it was."""
    training, home = model.training, next(model.parameters()).device
    device = home if home.type == "cuda" or not torch.cuda.is_available() else torch.device("cuda")
    model.eval().to(device)
    try:
        yield device
    finally:
        model.train(training).to(home)


def _width(model: Any) -> int:
    """How many tokens the model scores."""
    return int(model.config.vocab_size)
