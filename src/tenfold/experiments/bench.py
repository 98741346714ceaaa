"""What a table of models is made from: teachers, students and rivals for several tasks and seeds, each a folder made once."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from tenfold.checkpoints import find
from tenfold.distillation.running import distill_folder
from tenfold.distillation.stage import Stage
from tenfold.errors import TenfoldError
from tenfold.evaluation.members import plain
from tenfold.evaluation.scoring import evaluate_folder
from tenfold.finetuning.running import finetune_folder
from tenfold.finetuning.settings import Finetune
from tenfold.folders import complete_folder
from tenfold.records import SCORES, Record, history, read_json
from tenfold.safetensors_header import read_header
from tenfold.tasks import Kind, Task, TaskSpec, glue_task, load_task, read_task
from tenfold.workflow.steps import Steps


@dataclass(frozen=True)
class Bench:
    """tasks: by the name of their folder. finetune, stage: how a teacher learns a task, how a student is taught it.

    Folders under steps.work: teachers/TASK (or wherever `teachers` says), and PLACE/TASK/seed-K for everything that is scored.
    """

    steps: Steps
    model: str
    tasks: Mapping[str, TaskSpec]
    finetune: Finetune
    stage: Stage
    seeds: int
    seed: int
    teachers: Path

    def teacher(self, task: str) -> Path:
        """The original after it has learnt the task, on the same rows: the best of the grid."""
        folder, settings = self.teachers / task, self.finetune.model_copy(update={"seed": self.seed})
        self.steps.once(
            f"teacher of {task}",
            folder,
            lambda: finetune_folder(self.model, folder, self.tasks[task], settings, progress=self.steps.say),
        )
        self._made(task, folder)
        return folder

    def kind(self, task: str) -> Kind:
        return self._made(task, self.teacher(task))[0].kind

    def _made(self, task: str, folder: Path) -> tuple[Task, TaskSpec]:
        made, asked = read_task(folder), self.tasks[task]
        if made is None:
            raise TenfoldError(f"a teacher must say what it was made for (task.json), got none in {folder}: remove it")
        if made[1].model_dump(exclude={"data_dir"}) != asked.model_dump(exclude={"data_dir"}):
            raise TenfoldError(
                f"teacher and students of a task learn from the same rows, got {folder}, which was made for others: remove it, "
                "or choose another OUT"
            )
        return made

    def place(self, place: str, task: str, k: int) -> Path:
        return self.steps.work / place / task / f"seed-{self.seed + k}"

    def distilled(self, start: str, place: str, task: str, k: int, stage: Stage) -> Path:
        """`start` taught by the task's teacher. A start of another depth is matched evenly where the stage has no map."""
        out, teacher = self.place(place, task, k), str(self.teacher(task))
        changed: dict[str, Any] = {"stage": "task", "task": self.tasks[task], "seed": self.seed + k}
        if stage.map is None and depth(start) != depth(teacher):
            changed["map"] = "uniform"
        chosen = stage.model_copy(update=changed)
        self.steps.once(_name(out, self), out, lambda: distill_folder(start, out, teacher, chosen, progress=self.steps.say))
        return out

    def tuned(self, start: str, place: str, task: str, k: int, settings: Finetune) -> Path:
        """`start` fine-tuned on the labels; the first seed runs the grid, the others its best cell."""
        out = self.place(place, task, k)
        cell = best_cell(self.place(place, task, 0)) if k else {}
        chosen = settings.model_copy(update={"seed": self.seed + k, **cell})
        spec = self.tasks[task]
        self.steps.once(_name(out, self), out, lambda: finetune_folder(start, out, spec, chosen, progress=self.steps.say))
        return out

    def copied(self, start: Path, place: str, task: str, k: int) -> Path:
        out = self.place(place, task, k)

        def copy() -> None:
            with complete_folder(out) as partial:
                shutil.copytree(start, partial, dirs_exist_ok=True)

        self.steps.once(_name(out, self), out, copy)
        return out

    def scored(self, place: str, baselines: Mapping[str, str] | None = None) -> Record:
        """scores.json of PLACE, made where it is not there for all tasks, seeds and baselines."""
        folder, names = self.steps.work / place, [*(baselines or {})]
        held = read_json(folder / SCORES)
        if held is not None and self._whole(held, names):
            return held
        self.steps.say(f"scoring {place or 'the student'}")
        named = [TaskSpec(task=task) for task, spec in self.tasks.items() if spec.task is not None]
        teacher, say = str(self.teachers), self.steps.say
        return evaluate_folder(str(folder), named or None, teacher, baselines or {}, say, seeds=self.seeds, seed=self.seed)

    def _whole(self, record: Record, baselines: list[str]) -> bool:
        held = {plain(name): entry for name, entry in record["tasks"].items()}
        if {*held} != {plain(task) for task in self.tasks}:
            return False
        splits = [split for entry in held.values() for split in entry["splits"].values()]
        return all(
            len(split["seeds"]) == self.seeds and [each["name"] for each in split["against"]] == ["teacher", *baselines]
            for split in splits
        )


def best_cell(folder: Path) -> dict[str, Any]:
    """The rate and batch that a fine-tuned folder was made with."""
    entry = next((entry for entry in reversed(history(folder)) if entry["verb"] == "finetune"), None)
    if entry is None:
        raise TenfoldError(f"a fine-tuned model says what it was made with (history.json), got nothing in {folder}")
    return {"lr": (entry["best"]["lr"],), "batch": (entry["best"]["batch"],)}


def depth(model: str) -> int:
    return int(find(model, weights=True).config.get_text_config().num_hidden_layers)


def parameters(folder: Path) -> int:
    """Every weight in the files."""
    return sum(prod(shape) for shape in read_header(folder).shapes.values())


def check_rows(tasks: Mapping[str, TaskSpec]) -> None:
    """All of them can be read: said before hours of work on the first."""
    for spec in tasks.values():
        load_task(spec)


def folder_name(spec: TaskSpec) -> str:
    """Of a task's models: GLUE's name, or that of the file (or dataset) with the user's rows."""
    return glue_task(spec.task).task.name if spec.task else safe(Path(str(spec.train).rpartition(":")[2]).stem)


def safe(name: str) -> str:
    """As a folder is called: IV-36-128, compress.init=random."""
    return re.sub(r"[^\w.+=,-]+", "_", name).strip("_.") or "_"


def _name(out: Path, bench: Bench) -> str:
    return out.relative_to(bench.steps.work).as_posix()
