"""The steps of a run: folders in WORK that are complete or absent, so that the same command goes on where it was killed."""

import json
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tenfold.compression import Progress
from tenfold.errors import OutputError, TenfoldError
from tenfold.records import read_json, write_json

TOLD, SECONDS = "run.json", "seconds.json"


class Steps:
    """WORK belongs to one set of inputs, `told`. `seconds` says how long each step took in the process that finished it."""

    def __init__(self, work: Path, told: Mapping[str, Any], fresh: bool, progress: Progress) -> None:
        self.work, self._progress, self._step = work, progress, ""
        if work.exists() and not (work / TOLD).is_file() and (not work.is_dir() or any(work.iterdir())):
            raise OutputError(
                f"a run keeps its steps in {work}, got something else there: move that away, or choose another OUT"
            )
        if fresh:
            shutil.rmtree(work, ignore_errors=True)
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"a run must be able to write {work}, got {error.strerror}: choose another OUT") from error
        told = json.loads(json.dumps(told))
        before = read_json(work / TOLD)
        if before is not None and before != told:
            raise TenfoldError(
                f"{work} holds an unfinished run of another recipe or model: finish that, or pass --fresh to drop it"
            )
        write_json(work / TOLD, told)
        self.seconds: dict[str, float] = read_json(work / SECONDS) or {}

    def say(self, text: str) -> None:
        self._progress(f"{self._step}: {text}" if self._step else text)

    def folder(self, name: str, make: Callable[[Path], Any], inside: str = "") -> Path:
        """WORK/name (or WORK/name/inside), which `make` makes where it is not there yet."""
        folder = self.work / name / inside
        self.once(name, folder, lambda: make(folder))
        return folder

    def once(self, name: str, done: Path, make: Callable[[], Any]) -> None:
        """`make`, unless what it leaves is there."""
        if done.exists():
            return
        self._step = name
        self.say("starts")
        start = time.perf_counter()
        make()
        assert done.exists(), done
        self.seconds[name] = round(time.perf_counter() - start, 1)
        self._step = ""
        write_json(self.work / SECONDS, self.seconds)
