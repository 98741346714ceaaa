"""results.json: one row for each model of a table, and the table itself.

{verb, command, time, versions, machine,            as in every record
 "model": "...", "settings": {...}, "seeds": 3,
 "tasks": {"rte": {"metrics": ["accuracy"], "data" (sha256 of the scored rows),
                   "splits": {"dev": {"rows": 277, "floor": {"accuracy": 52.7}}}}},
 "rows": [{"name", "role": "student" | "teacher" | "baseline" | "cell", "title", "folder" (under OUT), "method",
           "weights" (sha256 of all its models; of the teacher by task), "parameters", "kept" (of the original's), "bytes",
           "scores": {"rte": {"dev": {"mean": {metric: x}, "std": {metric: x} or null, "retention": x or null,
                                      "constant": ["seed-0 answers ..."],
                                      "against": [{"name", "retention", "difference", "low", "high", "p"}]}}},
           "average" (the first metric of every task), "retention" (of the teacher's average)}],
 "averages": the paper's, of the student, where it has their tasks,
 "warnings": [...], "notes": [...], "seconds": {step: s}}
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from tenfold.experiments.bench import Bench, parameters
from tenfold.records import RESULTS, Record, read_json, stamp, write_json

AGAINST = ("name", "retention", "difference", "low", "high", "p")
"""Of a paired bootstrap; see scores.json. The student's row is held against its teacher and every rival, others against the
teacher."""


def row_of(bench: Bench, name: str, role: str, title: str, place: str, record: Record) -> Record:
    """A row out of the scores.json of PLACE."""
    folder = bench.place(place, next(iter(bench.tasks)), 0)
    scores = {
        task: {split: _cell(found) for split, found in entry["splits"].items()} for task, entry in record["tasks"].items()
    }
    told = {"name": name, "role": role, "title": title, "folder": place or ".", "weights": record["model"]}
    return {**told, **_size(folder, bench), "scores": scores}


def teacher_row(bench: Bench, record: Record) -> Record:
    """Out of what the student is held against."""
    scores: Record = {}
    weights: dict[str, str] = {}
    for task, entry in record["tasks"].items():
        for split, found in entry["splits"].items():
            teacher = next(each for each in found["against"] if each["role"] == "teacher")
            about = {"mean": teacher["scores"], "std": None, "retention": 1.0, "constant": [], "against": []}
            scores.setdefault(task, {})[split] = about
            weights[task] = teacher["model"]
    folder = bench.teacher(next(iter(bench.tasks)))
    named = {"name": "teacher", "role": "teacher", "title": "the original, fine-tuned: the best of its grid"}
    return {**named, "folder": "teachers", "weights": weights, **_size(folder, bench), "scores": scores}


def results(bench: Bench, verb: str, rows: Sequence[Record], record: Record, **facts: Any) -> Record:
    """The whole record. `record`: the scores.json that tells of tasks and floors."""
    tasks = {
        task: {
            "metrics": entry["metrics"],
            "data": entry["data"],
            "splits": {
                split: {"rows": found["rows"], "floor": found["floor"]["scores"]} for split, found in entry["splits"].items()
            },
        }
        for task, entry in record["tasks"].items()
    }
    headline = {task: about["metrics"][0] for task, about in tasks.items()}
    teacher = next(average(row, headline) for row in rows if row["role"] == "teacher")
    full = [
        {**row, "average": (mean := average(row, headline)), "retention": mean / teacher if teacher > 0 else None}
        for row in rows
    ]
    return stamp(
        verb,
        model=bench.model,
        seeds=bench.seeds,
        seed=bench.seed,
        tasks=tasks,
        rows=full,
        seconds=bench.steps.seconds,
        **facts,
    )


def average(row: Record, headline: Mapping[str, str]) -> float:
    """Of the first metric of every task; of a task with two dev splits the mean of both."""
    return fmean(fmean(found["mean"][headline[task]] for found in splits.values()) for task, splits in row["scores"].items())


def warnings(records: Mapping[str, Record]) -> list[str]:
    """Of every scores.json, each once, with the name of its row. What it says of a baseline, the baseline's own says too."""
    found = [
        f"{task} {split}: {text}" if text.startswith("the teacher") else f"{name}: {task} {split}: {text}"
        for name, record in records.items()
        for task, entry in record["tasks"].items()
        for split, about in entry["splits"].items()
        for text in about["warnings"]
        if not text.startswith("the baseline")
    ]
    return list(dict.fromkeys(found))


def write_results(folder: Path, record: Record) -> None:
    write_json(folder / RESULTS, record)


def read_results(folder: Path) -> Record | None:
    found: Record | None = read_json(folder / RESULTS)
    return found


def _cell(found: Record) -> Record:
    teacher = next((each for each in found["against"] if each["role"] == "teacher"), None)
    return {
        "mean": found["mean"],
        "std": found["std"],
        "retention": None if teacher is None else teacher["retention"],
        "constant": [f"{each['folder']} {each['constant']}" for each in found["seeds"] if each["constant"]],
        "against": [{key: each[key] for key in AGAINST} for each in found["against"]],
    }


def _size(folder: Path, bench: Bench) -> Record:
    config = read_json(folder / "config.json") or {}
    method = (config.get("quantization_config") or {}).get("method", "dense")
    count, whole = parameters(folder), parameters(bench.teacher(next(iter(bench.tasks))))
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {"method": method, "parameters": count, "kept": count / whole, "bytes": size}
