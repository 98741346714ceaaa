"""task.json says what a folder was made for, and reads back as it was."""

from pathlib import Path

import pytest

from tenfold.errors import CheckpointError
from tenfold.tasks import TASK, Task, TaskSpec, glue, read_task, write_task

TASKS = [*(row.task for row in glue().values()), Task("own", "multi_label", ("a", "b"), "tags", ("x", "y"), ("exact",), 33)]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_it_reads_back(tmp_path: Path, task: Task) -> None:
    spec = TaskSpec(train="a.csv", text_columns=("a", "b"), limit=3)
    write_task(tmp_path, task, spec)
    assert read_task(tmp_path) == (task, spec)


def test_a_folder_made_for_no_task(tmp_path: Path) -> None:
    assert read_task(tmp_path) is None


@pytest.mark.parametrize("text", ['{"task": {}}', "[]", '{"task": {"name": "x", "kind": "y"}, "spec": {}}', "{"])
def test_a_damaged_one_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / TASK).write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match="remove or restore it"):
        read_task(tmp_path)
