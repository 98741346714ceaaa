"""A table of the user's as columns: CSV, TSV, JSONL, Parquet, or a dataset by name. Cells: strings, numbers, lists or None."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenfold.errors import TenfoldError, nearest

Columns = dict[str, list[Any]]

FORMATS = (".csv", ".tsv", ".jsonl", ".parquet")
_LONGEST_CELL = 1 << 30


def read_table(spec: str, split: str = "train") -> Columns:
    """`spec` is a file, or datasets:NAME[:CONFIG][:SPLIT], whose split is `split` where it names none."""
    if spec.startswith("datasets:"):
        return _dataset(spec, split)
    path = Path(spec).expanduser()
    if not path.is_file():
        raise TenfoldError(f"a table must be a file or datasets:NAME, got {spec}: there is no such file")
    suffix = path.suffix.lower().replace(".json", ".jsonl") if path.suffix.lower() == ".json" else path.suffix.lower()
    if suffix not in FORMATS:
        raise TenfoldError(f'a table must end in {", ".join(FORMATS)}, got "{path.name}": convert or rename it')
    if suffix == ".parquet":
        columns = _parquet(path)
    elif suffix == ".jsonl":
        columns = _jsonl(path)
    else:
        columns = _separated(path, "," if suffix == ".csv" else "\t")
    if not columns or not len(next(iter(columns.values()))):
        raise TenfoldError(f"a table must hold at least one row, got none in {path}: check the file")
    return columns


def column(table: Columns, name: str, spec: str) -> list[Any]:
    if name not in table:
        raise TenfoldError(f'{spec} has no column "{name}": {nearest(name, table)} (columns: {", ".join(table)})')
    return table[name]


def _text(path: Path) -> str:
    raw = path.read_bytes()
    if b"\0" in raw:
        raise TenfoldError(f"a table must be UTF-8 text, got zero bytes in {path}: is it UTF-16, or a binary file? convert it")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TenfoldError(
            f"a table must be UTF-8, got {path} ({error.reason} at byte {error.start}): convert it first, for example with "
            "iconv -f latin1 -t utf-8"
        ) from error


def _separated(path: Path, separator: str) -> Columns:
    """CSV is quoted where it must be. TSV is quoted or, as in GLUE, not at all: read as quoted where that gives whole rows."""
    text = _text(path)
    try:
        rows = _quoted(text, separator, path)
    except TenfoldError:
        if separator == ",":
            raise
        rows = _whole([line.rstrip("\r").split("\t") for line in text.split("\n") if line.strip()], path)
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])} if rows else {}


def _quoted(text: str, separator: str, path: Path) -> list[list[str]]:
    limit = csv.field_size_limit(_LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        return _whole([row for row in reader if row], path)
    except csv.Error as error:
        raise TenfoldError(f"{path} must be well-formed, got line {reader.line_num} ({error}): repair its quotes") from error
    finally:
        csv.field_size_limit(limit)


def _whole(rows: list[list[str]], path: Path) -> list[list[str]]:
    names = [name.strip() for name in rows[0]] if rows else []
    if len(set(names)) < len(names) or "" in names:
        raise TenfoldError(f"{path} must begin with a line of column names, each once, got {', '.join(names) or 'none'}")
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(names):
            raise TenfoldError(f"{path} has {len(names)} columns, got {len(row)} cells in row {number}: quote cells that hold "
                               "the separator")  # fmt: skip
    return [names, *rows[1:]]


def _jsonl(path: Path) -> Columns:
    records = []
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TenfoldError(
                f"a line of JSONL must be JSON, got something else in line {number} of {path}: {error}"
            ) from error
        if not isinstance(record, dict):
            raise TenfoldError(f"a line of JSONL must be an object, got a {type(record).__name__} in line {number} of {path}")
        records.append(record)
    names = list(dict.fromkeys(name for record in records for name in record))
    return {name: [record.get(name) for record in records] for name in names}


def _parquet(path: Path) -> Columns:
    from pyarrow import ArrowException, parquet

    try:
        return parquet.read_table(path).to_pydict()
    except (ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise TenfoldError(f"{path} must be a whole Parquet file, got: {reason}") from error


def _dataset(spec: str, split: str) -> Columns:
    name, config, named, *rest = [*spec.split(":")[1:], "", "", ""]
    if not name or any(rest):
        raise TenfoldError(f"a dataset must be named datasets:NAME[:CONFIG][:SPLIT], got {spec}: mind the colons")
    return load_hub(name, config or None, named or split)


def load_hub(name: str, config: str | None, split: str) -> Columns:
    """One split through the package datasets, classes by their names (an unlabelled row's -1 as None)."""
    with hub_errors(f"{name}{f' ({config})' if config else ''}, split {split}"):
        rows = _package().load_dataset(name, config, split=split)
        columns = {key: list(rows[key]) for key in rows.column_names}
        for key, feature in rows.features.items():
            if hasattr(feature, "names"):
                columns[key] = [None if value is None or value < 0 else feature.names[value] for value in columns[key]]
    return columns


def _package() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise TenfoldError(
            f"datasets by name need the package datasets, got none ({error}): pip install 'tenfold[text]', or name files"
        ) from error
    return datasets


@contextmanager
def hub_errors(what: str) -> Iterator[None]:
    """Whatever goes wrong over there (no network, no such split) as one line."""
    try:
        yield
    except TenfoldError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TenfoldError(f"a dataset must load, got {what}: {reason}: name local files instead, or check the name") from error
