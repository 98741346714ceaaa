"""A campaign of pico models and pico tasks, and the places that it runs in."""

import gc
from pathlib import Path
from typing import Any

from campaigns.places import Budget, Places
from campaigns.table import parse_campaign
from distilling import write_text
from glue_files import write_task_files
from pico import save_folder

TOKENS = 8 * 32
"""Of one step."""
FOREVER = Budget()
ROWS = {"train": 32, "dev": 16, "test": 4}
DATA: dict[str, Any] = {
    "name": "pico bert",
    "model": "bert",
    "seeds": 2,
    "held_out": 0.25,
    "tasks": {"rte": {"seeds": 1}, "stsb": {}},
    "teacher": {"lr": [1e-3, 1e-4], "batch": [8], "epochs": 1},
    "general": {"text": "wiki.txt", "tokens": 10 * TOKENS, "length": 32, "batch": 8, "held_out": 8},
    "schedule": {"warmup": 2 * TOKENS, "decay": 0.4, "measure": 4 * TOKENS, "calibration": 256, "dtype": "float32"},
    "task": {"epochs": 1, "batch": 8, "evaluations": 1},
    "rows": {"III-16": {"compress": {"method": "III-16"}}, "II-4": {"compress": {"method": "II-4", "tile": "whole"}}},
}


def silent(_: str) -> None:
    pass


def given(folder: Path) -> Path:
    """models/bert and data, which all campaigns of a test module share."""
    gc.freeze()  # accelerate collects garbage after every training: half a second over all that was imported
    save_folder(folder / "models/bert", "bert")
    (folder / "data/glue").mkdir(parents=True)
    write_text(folder / "data/wiki.txt", times=1)
    for task in ("rte", "stsb"):
        write_task_files(folder / "data/glue", task, ROWS)
    return folder


def places(given: Path, home: Path, **changes: Any) -> Places:
    campaign = parse_campaign({**DATA, **changes})
    return Places(campaign, given / "data", home / "work", home / "results", given / "models")
