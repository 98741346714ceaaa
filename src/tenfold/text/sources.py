"""What a user may name as text: files, folders, globs, and `datasets:NAME[:CONFIG][:SPLIT][:COLUMN]`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any, Protocol

from tenfold.errors import TenfoldError
from tenfold.text.reading import COMPRESSED, TEXT, TextFile, digest, document, optional

Spec = str | Path | Sequence[str | Path]


class Source(Protocol):
    """Iterates over passages, with an empty string after each document; `read` of its `size` bytes are behind the last one."""

    read: int
    size: int

    @property
    def name(self) -> str: ...
    def __iter__(self) -> Iterator[str]: ...
    def fingerprint(self) -> str:
        """Changes whenever other passages would come out."""
        ...

    def state(self) -> object:
        """The same before and after reading, unless somebody wrote in between."""
        ...


def sources(spec: Spec, key: str = "text") -> list[Source]:
    """What the spec names, in its order; folders and globs sorted; a file that is named twice comes once."""
    found: dict[str, Source] = {}
    for one in [spec] if isinstance(spec, str | Path) else spec:
        if one == "":
            raise TenfoldError(
                "text must be a file, a folder, a glob or datasets:NAME, got an empty name: is a variable unset?"
            )
        if str(one).startswith("datasets:"):
            found[str(one)] = NamedDataset(str(one))
        else:
            found |= {str(path): TextFile(path, key) for path in _files(Path(one).expanduser())}
    if not found:
        raise TenfoldError("text must be at least one file, folder, glob or datasets:NAME, got nothing: name one")
    return list(found.values())


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return _folder(path)
    if path.exists() or not has_magic(str(path)):
        return [_existing(path)]
    matched = [Path(match) for match in sorted(glob(str(path), recursive=True))]  # noqa: PTH207 - Path.glob has no absolute ones
    files = [match for match in matched if match.is_file()] or [file for folder in matched for file in _folder(folder)]
    if not files:
        raise TenfoldError(f'a glob must match at least one file, got "{path}", which matches none: check where it starts')
    return files


def _folder(folder: Path) -> list[Path]:
    """Text files at any depth, hidden ones left out."""
    files = (path for path in folder.rglob("*") if path.suffix in (*TEXT, *COMPRESSED) and path.is_file())
    found = sorted(path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    if not found:
        known = ", ".join((*TEXT, *COMPRESSED))
        raise TenfoldError(f"a folder of text must hold files that end in {known}, got none in {folder}: name the files")
    return found


def _existing(path: Path) -> Path:
    if not path.exists():
        raise TenfoldError(f"text must be a file, a folder, a glob or datasets:NAME, got {path}: there is no such file")
    return path


class NamedDataset:
    """A dataset of the Hub, or a local folder in its form, streamed. Each row is a document."""

    def __init__(self, spec: str) -> None:
        self.name, self.read, self.size = spec, 0, 0
        name, config, split, column, *rest = [*spec.split(":")[1:], "", "", ""]
        if not name or any(rest):
            raise TenfoldError(f"a dataset must be named datasets:NAME[:CONFIG][:SPLIT][:COLUMN], got {spec}: mind the colons")
        self._path, self._config = name, config or None
        self._split, self._column = split or "train", column or "text"

    @cached_property
    def _builder(self) -> Any:
        datasets = optional("datasets", self.name)
        with _one_line(self.name):
            return datasets.load_dataset_builder(self._path, self._config)

    def fingerprint(self) -> str:
        """The digests of its files where they are on this machine, otherwise the commit that they come from."""
        with _one_line(self.name):
            named = [str(path) for paths in (self._builder.config.data_files or {}).values() for path in paths]
        content = [digest(Path(path)) for path in named if Path(path).is_file()]
        source = content if content and len(content) == len(named) else [self._builder.hash, *named]
        return " ".join([self._path, self._builder.config.name, self._split, self._column, *map(str, source)])

    def state(self) -> object:
        return None

    def __iter__(self) -> Iterator[str]:
        with _one_line(self.name):
            for row in self._builder.as_streaming_dataset(split=self._split):
                yield from document(self._text(row))

    def _text(self, row: dict[str, Any]) -> str:
        if isinstance(text := row.get(self._column), str):
            return text
        raise TenfoldError(
            f'a dataset must hold text in the column "{self._column}", got {self.name} with the columns {", ".join(row)}: '
            "name one behind the split"
        )


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Whatever goes wrong over there (no network, no such split, damaged files) as one line."""
    try:
        yield
    except TenfoldError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TenfoldError(f"a dataset must load, got {name}: {reason}") from error
