"""Passages out of a text file, one a line, decompressed on the way."""

import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tenfold.errors import TenfoldError


def passages(path: Path) -> Iterator[str]:
    """The non-empty lines of a .txt, .gz or .xz file, as UTF-8."""
    found = False
    try:
        with _open(path) as stream:
            for line in stream:
                if "\0" in line:
                    raise TenfoldError(f"a text file must be text, got zero bytes in {path}: is it a binary file?")
                if text := line.strip():
                    found = True
                    yield text
    except UnicodeDecodeError as error:
        raise TenfoldError(
            f"a text file must be UTF-8, got {path} ({error.reason} at byte {error.start}): convert it first"
        ) from error
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise TenfoldError(f"a compressed text file must be whole, got {path}: {error}") from error
    except OSError as error:
        raise TenfoldError(f"a text file must be readable, got {path}: {error.strerror or error}") from error
    if not found:
        raise TenfoldError(f"a text file must hold at least one line of text, got an empty one: {path}")


def _open(path: Path) -> IO[str]:
    if path.suffix == ".xz":
        return lzma.open(path, "rt", encoding="utf-8")
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
