"""Where a campaign reads and writes, how long it may take, and what every result says of its making."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from campaigns.table import Campaign
from tenfold.checkpoints import Source, find
from tenfold.errors import TenfoldError
from tenfold.experiments.bench import safe
from tenfold.measurement.machine import device_of, machine
from tenfold.records import Record, digest, read_json, stamp, write_json

Say = Callable[[str], None]


class Spent(TenfoldError):
    """The budget is used up; all is saved."""


@dataclass(frozen=True)
class Budget:
    """Minutes of wall clock from when it was made; None for no end."""

    minutes: float | None = None
    begun: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> bool:
        return self.minutes is not None and time.monotonic() - self.begun >= 60 * self.minutes

    def check(self) -> None:
        if self.spent:
            raise Spent(f"the budget of {self.minutes:g} minutes is spent: all is saved, the same command goes on")


@dataclass(frozen=True)
class Places:
    """data: GLUE's folders under glue/, text as campaigns name it. work: models and states. results: the JSON files.

    models: folders by the name of a campaign's model; one that is not there is a folder or hub name by itself.
    """

    campaign: Campaign
    data: Path
    work: Path
    results: Path
    models: Path

    @cached_property
    def original(self) -> Source:
        folder = self.models / self.campaign.model
        return find(str(folder) if folder.is_dir() else self.campaign.model, weights=True)

    @cached_property
    def hash(self) -> str:
        assert self.original.header is not None
        return digest(self.original.header.files)

    @property
    def home(self) -> Path:
        """Of this campaign's models and states."""
        return self.work / safe(self.campaign.name)

    def result(self, *names: str) -> Path:
        return self.results.joinpath(safe(self.campaign.name), *(safe(name) for name in names)).with_suffix(".json")

    def write(self, file: Path, settings: Any, **facts: Any) -> Record:
        entry = stamp("campaign", **facts)
        entry["command"] = ["python", "benchmarks/campaign.py", *(_plain(word) for word in entry["command"][1:])]
        entry["machine"] = machine(device_of(None))
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"campaign": self.campaign.name, "settings": settings, "model": self.hash, **entry})
        record: Record = read_json(file)
        return record


def done(file: Path, settings: Any) -> Record | None:
    """A result that is there; one of other settings is not overwritten."""
    held: Record | None = read_json(file)
    if held is not None and held["settings"] != settings:
        changed = next(key for key in {**held["settings"], **settings} if held["settings"].get(key) != settings.get(key))
        raise TenfoldError(
            f"a cell keeps its settings, got {file}, which was made with another {changed}: rename the row, or remove it"
        )
    return held


def _plain(word: str) -> str:
    """A folder of this machine by its last name."""
    return Path(word).name if word.startswith(("/", "~", "..")) else word
