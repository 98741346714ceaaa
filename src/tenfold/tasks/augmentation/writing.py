"""Copies as a table for other tools: the task's text columns, and the row that each copy came from. No label."""

import csv
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tenfold.errors import OutputError, TenfoldError
from tenfold.tasks.augmentation.copying import Copies
from tenfold.tasks.task import Task

ORIGIN = "from_row"
"""Counted from 0, in the order of the task's training rows."""

Columns = dict[str, Sequence[object]]


def check_table(out: Path, force: bool) -> None:
    """Before the work: can the table be written there?"""
    if out.suffix.lower() not in WRITERS:
        raise OutputError(f"--out must end in {', '.join(WRITERS)}, got {out.name}: rename it")
    if out.is_dir() or (out.exists() and not force):
        raise OutputError(f"the output file must not exist, got {out}: choose another name, or pass --force to replace it")


def write_table(out: Path, copies: Copies, task: Task, force: bool) -> None:
    """Parquet, CSV, TSV or JSONL, by its suffix; whole or not at all."""
    check_table(out, force)
    if ORIGIN in task.columns:
        raise TenfoldError(f'the column "{ORIGIN}" says where a copy came from, got a text column of that name: rename yours')
    columns: Columns = {ORIGIN: copies.origin, **dict(zip(task.columns, zip(*copies.texts, strict=True), strict=True))}
    beside = out.with_name(f"{out.name}.partial-{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        WRITERS[out.suffix.lower()](beside, columns)
        beside.replace(out)
    except OSError as error:
        raise OutputError(f"{out} must be writable, got {error}: choose another place") from error
    finally:
        beside.unlink(missing_ok=True)


def _parquet(file: Path, columns: Columns) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({name: list(values) for name, values in columns.items()}), file)


def _separated(separator: str) -> Callable[[Path, Columns], None]:
    def write(file: Path, columns: Columns) -> None:
        with file.open("w", encoding="utf-8", newline="") as stream:
            table = csv.writer(stream, delimiter=separator)
            table.writerow(columns)
            table.writerows(zip(*columns.values(), strict=True))

    return write


def _jsonl(file: Path, columns: Columns) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for row in zip(*columns.values(), strict=True):
            stream.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")


WRITERS: dict[str, Callable[[Path, Columns], None]] = {
    ".parquet": _parquet,
    ".csv": _separated(","),
    ".tsv": _separated("\t"),
    ".jsonl": _jsonl,
}
