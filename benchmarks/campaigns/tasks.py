"""Teachers and students on tasks: each cell a JSON. Dev is scored, and nothing is chosen on it."""

import shutil
import time
from pathlib import Path
from typing import Any

from campaigns.places import Budget, Places, Say, done
from campaigns.rows import unlabelled_pairs
from campaigns.students import diverged, folder_of, size_of
from campaigns.table import Campaign, key_of, pairs_of, start_of, task_stage, teacher_settings, told
from tenfold.checkpoints import find
from tenfold.distillation.running import distill_folder
from tenfold.distillation.stage import Stage
from tenfold.errors import TenfoldError
from tenfold.evaluation.scoring import evaluate_folder
from tenfold.experiments.baselines import rival_stage
from tenfold.experiments.bench import best_cell, depth
from tenfold.finetuning.running import finetune_folder
from tenfold.finetuning.settings import Finetune
from tenfold.records import Record, digest, history, read_json
from tenfold.tasks import TaskSpec, glue_task, load_task

TEACHERS = "teachers"


def spec_of(places: Places, task: str, held_out: float = 0.0) -> TaskSpec:
    limit = places.campaign.tasks[task].limit
    return TaskSpec(task=task, data_dir=str(places.data / "glue"), held_out=held_out, limit=limit)


def teach_teacher(places: Places, task: str, k: int, say: Say, budget: Budget) -> Record:
    """The result of the k-th teacher of a task: the best cell of the grid on held-out rows of train, then all of train."""
    campaign, file = places.campaign, places.result(TEACHERS, f"{task}-seed-{k}")
    grid = teacher_settings(campaign, task)
    settings = {
        "finetune": told(grid),
        "seed": campaign.seed + k,
        "held_out": campaign.held_out,
        "limit": campaign.tasks[task].limit,
    }
    if (held := done(file, settings)) is not None:
        return held
    budget.check()
    busy = time.process_time()
    out = teacher_folder(places, task, k, say)
    made = history(out)[-1]
    choosing = read_json(places.home / TEACHERS / task / "choosing" / "history.json")
    facts = {
        "cell": made["best"],
        "grid": choosing and choosing[-1]["cells"],
        "seconds": made["seconds"],
        "cpu_seconds": round(time.process_time() - busy, 1),
        "curve": made["curve"],
        "hashes": {"model": _hash(out), "train": _train(places, task)},
        **_scored(out, say),
    }
    return places.write(file, settings, row=TEACHERS, task=task, seed=campaign.seed + k, **facts)


def teacher_folder(places: Places, task: str, k: int, say: Say) -> Path:
    """The k-th teacher of a task as a model."""
    out = places.home / TEACHERS / task / f"seed-{k}"
    if not out.is_dir():
        chosen = {**_chosen(places, task, say), "seed": places.campaign.seed + k}
        _tune(places, out, spec_of(places, task), teacher_settings(places.campaign, task).model_copy(update=chosen), say)
    return out


def choosing_teacher(places: Places, task: str, say: Say) -> Path:
    """One that has not seen the held-out rows of train: the best of the grid on them."""
    out, grid = places.home / TEACHERS / task / "choosing", teacher_settings(places.campaign, task)
    spec = spec_of(places, task, places.campaign.held_out)
    _tune(places, out, spec, grid.model_copy(update={"seed": places.campaign.seed}), say)
    return out


def _chosen(places: Places, task: str, say: Say) -> dict[str, Any]:
    """Rate and batch. A grid of one cell leaves nothing to choose."""
    grid = teacher_settings(places.campaign, task)
    if len(grid.lr) == len(grid.batch) == 1:
        return {"lr": grid.lr, "batch": grid.batch}
    return best_cell(choosing_teacher(places, task, say))


def _tune(places: Places, out: Path, spec: TaskSpec, settings: Finetune, say: Say) -> None:
    if not out.exists():
        assert places.original.folder is not None
        finetune_folder(str(places.original.folder), out, spec, settings, progress=say)


def teach_student(places: Places, row: str, task: str, k: int, say: Say, budget: Budget, keep: bool = False) -> Record:
    """The result of a student on a task at one seed: distilled from that seed's teacher, scored, and dropped unless `keep`."""
    campaign, file = places.campaign, places.result(row, f"{task}-seed-{k}")
    asked = settings_of(campaign, row, task, k)
    if (held := done(file, asked)) is not None:
        return held
    about = {"row": row, "task": task, "seed": campaign.seed + k, "size": size_of(places, row)}
    if (why := diverged(places, row)) is not None:
        return places.write(file, asked, **about, **_nothing(f"diverged in the general stage: {why}"))
    teach_teacher(places, task, k, say, budget)
    teacher, start = teacher_folder(places, task, k, say), folder_of(places, row, say)
    budget.check()
    out, busy = places.home / "cells" / key_of([asked, row]), time.process_time()
    hashes = {"teacher": _hash(teacher), "start": _hash(start), "train": _train(places, task)}
    facts: Record
    try:
        made = _distilled(places, row, start, out, teacher, spec_of(places, task), k, say)
    except TenfoldError as error:
        if "finite" not in str(error):
            raise
        facts = _nothing(f"diverged: {error}")
    else:
        hashes["student"] = _hash(out)
        facts = {**made, **_scored(out, say)}
    facts["cpu_seconds"] = round(time.process_time() - busy, 1)
    record = places.write(file, asked, **about, hashes=hashes, general=_general(places, row), **facts)
    if not keep:
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(out.with_name(f"{out.name}.training"), ignore_errors=True)
    return record


def _nothing(why: str) -> Record:
    return {"failed": [why], "headline": None, "scores": None, "floor": None}


def settings_of(campaign: Campaign, row: str, task: str, k: int) -> Record:
    """What makes a cell."""
    return {
        "start": start_of(campaign, row).to_dict(),
        "task": told(task_stage(campaign, row, task)),
        "pairs": told(pairs_of(campaign, row)) if glue_task(task).task.pair else None,
        "rival": campaign.rows[row].rival,
        "teacher": told(teacher_settings(campaign, task)),
        "limit": campaign.tasks[task].limit,
        "seed": campaign.seed + k,
    }


def held_out_score(places: Places, row: str, task: str, k: int, say: Say) -> Record:
    """Of a student that was taught without the held-out slice of train, on that slice: what a search looks at."""
    asked = settings_of(places.campaign, row, task, k)
    out = places.home / "search" / key_of([asked, row])
    start, teacher = folder_of(places, row, say), choosing_teacher(places, task, say)
    result = _distilled(places, row, start, out, teacher, spec_of(places, task, places.campaign.held_out), k, say)
    shutil.rmtree(out)
    return {
        "score": next(iter(result["held_out"]["held_out"].values())),
        "steps": result["steps"],
        "seconds": result["seconds"],
    }


def _distilled(
    places: Places, row: str, start: Path, out: Path, teacher: Path, spec: TaskSpec, k: int, say: Say
) -> dict[str, Any]:
    stage = _stage(places, row, start, teacher, spec, k)
    if not out.exists():
        distill_folder(str(start), out, str(teacher), stage, progress=say)
    made = history(out)[-1]
    found = {key: made[key] for key in ("steps", "tokens", "seconds", "curve", "notes")}
    return {**found, "held_out": made["scores"]} if spec.held_out else found


def _stage(places: Places, row: str, start: Path, teacher: Path, spec: TaskSpec, k: int) -> Stage:
    campaign, asked = places.campaign, places.campaign.rows[row]
    assert spec.task is not None
    stage = task_stage(campaign, row, spec.task)
    ours, theirs = depth(str(start)), depth(str(teacher))
    if asked.rival is not None:
        rates = {key: getattr(stage, key) for key in ("lr", "lr_rest") if f"task.{key}" in asked.set}
        stage = rival_stage(asked.rival, (load_task(spec).task.kind, ours, theirs), stage).model_copy(update=rates)
    even = {"map": "uniform"} if stage.map is None and ours != theirs else {}
    more = {"unlabelled": str(file)} if (file := unlabelled_pairs(places, row, spec.task)) is not None else {}
    return stage.model_copy(update={"task": spec, "seed": campaign.seed + k, **even, **more})


def _scored(folder: Path, say: Say) -> Record:
    """scores: by split. headline: the first metric on the first split. failed: why it does not count, nothing where it does."""
    record = evaluate_folder(str(folder), None, progress=say)
    [entry] = record["tasks"].values()
    metric, found = entry["metrics"][0], next(iter(entry["splits"].values()))
    score, floor, same = found["mean"][metric], found["floor"]["scores"][metric], found["seeds"][0]["constant"]
    failed = ([f"constant: {same}"] if same else []) + ([f"{metric} {score:.1f}, floor {floor:.1f}"] if score <= floor else [])
    return {
        "metric": metric,
        "headline": score,
        "floor": floor,
        "failed": failed,
        "scores": {name: each["mean"] for name, each in entry["splits"].items()},
        "data": entry["data"],
        "warnings": found["warnings"],
    }


def _general(places: Places, row: str) -> Record | None:
    held = read_json(places.result(row, "general"))
    return held and {"tokens": held["tokens"], "file": held["hashes"]["file"]}


def _hash(folder: Path) -> str:
    header = find(str(folder), weights=True).header
    assert header is not None
    return digest(header.files)


def _train(places: Places, task: str) -> str:
    return load_task(spec_of(places, task)).train.digest
