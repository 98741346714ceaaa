"""task.json: what a model folder was made for, so that scoring it needs no more words."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tenfold.errors import CheckpointError
from tenfold.records import read_json, write_json
from tenfold.tasks.spec import TaskSpec
from tenfold.tasks.task import Task

TASK = "task.json"


def write_task(folder: Path, task: Task, spec: TaskSpec) -> None:
    write_json(folder / TASK, {"task": asdict(task), "spec": spec.model_dump(mode="json", exclude_defaults=True)})


def read_task(folder: Path) -> tuple[Task, TaskSpec] | None:
    """None where the folder was made for no task."""
    data = read_json(folder / TASK)
    if data is None:
        return None
    try:
        facts: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data["task"].items()}
        task = Task(**facts)
        return task, TaskSpec(**data["spec"])
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise CheckpointError(
            f"{folder / TASK} must hold a task and its spec, got something else: remove or restore it"
        ) from error
