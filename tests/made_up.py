"""Folders with made-up records in the real schemas: what a run would leave, without the run."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

VERSIONS = {"tenfold": "0.1.0", "python": "3.11.9", "torch": "2.13.0", "transformers": "5.23.0"}
SCOPES = ("matrices", "paper", "model")
BEFORE = {"matrices": 10_616_832, "paper": 10_995_840, "model": 22_713_216}
FLOPS = 2_900_000_000
ROLES = ("attn.q", "attn.k", "attn.v", "attn.o", "ffn.in", "ffn.out")
LAYERS = 6
WIDTH = 384


def stamp(verb: str, *command: str, **facts: Any) -> dict[str, Any]:
    """An entry as tenfold.records.stamp makes it."""
    return {
        "verb": verb,
        "command": ["tenfold", *command],
        "time": "2026-02-03T04:05:06+00:00",
        "versions": VERSIONS,
        "machine": "Linux-6.1-x86_64",
        **facts,
    }


def form(method: str) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "II-36": {"kind": "low_rank", "d": 36, "diagonal": False},
        "III-70": {"kind": "tensor_train", "p": 70, "q": 70},
        "IV-36-128": {"kind": "tucker", "l": 36, "p": 128, "q": 128},
    }
    mixed = {"kind": "mixed", "shared": kinds["III-70"], "private": {"kind": "low_rank", "d": 20, "diagonal": False}}
    return {**kinds, "III-70+II-20": mixed}[method]


def shape(role: str) -> tuple[int, int]:
    return {"ffn.in": (WIDTH, 4 * WIDTH), "ffn.out": (4 * WIDTH, WIDTH)}.get(role, (WIDTH, WIDTH))


def sites() -> list[dict[str, Any]]:
    return [
        {"path": f"layer.{layer}.{role}", "role": role, "layer": layer, "i": i, "o": o, "bias": True, "kind": "linear"}
        for layer in range(LAYERS)
        for role in ROLES
        for i, o in [shape(role)]
    ]


def config(method: str) -> dict[str, Any]:
    group = {"name": "all", "form": form(method), "tile": [WIDTH, WIDTH], "sites": sites()}
    plan = {"quant_method": "tenfold", "version": 1, "method": method, "groups": [group]}
    return {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "quantization_config": plan}


def compress(method: str, ratio: float, **changes: Any) -> dict[str, Any]:
    saved = BEFORE["matrices"] * (1 - ratio)
    counts = {scope: {"before": BEFORE[scope], "after": round(BEFORE[scope] - saved)} for scope in SCOPES}
    for row in counts.values():
        row["ratio"] = row["after"] / row["before"]  # type: ignore[assignment]
    errors = {site["path"]: [0.2 + 0.05 * site["layer"], 0.05 * (k % 7)] for k, site in enumerate(sites())}
    fit = {"group": "all", "init": "activation", "weight_error": 0.61, "output_error": 0.23, "seconds": 1.5, "sites": errors}
    facts: dict[str, Any] = {
        "out": "small",
        "method": method,
        "parameters": counts,
        "flops": {
            "batch": 1,
            "length": 128,
            "before": 2_900_000_000,
            "after": round(2_900_000_000 * (ratio + 0.1)),
            "ratio": 0.3,
        },
        "notes": ["the pooler stays as it is"],
        "fits": [fit],
        "bytes": 47_000_000,
        "bytes_before": 90_868_376,
        "seconds": 2.5,
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "settings": {"method": method, "init": "activation"},
    }
    words = ("compress", facts["model"], "small", "--method", method)
    return stamp("compress", *words, **{**facts, **changes})


def distill(stage: str = "general", last: float = 0.31, **changes: Any) -> dict[str, Any]:
    steps = [0, 100, 200, 300, 400]
    curve = [
        {"hidden": 0.2 + last / (1 + k), "vectors": 0.4 / (1 + k), "loss": last + 0.6 / (1 + k), "epoch": k / 4, "step": step}
        for k, step in enumerate(steps)
    ]
    settings: dict[str, Any] = (
        {"stage": stage, "text": "wiki.txt"} if stage == "general" else {"stage": stage, "task": {"task": "rte"}}
    )
    facts: dict[str, Any] = {
        "out": "taught",
        "steps": 400,
        "tokens": 16_000_000,
        "seconds": 296.4,
        "tokens_per_second": 54_000.0,
        "curve": curve,
        "scores": {} if stage == "general" else {"dev": {"accuracy": 61.0}},
        "notes": ["3% of the rows were cut at 128 tokens"],
        "teacher": "sentence-transformers/all-MiniLM-L6-v2",
        "settings": settings,
    }
    words = ("distill", "small", "taught", "--teacher", facts["teacher"])
    return stamp("distill", *words, **{**facts, **changes})


def scores(rte: float = 61.7, sst2: float = 88.2, std: float | None = 0.4) -> dict[str, Any]:
    def split(rows: int, mean: float, floor: float, teacher: float, warnings: tuple[str, ...] = ()) -> dict[str, Any]:
        against = [
            {
                "role": "teacher",
                "name": "teacher",
                "scores": {"accuracy": teacher},
                "retention": mean / teacher,
                "difference": mean - teacher,
                "low": mean - teacher - 2,
                "high": mean - teacher + 2,
                "p": 0.03,
            },
            {
                "role": "baseline",
                "name": "every second layer",
                "scores": {"accuracy": mean - 3},
                "retention": mean / (mean - 3),
                "difference": 3.0,
                "low": 0.5,
                "high": 5.5,
                "p": 0.01,
            },
        ]
        seeds = [{"folder": f"seed-{k}", "scores": {"accuracy": mean + k - 1}} for k in range(3 if std is not None else 1)]
        return {
            "rows": rows,
            "mean": {"accuracy": mean},
            "std": None if std is None else {"accuracy": std},
            "seeds": seeds,
            "floor": {"scores": {"accuracy": floor}, "answer": "the majority class"},
            "against": against,
            "warnings": list(warnings),
        }

    tasks = {
        "rte": {"metrics": ["accuracy"], "splits": {"dev": split(277, rte, 52.7, 64.1)}, "data": "ab" * 32},
        "sst2": {
            "metrics": ["accuracy"],
            "splits": {"dev": split(872, sst2, 50.9, 91.2, ("2 rows are in the training data too",))},
            "data": "cd" * 32,
        },
    }
    means = [(rte + sst2) / 2, (64.1 + 91.2) / 2]
    rival = {"role": "teacher", "name": "teacher", "mean": means[1], "retention": means[0] / means[1]}
    averages = {"scored": {"title": "the first metric of every task", "mean": means[0], "against": [rival]}}
    facts: dict[str, Any] = {"tasks": tasks, "averages": averages, "model": "ef" * 32, "seed": 0}
    return stamp("evaluate", "evaluate", "taught", "--task", "rte,sst2", **facts)


def agreement(*cosines: float) -> dict[str, Any]:
    names = ("compressed", "general", "third")
    rows = [
        {"name": names[k], "cosine": cosine, "rank_correlation": cosine - 0.1, "neighbours_kept": cosine - 0.2}
        for k, cosine in enumerate(cosines or (0.31, 0.77))
    ]
    facts: dict[str, Any] = {"original": "all-MiniLM-L6-v2", "text": "valid.txt", "sentences": 200, "rows": rows}
    return stamp("agree", "run", "recipe.yaml", "taught", **facts)


def measurement(speed: float = 1.9, method: str = "III-70") -> dict[str, Any]:
    def timing(model: str, path: str, median: float) -> dict[str, Any]:
        return {
            "model": model,
            "path": path,
            "state": "timed",
            "median": median,
            "p95": 1.1 * median,
            "calls": 200,
            "throughput": 1 / median,
            "peak_bytes": 123_000_000,
            "difference": 1e-6,
            "prepare_seconds": 0.2,
            "first_seconds": 0.5,
        }

    def cell(batch: int, length: int, gain: float) -> dict[str, Any]:
        base = batch * length * 1e-5
        ratio = {"path": "eager", "against": "eager", "best": True, "estimate": gain, "low": gain - 0.05, "high": gain + 0.05}
        verdict = "faster" if gain > 1 else "slower"
        absent = {"model": "compressed", "path": "onnx", "state": "absent", "why": "onnxruntime is not installed"}
        return {
            "batch": batch,
            "length": length,
            "dtype": "float32",
            "label": str(length),
            "tokens": batch * length,
            "timings": [timing("original", "eager", base), timing("compressed", "eager", base / gain), absent],
            "speedups": [{**ratio, "rounds": 20, "verdict": verdict}],
        }

    def counts(name: str, method: str | None, size: int) -> dict[str, Any]:
        shared = {"parameters": BEFORE, "memory_bytes": {"float32": size}, "disk_bytes": size}
        return {"name": name, "method": method, "cls": "BertModel", **shared}

    best = {"path": "eager", "label": "128", "dtype": "float32", "batch": 32, "peak_bytes": 200_000_000}
    return {
        "version": 1,
        "command": ["tenfold", "measure", "taught", "--against", "all-MiniLM-L6-v2"],
        "time": "2026-02-03T05:00:00+00:00",
        "versions": VERSIONS,
        "machine": {"cpu": "Example CPU", "cores": 2, "threads": 1, "device": "cpu", "system": "Linux"},
        "settings": {},
        "seconds": 81.2,
        "original": counts("all-MiniLM-L6-v2", None, 90_868_376),
        "compressed": counts("taught", method, 47_000_000),
        "flops": [{"model": "compressed", "path": "eager", "length": 128, "predicted": 5, "counted": 5, "rest": 0}],
        "cells": [cell(1, 128, 0.87), cell(8, 128, speed)],
        "throughput": [{"model": "compressed", "sequences_per_second": 300.0, **best}],
        "crossovers": ["eager, float32: slower than the original (eager) below batch 8 at length 128"],
        "notes": ["clocks were not fixed"],
    }


def analyse(path: Path) -> Path:
    """Adds what `tenfold analyze` leaves: a record and a figure of one pixel."""
    place = path / "analysis"
    place.mkdir()
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
    (place / "distances.png").write_bytes(b64decode(pixel))
    tiles = [
        {"name": site["path"], "path": site["path"], "error": error, "raw_norm": norm}
        for site in sites()
        for error, norm in ((0.5, 1.0), (0.1, 3.0))  # (0.5 x 1 + 0.1 x 9) / 10 = 0.14
    ]
    record = stamp(
        "analyze",
        *("analyze", path.name, f"{path.name}/analysis"),
        version=1,
        figures=[{"name": "distances", "title": "Distances between factors", "group": "all"}],
        groups=[{"name": "all", "tiles": tiles}],
        notes=["one group"],
    )
    (place / "analysis.json").write_text(json.dumps(record), encoding="utf-8")
    return path


def results() -> dict[str, Any]:
    """What `tenfold ablate` leaves."""

    def row(
        name: str, role: str, method: str, rte: float, stsb: float, size: int, constant: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        def cell(metric: str, value: float, teacher: float) -> dict[str, Any]:
            spread = None if role == "teacher" else {metric: 0.5}
            return {"mean": {metric: value}, "std": spread, "retention": value / teacher, "constant": list(constant)}

        scores = {"rte": {"dev": cell("accuracy", rte, 64.0)}, "stsb": {"dev": cell("spearman", stsb, 87.0)}}
        sizes = {"parameters": size, "kept": size / BEFORE["model"], "bytes": 4 * size}
        mean = (rte + stsb) / 2
        known = {"name": name, "role": role, "title": f"the {name}", "folder": f"cells/{name}", "method": method}
        return {**known, **sizes, "scores": scores, "average": mean, "retention": mean / 75.5}

    tasks = {
        name: {"metrics": [metric], "splits": {"dev": {"rows": 277, "floor": {metric: floor}}}}
        for name, metric, floor in (("rte", "accuracy", 52.7), ("stsb", "spearman", 0.0))
    }
    rows = [
        row("teacher", "teacher", "dense", 64.0, 87.0, BEFORE["model"]),
        row("both stages", "cell", "III-70+II-20", 60.2, 84.1, 13_600_000),
        row("labels only", "cell", "III-70", 52.7, 10.0, 13_000_000, ("seed-0 answers 1 to every row",)),
    ]
    model, seen = "sentence-transformers/all-MiniLM-L6-v2", ["both stages: rte dev: 2 rows are in the training data too"]
    facts: dict[str, Any] = {"model": model, "seeds": 2, "seed": 0, "tasks": tasks, "rows": rows, "warnings": seen}
    return stamp("ablate", "ablate", model, "stages", "--method", "III-70", **facts)


def folder(path: Path, method: str | None = "III-70", ratio: float = 0.14, **records: Any) -> Path:
    """A folder of a compressed model; `records` by the name of their file, history: the entries after compress."""
    path.mkdir(parents=True)
    entries = [*([compress(method, ratio)] if method else []), *records.pop("history", [])]
    files = {"config": config(method) if method else {}, "history": entries, **records}
    for name, data in files.items():
        (path / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    (path / "recipe.yaml").write_text(
        f"version: 1\nmodel: all-MiniLM-L6-v2\ncompress: {{method: {method}}}\n", encoding="utf-8"
    )
    return path


def full(path: Path, method: str = "III-70+II-20", **changes: Any) -> Path:
    """One that holds everything."""
    records = {"history": [distill()], "scores": scores(), "agreement": agreement(), "measurement": measurement(method=method)}
    return folder(path, method, **{**records, **changes})
