"""What was done to a model, kept beside its weights: numbers that travel with the folder, and can be made again.

history.json holds one entry for each verb that made the model (compress, distill, finetune, export), oldest first; a verb that
makes a new folder takes its input's entries along. Measurements of a model lie in files of their own (scores.json, ...).
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tenfold._version import __version__
from tenfold.errors import CheckpointError

HISTORY, SCORES, MEASUREMENT = "history.json", "scores.json", "measurement.json"
AGREEMENT, RESULTS, REPORT = "agreement.json", "results.json", "report.html"
ANALYSIS = "analysis"
"""A folder with analysis.json and its figures."""

Record = dict[str, Any]


def stamp(verb: str, **facts: Any) -> Record:
    """An entry: what was done, by which command, when, with which versions, and the facts of this verb."""
    return {
        "verb": verb,
        "command": ["tenfold", *sys.argv[1:]],
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": platform.platform(),
        **facts,
    }


def versions() -> dict[str, str]:
    found = {"tenfold": __version__, "python": platform.python_version()}
    for name in ("torch", "transformers", "safetensors"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def history(folder: Path) -> list[Record]:
    """The entries of a model folder; none where tenfold did not make it."""
    entries = read_json(folder / HISTORY)
    if entries is None:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) and "verb" in entry for entry in entries):
        raise CheckpointError(f"{folder / HISTORY} must hold a list of entries, each with its verb: remove or restore it")
    return entries


def write_history(out: Path, before: Iterable[Record], entry: Record) -> None:
    write_json(out / HISTORY, [*before, entry])


def read_json(path: Path) -> Any:
    """None where there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} must be readable JSON, got something else ({error}): remove or restore it") from error


def write_json(path: Path, data: Any) -> None:
    """Whole or not at all: a kill in the middle leaves the old file."""
    beside = path.with_name(f"{path.name}.partial-{os.getpid()}")
    beside.write_text(json.dumps(data, indent=1), encoding="utf-8")
    beside.replace(path)


def digest(files: Iterable[Path]) -> str:
    """sha256 over the content of files, in their order."""
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()
