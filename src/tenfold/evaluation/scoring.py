"""Scores that survive review: of every seed, beside their floors, against a teacher and baselines on the same rows."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tenfold.checkpoints import find
from tenfold.compression import Progress
from tenfold.errors import TenfoldError
from tenfold.evaluation.alarms import alarms, constant, floor_answer
from tenfold.evaluation.answering import Answers, Loaded
from tenfold.evaluation.averages import averages, retention
from tenfold.evaluation.bootstrap import paired
from tenfold.evaluation.members import Member, chosen, members, opposite
from tenfold.evaluation.rows import Scored, rows_for
from tenfold.records import SCORES, Record, stamp, write_json
from tenfold.tasks import TaskSpec, floors, truth

TEACHER, BASELINE = "teacher", "baseline"


@dataclass(frozen=True)
class Rival:
    """Something that the folder is held against: a teacher or a baseline, by what the user calls it."""

    role: str
    name: str
    folder: str


def evaluate_folder(
    folder: str,
    specs: Sequence[TaskSpec] | None,
    teacher: str | None = None,
    baselines: Mapping[str, str] | None = None,
    progress: Progress = lambda _: None,
    *,
    seeds: int | None = None,
    seed: int = 0,
) -> Record:
    """FOLDER's scores, which are also written to FOLDER/scores.json.

    specs: which tasks, and other rows for them; None for all that the folder has models of. seeds: the first so many models of
    each task (all by default; fewer are an error). seed: of the resamples.
    """
    asked = {spec.task: spec for spec in specs or ()}
    everywhere = asked.pop(None, None)
    found = _seeds(chosen(members(Path(folder)), [task for task in asked if task]), seeds)
    if everywhere is not None and everywhere.dev is not None and len(found) > 1:
        raise TenfoldError(f"--dev names rows of one task, got {len(found)} tasks in {folder}: name one with --task")
    rivals = [Rival(TEACHER, TEACHER, teacher)] if teacher is not None else []
    rivals += [Rival(BASELINE, name, path) for name, path in (baselines or {}).items()]
    tasks: dict[str, Record] = {}
    weights: list[str] = []
    for member in found:
        spec = next((spec for task, spec in asked.items() if task and member.answers_to(task)), everywhere)
        tasks[member.name], models = _task(Path(folder), member, spec, rivals, seed, progress)
        weights += models
    facts = {
        "tasks": tasks,
        "averages": averages(tasks, [(rival.role, rival.name) for rival in rivals]),
        "model": _together(weights),
        "seed": seed,
    }
    record = stamp("evaluate", **facts)
    write_json(Path(folder) / SCORES, record)
    return record


def _seeds(found: Sequence[Member], seeds: int | None) -> tuple[Member, ...]:
    for member in found:
        if seeds is not None and len(member.models) < seeds:
            raise TenfoldError(
                f"--seeds {seeds} needs as many models of each task, got {len(member.models)} of {member.name}: make more with "
                f"tenfold finetune --seeds {seeds}"
            )
    return tuple(Member(each.name, each.models[:seeds], each.made) for each in found)


def _task(
    folder: Path, member: Member, spec: TaskSpec | None, rivals: Sequence[Rival], seed: int, say: Progress
) -> tuple[Record, list[str]]:
    """What scores.json says of one task, and the sha256 of its models."""
    say(f"{member.name}: reading rows")
    rows = rows_for(member.made, spec, find(str(member.models[0]), weights=True).config, member.name)
    ours = [_answered(str(model), rows, say) for model in member.models]
    theirs = {rival: [_answered(model, rows, say) for model in opposite(rival.folder, member)] for rival in rivals}
    places = [model.relative_to(folder).as_posix() for model in member.models]
    splits = {split: _split(rows, split, places, ours, theirs, seed) for split in rows.splits}
    data = _together(each.digest for each in rows.splits.values())
    return {"metrics": list(rows.task.metrics), "splits": splits, "data": data}, [each.model for each in ours]


def _answered(model: str, rows: Scored, say: Progress) -> Answers:
    say(f"{model}: loading")
    return Loaded.of(model).answer(rows.task, rows.splits, say)


def _split(
    rows: Scored,
    split: str,
    places: Sequence[str],
    ours: Sequence[Answers],
    theirs: Mapping[Rival, Sequence[Answers]],
    seed: int,
) -> Record:
    task, labelled = rows.task, rows.splits[split]
    floor, true = floors(task, labelled), truth(task, labelled.labels)
    named = [(place if place != "." else "the model", each) for place, each in zip(places, ours, strict=True)]
    named += [(f"the {rival.role} {each.name}", each) for rival, found in theirs.items() for each in found]
    warned = [text for who, each in named for text in alarms(task, who, each.said[split], each.scores[split], floor)]
    mean = _mean([each.scores[split] for each in ours])
    against = []
    for rival, found in theirs.items():
        scores = _mean([each.scores[split] for each in found])
        gap = paired(task, true, [each.said[split] for each in ours], [each.said[split] for each in found], seed)
        kept = retention(mean[task.metrics[0]], scores[task.metrics[0]])
        models = {"folder": rival.folder, "model": _together(each.model for each in found)}
        against.append({"role": rival.role, "name": rival.name, "scores": scores, "retention": kept, **asdict(gap), **models})
    return {
        "rows": len(labelled),
        "mean": mean,
        "std": _spread([each.scores[split] for each in ours]),
        "seeds": [
            {
                "folder": place,
                "scores": dict(each.scores[split]),
                "constant": constant(task, each.said[split]),
                "model": each.model,
            }
            for place, each in zip(places, ours, strict=True)
        ],
        "floor": {"scores": floor, "answer": floor_answer(task, true)},
        "against": against,
        "warnings": [*rows.warnings[split], *dict.fromkeys(each.doubt for _, each in named if each.doubt), *warned],
    }


def _mean(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {metric: fmean(each[metric] for each in scores) for metric in scores[0]}


def _spread(scores: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    """Standard deviation over seeds, of a sample; None for one seed."""
    return {metric: stdev(each[metric] for each in scores) for metric in scores[0]} if len(scores) > 1 else None


def _together(digests: Any) -> str:
    """One sha256 for several; that of one stays."""
    found = list(digests)
    return found[0] if len(found) == 1 else hashlib.sha256(" ".join(found).encode()).hexdigest()
