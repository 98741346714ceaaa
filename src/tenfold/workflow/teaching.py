"""Which model answers the task: the teacher of the task stage."""

from pathlib import Path

from tenfold.checkpoints import Source, find
from tenfold.finetuning.running import finetune_folder
from tenfold.tasks import Task, load_task, read_task
from tenfold.workflow.recipe import Flow
from tenfold.workflow.steps import Steps

HEAD = "ForSequenceClassification"


def teacher_of(flow: Flow, steps: Steps) -> str:
    """As the recipe says; else the model where it answers the task already, else the model after it has learnt it."""
    assert flow.model is not None and flow.data is not None
    if flow.teacher is not None:
        return flow.teacher
    model, data, settings = flow.model, flow.data, flow.finetune_settings
    if answers(find(model, weights=True), load_task(data).task):
        return model
    return str(steps.folder("teacher", lambda to: finetune_folder(model, to, data, settings, progress=steps.say)))


def answers(source: Source, task: Task) -> bool:
    """Made for the task, or with a head that has its classes in their order. Sentence vectors need no head."""
    if task.kind == "embedding":
        return True
    made = None if source.folder is None else read_task(Path(source.folder))
    if made is not None:
        return (made[0].kind, made[0].labels, made[0].columns) == (task.kind, task.labels, task.columns)
    names = getattr(source.config, "architectures", None) or [""]
    held = getattr(source.config, "id2label", None) or {}
    return names[0].endswith(HEAD) and bool(task.labels) and tuple(str(held[k]) for k in sorted(held)) == task.labels
