"""GLUE's submission archive: a table of answers for each test set, named, headed, counted and spelled as the server wants."""

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tenfold.errors import OutputError, TenfoldError
from tenfold.tasks.glue import GlueTask, glue
from tenfold.tasks.metrics import Array, answers
from tenfold.tasks.task import Task

HEADER = "index\tprediction"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""Of every file in the archive: the same answers give the same bytes."""


def tables() -> dict[str, tuple[GlueTask, str]]:
    """By the name that the server knows it under (MNLI-mm): the task and the name of its test split."""
    return {name: (row, split) for row in glue().values() for name, split in row.archives.items()}


def spelled(row: GlueTask, task: Task, outputs: Array) -> list[str]:
    """A model's outputs (n, task.outputs) as the server spells answers. task: the model's; its classes may be in any order."""
    if not np.isfinite(outputs).all():
        raise TenfoldError(f"outputs must be finite, got NaN or infinity for {row.task.name}: the model is broken")
    said = answers(task, outputs)
    if row.range is not None:
        low, high = row.range
        scores = low + (high - low) * said if task.kind == "embedding" else said
        return [f"{score:.3f}" for score in np.clip(scores, low, high)]
    if {*task.labels} != {*row.task.labels}:
        raise TenfoldError(
            f"{row.task.name}'s classes are {', '.join(row.task.labels)}, got a model for "
            f"{', '.join(task.labels) or 'a score'}: name one that learnt this task"
        )
    return [row.spelling[row.task.labels.index(task.labels[c])] for c in said]


def constant(row: GlueTask) -> str:
    """An answer that says nothing, for a table that the server wants although no model answers it."""
    return f"{sum(row.range) / 2:.3f}" if row.range is not None else row.spelling[0]


def write_archive(out: Path, found: Mapping[str, Sequence[str]], force: bool) -> tuple[str, ...]:
    """OUT with every table that the server expects; those without answers hold a constant, and their names come back."""
    if out.exists() and not force:
        raise OutputError(f"the archive must not exist, got {out}: choose another name, or pass --force to replace it")
    contents = {}
    for name, (row, _) in tables().items():
        expected = row.test_rows[name]
        lines = found.get(name, [constant(row)] * expected)
        if len(lines) != expected:
            raise TenfoldError(
                f"the server expects {expected} answers for {name}, got {len(lines)}: take the official test file, whole"
            )
        contents[f"{name}.tsv"] = "\n".join([HEADER, *(f"{i}\t{line}" for i, line in enumerate(lines)), ""])
    _write(out, contents)
    return tuple(name for name in tables() if name not in found)


def _write(out: Path, contents: Mapping[str, str]) -> None:
    beside = out.with_name(f"{out.name}.partial-{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in contents.items():
                member = zipfile.ZipInfo(name, _LONG_AGO)
                member.compress_type = zipfile.ZIP_DEFLATED
                member.external_attr = 0o644 << 16
                archive.writestr(member, text)
        beside.replace(out)
    except OSError as error:
        raise OutputError(f"{out} must be writable, got {error}: choose another place") from error
    finally:
        beside.unlink(missing_ok=True)
