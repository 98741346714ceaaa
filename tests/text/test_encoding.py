"""Passages become the ids that the tokenizer gives them, in order, on any number of threads."""

import os
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest
from pico import CORPUS, tokenizer
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, PythonBackend

from tenfold.errors import TenfoldError
from tenfold.text.encoding import Chunk, Encoder, encode

TEXTS = [text for k, sentence in enumerate(CORPUS) for text in ([sentence, ""] if k % 5 == 4 else [sentence])]
PARTS = [Chunk(TEXTS[k : k + 7], k) for k in range(0, len(TEXTS), 7)]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_ids_and_ends_in_order(workers: int) -> None:
    own = tokenizer()
    rows = [own(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    ends = np.cumsum([len(row) for row in rows])
    found = list(encode(Encoder(own), iter(PARTS), workers))
    assert [part.read for part in found] == [part.read for part in PARTS]
    assert np.concatenate([part.ids for part in found]).tolist() == list(chain.from_iterable(rows))
    shifts = np.cumsum([0, *(len(part.ids) for part in found)])
    for kind, ended in (("passages", [text != "" for text in TEXTS]), ("documents", [text == "" for text in TEXTS])):
        places = [getattr(part, kind) + shift for part, shift in zip(found, shifts, strict=False)]
        assert np.concatenate(places).tolist() == ends[ended].tolist()


def test_padding_and_truncation_of_the_tokenizer_do_not_count() -> None:
    own, plain = tokenizer(), Encoder(tokenizer())
    own.backend_tokenizer.enable_truncation(3)
    own.backend_tokenizer.enable_padding(length=50)
    assert Encoder(own)(PARTS[0]).ids.tolist() == plain(PARTS[0]).ids.tolist()
    assert Encoder(own).fingerprint() == plain.fingerprint()


def test_few_chunks_are_underway_at_once() -> None:
    taken = 0

    def parts() -> Iterator[Chunk]:
        nonlocal taken
        for part in PARTS:
            taken += 1
            yield part

    running = encode(Encoder(tokenizer()), parts(), 2)
    next(running)
    assert taken <= 6
    running.close()


def test_the_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TOKENIZERS_PARALLELISM"
    for value in ("true", None):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
        seen = [os.environ[name] for _ in encode(Encoder(tokenizer()), PARTS[:2], 1)]
        assert seen == ["false", "false"]
        assert os.environ.get(name) == value


def test_ids_are_as_wide_as_the_vocabulary_needs() -> None:
    for last, dtype in (((1 << 16) - 1, np.uint16), (1 << 16, np.uint32)):
        words = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": last}, unk_token="[UNK]"))
        encoder = Encoder(PreTrainedTokenizerFast(tokenizer_object=words))
        assert encoder.dtype == dtype
        assert encoder(Chunk(["cat", "dog"], 0)).ids.tolist() == [last, 0]


def test_sentences_end_in_full_stops_and_the_like() -> None:
    own = tokenizer()
    assert own.convert_ids_to_tokens(np.flatnonzero(Encoder(own).sentence_ends()).tolist()) == [".", "?"]


def test_a_slow_tokenizer_is_refused() -> None:
    with pytest.raises(TenfoldError, match="needs a fast tokenizer, got PythonBackend: load one"):
        Encoder(PythonBackend.__new__(PythonBackend))
