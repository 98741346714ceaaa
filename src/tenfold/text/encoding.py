"""Passages to token ids, on several cores, in the order in which they came."""

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tenfold.errors import TenfoldError

_CHUNK = 1 << 18
"""Characters that a core takes at a time."""

_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")


@dataclass(frozen=True)
class Chunk:
    """Passages, an empty one after each document; `read`: how many bytes were read up to here."""

    texts: list[str]
    read: int


@dataclass(frozen=True)
class Encoded:
    """Token ids, where passages and documents end in them."""

    ids: NDArray[Any]
    passages: NDArray[np.int64]
    documents: NDArray[np.int64]
    read: int


class Encoder:
    """The tokenizer without special tokens, padding and truncation."""

    def __init__(self, tokenizer: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise TenfoldError(
                f"text needs a fast tokenizer, got {type(tokenizer).__name__}: "
                "load one with AutoTokenizer from a folder that has tokenizer.json"
            )
        self._tokenizer = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = getattr(tokenizer, "split_special_tokens", False)
        self._ids = self._tokenizer.get_vocab(with_added_tokens=True)
        self.dtype = np.dtype(np.uint16 if max(self._ids.values()) < 1 << 16 else np.uint32)

    def fingerprint(self) -> str:
        return f"{self._tokenizer.encode_special_tokens} {self._tokenizer.to_str()}"

    def sentence_ends(self) -> NDArray[np.bool_]:
        """Which ids end a sentence: those of tokens that end in a full stop or the like."""
        table = np.zeros(max(self._ids.values()) + 1, bool)
        table[[i for token, i in self._ids.items() if token.endswith(_SENTENCE_ENDS)]] = True
        return table

    def __call__(self, chunk: Chunk) -> Encoded:
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(chunk.texts, add_special_tokens=False)]
        ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(rows), self.dtype, ends[-1])
        marks = np.array([not text for text in chunk.texts])
        return Encoded(ids, ends[~marks], ends[marks], chunk.read)


def chunks(source: Any, before: int = 0) -> Iterator[Chunk]:
    """The passages of a source in chunks; `before` bytes were read before it."""
    texts: list[str] = []
    size = 0
    for text in chain(source, [""]):
        texts.append(text)
        size += len(text)
        if size >= _CHUNK:
            yield Chunk(texts, before + source.read)
            texts, size = [], 0
    if texts:
        yield Chunk(texts, before + source.read)


def encode(encoder: Encoder, parts: Iterable[Chunk], workers: int) -> Generator[Encoded]:
    """In order. Threads, for the tokenizer works without Python's lock: on two cores they were faster than processes, which
    also need memory of their own and a `__main__` guard in the script of the user."""
    pending: deque[Future[Encoded]] = deque()
    with _one_thread_a_call(), ThreadPoolExecutor(workers) as pool:
        try:
            for part in parts:
                pending.append(pool.submit(encoder, part))
                if len(pending) > 2 * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread_a_call() -> Iterator[None]:
    """The tokenizers library starts no threads of its own; this also spares its users the warning at a later fork."""
    name = "TOKENIZERS_PARALLELISM"
    old = os.environ.get(name)
    os.environ[name] = "false"
    try:
        yield
    finally:
        if old is None:
            del os.environ[name]
        else:
            os.environ[name] = old
