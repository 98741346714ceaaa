"""Labelled tasks: GLUE and the user's own."""

from tenfold.tasks.duplicates import Duplicates, duplicates
from tenfold.tasks.encoding import Encoded, encode
from tenfold.tasks.glue import GlueTask, glue, glue_task
from tenfold.tasks.loading import load_rows, load_task
from tenfold.tasks.metrics import answers, floors, score, truth
from tenfold.tasks.saving import TASK, read_task, write_task
from tenfold.tasks.spec import AugmentSpec, TaskSpec, parse_augment, parse_task
from tenfold.tasks.task import Kind, Label, Rows, Task, TaskData

__all__ = [
    "TASK",
    "AugmentSpec",
    "Duplicates",
    "Encoded",
    "GlueTask",
    "Kind",
    "Label",
    "Rows",
    "Task",
    "TaskData",
    "TaskSpec",
    "answers",
    "duplicates",
    "encode",
    "floors",
    "glue",
    "glue_task",
    "load_rows",
    "load_task",
    "parse_augment",
    "parse_task",
    "read_task",
    "score",
    "truth",
    "write_task",
]
