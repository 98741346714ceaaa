"""Which models lie in a folder: itself, OUT/seed-K, OUT/TASK or OUT/TASK/seed-K; and the models of a teacher beside them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tenfold.errors import CheckpointError, TenfoldError
from tenfold.tasks import Task, TaskSpec, read_task

SEED = re.compile(r"seed-(\d+)")


@dataclass(frozen=True)
class Member:
    """The models of one task, by seed. made: what they were made for, where they say."""

    name: str
    models: tuple[Path, ...]
    made: tuple[Task, TaskSpec] | None

    def answers_to(self, task: str) -> bool:
        return plain(task) in (plain(self.name), *([plain(self.made[0].name)] if self.made else []))


def plain(name: str) -> str:
    """SST-2, sst_2 and sst2 are one task."""
    return name.lower().replace("-", "").replace("_", "")


def members(folder: Path) -> tuple[Member, ...]:
    """Of subfolders those count that hold a task.json, at whatever level."""
    if not folder.is_dir():
        raise CheckpointError(
            f"models to score or to submit must be a folder, got {folder}: check the path, or download the model first "
            "(hf download NAME --local-dir FOLDER)"
        )
    if own := _member(folder, ""):
        return (own,)
    found = [_member(path, path.name) for path in sorted(folder.iterdir()) if path.is_dir() and not SEED.fullmatch(path.name)]
    kept = tuple(member for member in found if member is not None and member.made is not None)
    if not kept:
        raise CheckpointError(
            f"{folder} must be a model, or hold models as TASK, TASK/seed-K or seed-K, got none: name what finetune, "
            "distill or glue made"
        )
    return kept


def _member(folder: Path, name: str) -> Member | None:
    models: tuple[Path, ...] = (folder,) if _is_model(folder) else seeds_of(folder)
    if not models:
        return None
    made = read_task(models[0])
    return Member(name or (made[0].name if made else folder.resolve().name), models, made)


def seeds_of(folder: Path) -> tuple[Path, ...]:
    """FOLDER/seed-0, FOLDER/seed-1, ... by number."""
    found = {int(match[1]): path for path in folder.iterdir() if (match := SEED.fullmatch(path.name)) and _is_model(path)}
    return tuple(found[k] for k in sorted(found))


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def chosen(found: Sequence[Member], tasks: Sequence[str]) -> tuple[Member, ...]:
    """Those that the user named, in that order; all where none is named. A model that names no task takes any."""
    if not tasks:
        return tuple(found)
    if len(found) == 1 and found[0].made is None:
        return tuple(Member(task, found[0].models, None) for task in tasks)
    picked = []
    for task in tasks:
        fitting = [member for member in found if member.answers_to(task)]
        if not fitting:
            raise TenfoldError(
                f"--task must be one that the folder has a model of, got {task}: it has "
                f"{', '.join(each.name for each in found)}"
            )
        picked += fitting
    return tuple(dict.fromkeys(picked))


def opposite(folder: str, member: Member) -> tuple[str, ...]:
    """A teacher's or baseline's models for the task of `member`: a hub name stands for one model."""
    path = Path(folder)
    if not path.is_dir():
        return (folder,)
    found = members(path)
    fitting = [each for each in found if each.answers_to(member.name) or (member.made and each.answers_to(member.made[0].name))]
    if not fitting and len(found) > 1:
        raise TenfoldError(f"{folder} must have a model of every task that is compared, got none of {member.name}: add it")
    return tuple(str(model) for model in (fitting or found)[0].models)
