"""Text to a folder of rows: tokenised once, then found again by what it was made of."""

import json
import os
from array import array
from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tenfold.errors import TenfoldError
from tenfold.folders import cache_folder, complete_folder
from tenfold.text.corpus import META, ROWS, TOKENS, Corpus, is_whole
from tenfold.text.encoding import Chunk, Encoded, Encoder, chunks, encode
from tenfold.text.layout import Layout, layout
from tenfold.text.progress import Meter, Say
from tenfold.text.rows import Stream, plan_rows
from tenfold.text.settings import Settings
from tenfold.text.sources import Source, Spec, sources

_FORMAT = 1
"""To be raised whenever the same text would give other files."""


def build(
    spec: Spec,
    tokenizer: Any,
    settings: Settings,
    cache_dir: Path | None = None,
    workers: int | None = None,
    progress: Say | None = None,
) -> Corpus:
    """The rows of a text: from the cache where the tokenizer, the content of all files and the settings are the same.

    The cache is $TENFOLD_CACHE/corpora, or ~/.cache/tenfold/corpora. `workers`: cores, by default all; the outcome is the
    same for any number. `progress` gets a line about every second.
    """
    say = progress or (lambda _: None)
    cores = _cores() if workers is None else workers
    if cores < 1:
        raise TenfoldError(f"workers must be at least 1, got {cores}: leave them out for all cores")
    encoder, texts = Encoder(tokenizer), sources(spec, settings.key)
    meta = _meta(tokenizer, encoder, settings)
    states = [source.state() for source in texts]
    folder = Path(cache_dir or cache_folder("corpora")) / _key(encoder, meta, texts)
    if is_whole(folder):
        say(f"tokens from the cache: {folder}")
        return Corpus(folder)
    if folder.exists():
        say(f"warning: the tokens in the cache are damaged, making them again: {folder}")
    with suppress(_AlreadyThere), complete_folder(folder, force=True) as partial:
        _write(partial, texts, encoder, settings, meta, cores, say)
        _refuse_changed(texts, states)
        if is_whole(folder):
            raise _AlreadyThere
    return Corpus(folder)


class _AlreadyThere(Exception):
    """Another process made the same meanwhile and may be reading it."""


def _meta(tokenizer: Any, encoder: Encoder, settings: Settings) -> dict[str, Any]:
    single, pair = layout(tokenizer, 1), layout(tokenizer, 2)
    least = max(single.special + 1, pair.special + 2)
    if settings.length < least:
        raise TenfoldError(
            f"a row must have room for special tokens and text, at least {least} tokens, got length {settings.length}: raise it"
        )
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    return {
        "format": _FORMAT,
        "dtype": encoder.dtype.name,
        "pad": pad,
        "pad_type": tokenizer.pad_token_type_id,
        "single": single.as_dict(),
        "pair": pair.as_dict(),
        "settings": settings.as_dict(),
    }


def _key(encoder: Encoder, meta: dict[str, Any], texts: list[Source]) -> str:
    made_of = [meta, encoder.fingerprint(), *(source.fingerprint() for source in texts)]
    return sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def _write(
    folder: Path, texts: list[Source], encoder: Encoder, settings: Settings, meta: dict[str, Any], workers: int, say: Say
) -> None:
    meter = Meter(say, sum(source.size for source in texts), settings.limit)
    with closing(encode(encoder, _chunks(texts), workers)) as parts, (folder / TOKENS).open("wb") as file:
        passages, documents = _write_tokens(file, parts, settings.limit, meter)
    count = int(documents[-1])
    tokens = np.memmap(folder / TOKENS, encoder.dtype, "r") if count else np.empty(0, encoder.dtype)
    say(f"arranging {count:,} tokens in rows")
    stream = Stream(np.asarray(tokens), passages, documents, encoder.sentence_ends())
    single, pair = (settings.length - Layout(**meta[name]).special for name in ("single", "pair"))
    rows = plan_rows(stream, single, pair, settings)
    if not len(rows):
        raise TenfoldError(_too_short(settings, count, texts))
    rows.tofile(folder / ROWS)
    meta |= {"sizes": {name: (folder / name).stat().st_size for name in (TOKENS, ROWS)}}
    (folder / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")
    meter.end(count, len(rows))


def _too_short(settings: Settings, count: int, texts: list[Source]) -> str:
    got = f"got {count} tokens from {', '.join(source.name for source in texts)}"
    remedy = "give more text, a smaller length, or mode paragraph"
    return f"text must fill at least one row of {settings.length} tokens, {got}: {remedy}"


def _chunks(texts: list[Source]) -> Iterator[Chunk]:
    before = 0
    for source in texts:
        yield from chunks(source, before)
        before += source.size


def _write_tokens(
    file: BinaryIO, parts: Iterator[Encoded], limit: int | None, meter: Meter
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Appends the ids to the file and returns where passages and documents end, the last ones at the end of the tokens."""
    passages, documents, count = array("q"), array("q"), 0
    for part in parts:
        part.ids.tofile(file)
        passages.frombytes((part.passages + count).tobytes())
        documents.frombytes((part.documents + count).tobytes())
        count += len(part.ids)
        meter.update(part.read, count)
        if limit and count >= limit:
            count = limit
            file.truncate(count * part.ids.itemsize)
            break
    return _ends(passages, count), _ends(documents, count)


def _ends(places: "array[int]", count: int) -> NDArray[np.int64]:
    ends = np.frombuffer(places, np.int64) if places else np.empty(0, np.int64)
    return np.append(ends[ends < count], count)


def _refuse_changed(texts: list[Source], states: list[object]) -> None:
    for source, state in zip(texts, states, strict=True):
        if source.state() != state:
            raise TenfoldError(f"text must not change while it is read, got a change in {source.name}: start again")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
