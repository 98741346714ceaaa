"""What tests of distillation share: folders of a student and its teacher, text, tables, a stage of a few steps."""

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pico import CORPUS, pico, tokenizer
from safetensors.torch import load_file
from torch import Tensor

import tenfold
from tenfold.distillation.stage import Stage, parse_stage

LENGTH = 32
LABELS = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}, "num_labels": 2}
HEADS: dict[str, dict[str, Any]] = {
    "classification": LABELS,
    "regression": {"num_labels": 1, "problem_type": "regression"},
    "multi_label": {"num_labels": 3, "problem_type": "multi_label_classification"},
}


def write_text(path: Path, times: int = 3) -> Path:
    path.write_text("\n".join(CORPUS * times), encoding="utf-8")
    return path


def write_table(path: Path, kind: str, rows: int = 80) -> Path:
    """Two columns of sentences and a label that the kind asks for."""
    draw = random.Random(0)
    lines = ["sentence1\tsentence2\tlabel"]
    for i in range(rows):
        label: Any = ("no", "yes")[i % 2]
        if kind == "multi_label":
            label = ("red|warm", "cold", "red", "")[i % 4]
        elif kind != "classification":
            label = f"{5 * draw.random():.3f}"
        lines.append(f"{CORPUS[i]}\t{CORPUS[-i - 1]}\t{label}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def student_folder(path: Path, method: str = "II-8", name: str = "bert", **kw: Any) -> Path:
    """The folder of a pico model compressed to `method`."""
    model = pico(name, **kw)
    tenfold.compress_(model, tenfold.plan(model, method), init="hosvd")
    model.save_pretrained(path)
    tokenizer(token_types=getattr(model.config, "type_vocab_size", 0) > 1).save_pretrained(path)
    return path


def general(text: Path, steps: int = 8, **changes: Any) -> Stage:
    """A general stage of about so many steps of 8 rows."""
    data = {"text": str(text), "tokens": steps * 8 * LENGTH, "length": LENGTH, "batch": 8, "held_out": 8, "evaluations": 2}
    return parse_stage(data | changes)


def task(table: Path, kind: str = "classification", **changes: Any) -> Stage:
    """A task stage on all columns of `table`."""
    data = {"stage": "task", "task": {"train": str(table), "kind": kind}, "length": LENGTH, "batch": 8, "epochs": 1}
    return parse_stage(data | {"evaluations": 2} | changes)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def environment(cache: Path) -> dict[str, str]:
    """For a process of its own: one thread, as in this one, and a cache that goes with the test."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TENFOLD_CACHE": str(cache)}
