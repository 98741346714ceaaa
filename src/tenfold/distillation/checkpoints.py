"""Which checkpoint of an unfinished run to go on from."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import torch

from tenfold.errors import CheckpointError
from tenfold.safetensors_header import read_header

STATE = "trainer_state.json"


def last_good(work: Path, say: Callable[[str], None]) -> str | None:
    """The newest checkpoint that can be read whole; cut-off ones are passed over, and said so."""
    found = sorted(work.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in found:
        problem = _problem(path)
        if problem is None:
            return str(path)
        say(f"warning: {path.name} is not whole ({problem}): going on from the one before")
    return None


def _problem(path: Path) -> str | None:
    try:
        read_header(path)
        json.loads((path / STATE).read_text(encoding="utf-8"))
        for file in (path / "optimizer.pt", path / "scheduler.pt", *path.glob("rng_state*.pth")):
            torch.load(file, map_location="cpu", weights_only=False)
    except (CheckpointError, OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        return str(error).splitlines()[0]
    return None
