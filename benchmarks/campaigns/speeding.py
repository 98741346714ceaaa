"""Throughput of a student against its original, both in one process, by tenfold's own measurement."""

from dataclasses import asdict
from typing import Any

import torch

from campaigns.places import Places, Say, done
from campaigns.students import folder_of
from campaigns.table import start_of
from tenfold.measurement.measuring import measure_folders
from tenfold.measurement.settings import Settings
from tenfold.records import Record

CUDA: dict[str, Any] = {"batches": [256], "lengths": [128], "dtypes": ["bfloat16"], "paths": ["eager", "fused"]}
CPU: dict[str, Any] = {"batches": [8], "lengths": [128], "dtypes": ["float32"], "paths": ["eager", "fused"]}


def measure_speed(places: Places, row: str, say: Say) -> Record:
    """How many times as fast as the original's fastest path the student's is, at one batch and length, with its interval."""
    asked = CUDA if torch.cuda.is_available() else CPU
    settings = {"start": start_of(places.campaign, row).to_dict(), "measure": asked}
    file = places.result(row, "speed")
    if (held := done(file, settings)) is not None:
        return held
    folder = folder_of(places, row, say)
    wanted: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in asked.items()}
    found = measure_folders(str(folder), str(places.original.folder), Settings(**wanted), say)
    [cell] = found.cells
    best = max((each for each in cell.speedups if each.best), key=lambda each: each.estimate)
    return places.write(file, settings, row=row, speedup=asdict(best), cell=asdict(cell))
