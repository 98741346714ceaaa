"""GLUE's tasks as rows of one table, glue.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from tenfold.errors import TenfoldError, nearest
from tenfold.tasks.task import Task

FILES = {part: {part: f"{part}.tsv"} for part in ("train", "dev", "test")}


@dataclass(frozen=True)
class GlueTask:
    """A task, where its rows lie, and how the server wants its answers. The keys are those of glue.yaml."""

    task: Task
    folder: str
    columns: tuple[str, ...]
    label: str
    spelling: tuple[str, ...]
    files: Mapping[str, Mapping[str, str]]
    header: Mapping[str, list[str]]
    range: tuple[float, float] | None
    test_rows: Mapping[str, int]

    @property
    def archives(self) -> dict[str, str]:
        """The test split that answers under each name of the archive."""
        return dict(zip(self.test_rows, self.files["test"], strict=True))


@cache
def glue() -> dict[str, GlueTask]:
    text = (resources.files(__package__) / "glue.yaml").read_text(encoding="utf-8")
    return {name: _row(name, data) for name, data in yaml.safe_load(text).items()}


def glue_task(name: str) -> GlueTask:
    """By its name, in any spelling of case and hyphens: SST-2 is sst2."""
    key = name.lower().replace("-", "").replace("_", "")
    if key not in glue():
        close = nearest(key, glue())
        listed = "" if close.startswith("known") else f" known: {', '.join(glue())}"
        raise TenfoldError(f'--task must be one of GLUE\'s, or give --train for your own data, got "{name}": {close}{listed}')
    return glue()[key]


def _row(name: str, data: dict[str, Any]) -> GlueTask:
    official = data.get("official", {})
    task = Task(
        name,
        data.get("kind", "classification"),
        tuple(data["columns"]),
        data["label"],
        tuple(data.get("labels", ())),
        tuple(data["metrics"]),
        data.get("length", 128),
    )
    bounds = data.get("range")
    return GlueTask(
        task,
        data["folder"],
        tuple(official.get("columns", data["columns"])),
        official.get("label", data["label"]),
        tuple(data.get("spelling", ())),
        data.get("files", FILES),
        data.get("header", {}),
        (float(bounds[0]), float(bounds[1])) if bounds else None,
        data["test_rows"],
    )
