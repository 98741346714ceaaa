"""Copies on disk, found again by all that they were made of."""

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from tenfold.errors import OutputError
from tenfold.folders import cache_folder
from tenfold.tasks.augmentation.copying import Copies
from tenfold.tasks.augmentation.sources import Sources
from tenfold.tasks.spec import AugmentSpec
from tenfold.tasks.task import Rows

_FORMAT = 1
"""To be raised whenever the same rows would give other copies."""

_ROW, _TEXT = "row", "text{}"


def cache_file(rows: Rows, copies: int, spec: AugmentSpec, sources: Sources, cache_dir: Path | None = None) -> Path:
    """In $TENFOLD_CACHE/augmented, by default ~/.cache/tenfold/augmented."""
    settings = {"copies": copies, "p": spec.p, "candidates": spec.candidates, "seed": spec.seed}
    made_of = [_FORMAT, settings, rows.unlabelled().digest, *sources.fingerprint()]
    key = sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    return (cache_dir or cache_folder("augmented")) / f"{key}.parquet"


def read_copies(file: Path) -> Copies | None:
    """None where there are none, or the file is damaged."""
    from pyarrow import ArrowException, parquet

    if not file.is_file():
        return None
    try:
        columns: dict[str, list[Any]] = parquet.read_table(file).to_pydict()
        origin = columns.pop(_ROW)
    except (ArrowException, OSError, KeyError):
        return None
    return Copies(tuple(zip(*columns.values(), strict=True)), tuple(origin))


def write_copies(file: Path, copies: Copies) -> None:
    """Whole or not at all."""
    import pyarrow
    from pyarrow import parquet

    columns = {_ROW: list(copies.origin)}
    texts = {_TEXT.format(side): list(column) for side, column in enumerate(zip(*copies.texts, strict=True))}
    beside = file.with_name(f"{file.name}.partial-{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.table({**columns, **texts}), beside)
        beside.replace(file)
    except OSError as error:
        raise OutputError(
            f"the cache must be writable, got {error} for {file.parent}: set TENFOLD_CACHE to another folder"
        ) from error
    finally:
        beside.unlink(missing_ok=True)
