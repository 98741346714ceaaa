"""Passages out of a text file, one a line, decompressed on the way. A blank line ends a document."""

import gzip
import json
import lzma
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from importlib import import_module
from io import IncrementalNewlineDecoder
from pathlib import Path
from typing import IO, Any

from tenfold.errors import TenfoldError

TEXT, COMPRESSED = (".txt", ".md", ".jsonl"), (".gz", ".xz", ".zst")
"""Suffixes that are looked for in a folder: the text ones, with or without one of the others behind; or one of those alone."""

LONGEST = 1 << 16
"""Characters of a passage. A longer line is cut at a space, so that a file of one line needs no more memory than others."""

_BLOCK = 1 << 20


def passages(path: Path, key: str = "text") -> Iterator[str]:
    """The non-empty lines of a text file as UTF-8, or of the text under `key` in each line of a .jsonl file."""
    return filter(None, TextFile(path, key))


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        raise TenfoldError(f"a compressed text file must be whole, got {path}: {error}") from error
    except OSError as error:
        raise TenfoldError(f"a text file must be readable, got {path}: {error.strerror or error}") from error


class TextFile:
    """Iterates over passages, with an empty string after each document (for .jsonl: after each record).

    `read` of its `size` bytes are behind the last passage that came out.
    """

    def __init__(self, path: Path, key: str = "text") -> None:
        self.path, self.key, self.read = path, key, 0
        with _named_errors(path):
            self.size = path.stat().st_size

    @property
    def name(self) -> str:
        return str(self.path)

    def __iter__(self) -> Iterator[str]:
        found = False
        with _named_errors(self.path), self.path.open("rb") as raw:
            lines = _lines(self._decoded(raw), whole=self._is_jsonl)
            for passage in self._records(lines) if self._is_jsonl else map(str.strip, lines):
                found = found or passage != ""
                yield passage
        if not found:
            raise TenfoldError(f"a text file must hold at least one line of text, got an empty one: {self.path}")

    def fingerprint(self) -> str:
        """Changes whenever other passages would come out."""
        return f"{self.path.suffix} {self._is_jsonl} {digest(self.path)}"

    def state(self) -> object:
        """Changes whenever the file is written to."""
        with _named_errors(self.path):
            stat = self.path.stat()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns

    @property
    def _is_jsonl(self) -> bool:
        return (self.path.with_suffix("") if self.path.suffix in COMPRESSED else self.path).suffix == ".jsonl"

    def _decoded(self, raw: IO[bytes]) -> Iterator[str]:
        decoder = IncrementalNewlineDecoder(getincrementaldecoder("utf-8-sig")(), translate=True)
        done = 0
        for block in _blocks(self.path, raw):
            self.read, done = raw.tell(), done + len(block)
            yield self._text(decoder, block, done)
        yield self._text(decoder, b"", done)

    def _text(self, decoder: IncrementalNewlineDecoder, block: bytes, done: int) -> str:
        """Decodes a block; an empty one is the last. `done` bytes were read with it."""
        if b"\0" in block:
            raise TenfoldError(
                f"a text file must be UTF-8 text, got zero bytes in {self.path}: is it a binary file, or UTF-16?"
            )
        try:
            return decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            at = done - len(error.object) + error.start
            raise TenfoldError(
                f"a text file must be UTF-8, got {self.path} ({error.reason} at byte {at}): convert it first"
            ) from error

    def _records(self, lines: Iterator[str]) -> Iterator[str]:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield from document(self._value(line, number))

    def _value(self, line: str, number: int) -> str:
        rule = f'a line of JSONL must be an object with text under "{self.key}"'
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = getattr(error, "msg", error)
            raise TenfoldError(f"{rule}, got no JSON in line {number} of {self.path} ({why}): repair it") from error
        if isinstance(record, dict) and isinstance(text := record.get(self.key), str):
            return text.encode("utf-8", "replace").decode()  # JSON can hold halves of characters
        got = f"the keys {', '.join(record)}" if isinstance(record, dict) else f"a {type(record).__name__}"
        raise TenfoldError(f"{rule}, got {got} in line {number} of {self.path}: set key to the one that holds the text")


def digest(path: Path) -> str:
    with _named_errors(path), path.open("rb") as raw:
        return file_digest(raw, "sha256").hexdigest()


def document(text: str) -> Iterator[str]:
    """The passages of one document, and the empty string that ends it."""
    for line in text.split("\n"):
        *pieces, rest = _pieces(line)
        yield from filter(None, map(str.strip, (*pieces, rest)))
    yield ""


def _lines(blocks: Iterator[str], whole: bool) -> Iterator[str]:
    """Lines of at most LONGEST characters, or of any length where they must be `whole`."""
    rest = ""
    for block in blocks:
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            yield from [line] if whole else _pieces(line)
        if not whole:
            *pieces, rest = _pieces(rest)
            yield from pieces
    yield rest


def _pieces(line: str) -> list[str]:
    """A line cut at the last space before each LONGEST characters; where there is none, right there."""
    pieces = []
    while len(line) > LONGEST:
        cut = line.rfind(" ", 1, LONGEST)
        cut = cut if cut > 0 else LONGEST
        pieces.append(line[:cut])
        line = line[cut:]
    return [*pieces, line]


def _blocks(path: Path, raw: IO[bytes]) -> Iterator[bytes]:
    if path.suffix == ".zst":
        return _zst_blocks(raw)
    stream: Any = raw
    if path.suffix == ".xz":
        stream = lzma.open(raw)  # noqa: SIM115 - closed with raw
    elif path.suffix == ".gz":
        stream = gzip.open(raw)  # noqa: SIM115
    return iter(lambda: stream.read(_BLOCK), b"")


def _zst_blocks(raw: IO[bytes]) -> Iterator[bytes]:
    """Frame by frame by hand: zstandard's own streams take a file that was cut off for a whole one."""
    zstandard = optional("zstandard", "a .zst file")
    frame = None
    while chunk := raw.read(_BLOCK // 8):
        while chunk:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            try:
                if block := frame.decompress(chunk):
                    yield block
            except zstandard.ZstdError as error:
                raise EOFError(error) from error
            chunk, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame:
        raise EOFError("the file ended before the end of its last frame")


def optional(package: str, what: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise TenfoldError(f"reading {what} needs the package {package}, got none ({error}): pip install {package}") from error
