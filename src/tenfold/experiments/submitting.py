"""Model folders to GLUE's submission archive: which model answers which test set, and its answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenfold.checkpoints import find, load
from tenfold.compression import Progress
from tenfold.errors import TenfoldError
from tenfold.evaluation import predict
from tenfold.evaluation.members import Member, members
from tenfold.pipeline import tokenizer_of
from tenfold.records import SCORES, read_json
from tenfold.tasks import TASK, Task, TaskSpec, encode, load_task
from tenfold.tasks.glue import GlueTask
from tenfold.tasks.official import find_folder
from tenfold.tasks.submission import constant, spelled, tables, write_archive

OTHERS = {"ax": "mnli"}
"""The diagnostic set has no rows to learn from: a model of another task answers it."""


@dataclass(frozen=True)
class Answerer:
    """A model folder made for a task of GLUE. score: its headline on dev, where it was scored."""

    folder: Path
    task: Task
    spec: TaskSpec
    score: float | None


@dataclass(frozen=True)
class Submission:
    """answered: by table, the folder whose model did; filled: those that hold a constant."""

    out: Path
    answered: dict[str, str]
    filled: tuple[str, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        rows = {name: {"rows": row.test_rows[name], "folder": self.answered.get(name)} for name, (row, _) in tables().items()}
        for name in self.filled:
            rows[name]["constant"] = constant(tables()[name][0])
        return {"out": str(self.out), "tables": rows, "filled": list(self.filled), "notes": list(self.notes)}


def submit(
    out: Path, folders: Sequence[Path], data_dir: str | None, force: bool = False, progress: Progress = lambda _: None
) -> Submission:
    """Every test set that a model in one of `folders` was made for; `data_dir` in place of where its rows came from."""
    models, notes = chosen_models(folders)
    found: dict[str, list[str]] = {}
    answered: dict[str, str] = {}
    for name, (row, split) in tables().items():
        model = models.get(OTHERS.get(row.task.name, row.task.name))
        if model is None or name in found:
            continue
        progress(f"{name}: reading its rows")
        told = {**model.spec.model_dump(exclude_defaults=True, include={"data_dir"}), "task": row.task.name}
        made = _answers(model, row, TaskSpec(**told | ({"data_dir": data_dir} if data_dir else {})), progress)
        if split not in made:
            notes.append(f"{name}: no {row.files['test'][split]} there")
        found |= {table: made[part] for table, part in row.archives.items() if part in made}
        answered |= {table: str(model.folder) for table, part in row.archives.items() if part in made}
    return Submission(out, answered, write_archive(out, found, force), tuple(notes))


def chosen_models(folders: Sequence[Path]) -> tuple[dict[str, Answerer], list[str]]:
    """By task; of several for one task the best on dev, as the scores.json of the folder that was given says."""
    candidates: dict[str, list[Answerer]] = {}
    for folder in folders:
        for member in members(folder):
            task, spec = _made(member, folder)
            scores = _dev_scores(folder, member.name)
            found = [Answerer(model, task, spec, scores.get(model)) for model in member.models]
            candidates.setdefault(task.name, []).extend(found)
    notes, models = [], {}
    for name, several in candidates.items():
        if several[1:] and any(model.score is None for model in several):
            listed = ", ".join(str(model.folder) for model in several)
            raise TenfoldError(f"one model answers {name}, got {listed}: name one, or score them first (tenfold evaluate)")
        models[name] = max(several, key=lambda model: model.score or 0.0)
        if several[1:]:
            notes.append(f"{name}: {models[name].folder} is the best of {len(several)} on dev ({models[name].score:.1f})")
    return models, notes


def _made(member: Member, folder: Path) -> tuple[Task, TaskSpec]:
    if member.made is None:
        raise TenfoldError(f"a model must say which task it was made for ({TASK}), got none in {folder}: name others")
    task, spec = member.made
    if spec.task is None:
        raise TenfoldError(f"GLUE's server scores its own tasks, got {folder}, made for {spec.train}: leave it out")
    return task, spec


def _dev_scores(folder: Path, name: str) -> dict[Path, float]:
    """The headline of each model on the first split, where they were scored."""
    entry = (read_json(folder / SCORES) or {}).get("tasks", {}).get(name)
    if entry is None:
        return {}
    first = next(iter(entry["splits"].values()))
    return {folder / each["folder"]: each["scores"][entry["metrics"][0]] for each in first["seeds"]}


def _answers(model: Answerer, row: GlueTask, spec: TaskSpec, progress: Progress) -> dict[str, list[str]]:
    """By test split that is there."""
    import torch

    if row.task.name in OTHERS and spec.data_dir and find_folder(row, Path(spec.data_dir).expanduser()) is None:
        return {}
    rows = load_task(spec).test
    source = find(str(model.folder), weights=True)
    network = load(source).float().to("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = tokenizer_of(source)
    found = {}
    for split, texts in rows.items():
        encoded = encode(texts, model.task, tokenizer)
        found[split] = spelled(row, model.task, predict(network, encoded, progress=progress))
    return found
