"""A student and a teacher, loaded so that they answer the same question."""

from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from tenfold.checkpoints import Source, first_line, load
from tenfold.distillation.blocks import find_blocks
from tenfold.errors import CheckpointError, TenfoldError
from tenfold.nn.bank import BANKS
from tenfold.tasks.task import Task

EMBEDDING = "embedding"
"""The kind of task that has no head."""


def teacher_for(source: Source, task: Task) -> Any:
    """The teacher with its head, which must answer this task."""
    teacher = load(source).float()
    if task.kind == EMBEDDING:
        return teacher
    if teacher.base_model is teacher:
        raise TenfoldError(
            f"a teacher must answer the task {task.name}, got {source.name}, which has no head: tenfold finetune makes one"
        )
    if teacher.config.num_labels != task.outputs:
        raise TenfoldError(
            f"a teacher must answer the task {task.name} with {task.outputs} outputs, got {source.name} with "
            f"{teacher.config.num_labels}: take a model that was fine-tuned on this task"
        )
    named = tuple(str(teacher.config.id2label[k]) for k in sorted(teacher.config.id2label))
    if sorted(named) == sorted(task.labels) and named != task.labels:
        raise TenfoldError(
            f"teacher and task must number the labels alike, got {', '.join(named)} and {', '.join(task.labels)}: "
            "take a model that was fine-tuned on these rows"
        )
    return teacher


def student_for(source: Source, teacher: Any, task: Task, inherit: bool) -> Any:
    """The student with a head like the teacher's. One that the folder lacks is drawn at random, or taken from the teacher."""
    student = load(source).float() if task.kind == EMBEDDING else _with_head(source, teacher)
    if inherit:
        inherit_(student, teacher)
    return student.eval()


def _with_head(source: Source, teacher: Any) -> Any:
    assert source.folder is not None
    config = source.config
    config.num_labels = teacher.config.num_labels
    config.id2label, config.label2id = teacher.config.id2label, teacher.config.label2id
    config.problem_type = teacher.config.problem_type
    try:
        model, info = AutoModelForSequenceClassification.from_pretrained(
            source.folder,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except TenfoldError:
        raise
    except Exception as error:  # whatever transformers raises for a model without such a head
        raise CheckpointError(
            f"a student must load with a head for the task, got {source.folder}, which fails with: {first_line(error)}"
        ) from error
    absent = {*info["missing_keys"], *(name for name, *_ in info["mismatched_keys"])} & set(model.state_dict())
    if lost := sorted(name for name in absent if name.startswith(f"{model.base_model_prefix}.") and "pooler" not in name):
        raise CheckpointError(
            f"every weight of a student must be in {source.folder}, got none for {lost[0]}: name a whole model"
        )
    return model


@torch.no_grad()
def inherit_(student: Any, teacher: Any) -> int:
    """Copy what lies outside of the blocks (embeddings, pooler, head) where name and shape agree; how many tensors."""
    inside = {
        name for name, module in student.named_modules() if any(module is block for block in find_blocks(student).modules)
    }
    theirs = dict(teacher.named_parameters())
    copied = 0
    for name, parameter in student.named_parameters():
        outside = BANKS not in name.split(".") and not any(name.startswith(f"{prefix}.") for prefix in inside)
        other = theirs.get(name)
        if outside and other is not None and other.shape == parameter.shape:
            parameter.copy_(other)
            copied += 1
    return copied
