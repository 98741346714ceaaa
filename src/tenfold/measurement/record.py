"""measurement.json: what a measurement holds, as it lies beside the compressed model.

    {"version": 1, "command": [...], "time": "2026-01-31T12:00:00+00:00", "versions": {...}, "machine": {...},
     "settings": {...}, "seconds": 81.2,
     "original":   {"name", "method": null, "cls", "parameters": {"model", "paper", "matrices"}, "disk_bytes",
                    "memory_bytes": {"float32": n}},
     "compressed": {... "method": "IV-36-128"},
     "flops": [{"model": "compressed", "path": "eager", "length": 128, "predicted": n or null, "counted": n, "rest": n}],
     "cells": [{"batch": 8, "length": 128, "dtype": "float32", "label": "128", "tokens": 1024,
                "timings": [{"model", "path", "state": "timed" | "wrong" | "absent", "why", "median", "p95", "calls",
                             "throughput", "peak_bytes", "difference", "prepare_seconds", "first_seconds"}],
                "speedups": [{"path", "against", "best": false, "estimate", "low", "high", "rounds", "verdict"}]}],
     "throughput": [{"model", "path", "label", "dtype", "batch", "sequences_per_second", "peak_bytes"}],
     "crossovers": ["eager, float32: slower than the original (eager) below batch 4 at length 32"],
     "notes": [...]}

Seconds, bytes and FLOPs (2 x multiply-adds) throughout. A speed-up is time of the original / time of the compressed model, so
above 1 the compressed one is faster; `low` and `high` are null where there were too few rounds for an interval.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from tenfold.errors import CheckpointError, OutputError
from tenfold.measurement.statistics import Verdict
from tenfold.records import MEASUREMENT, read_json, write_json

VERSION = 1
ORIGINAL: Final = "original"
COMPRESSED: Final = "compressed"
TIMED: Final = "timed"
WRONG: Final = "wrong"
ABSENT: Final = "absent"

Role = Literal["original", "compressed"]
State = Literal["timed", "wrong", "absent"]


@dataclass(frozen=True)
class Counts:
    """Of one model. `parameters` by scope (tenfold.planning.SCOPES), those inside a compressed model's factors included;
    `memory_bytes` are its parameters and buffers in each precision measured, each shared one once. `cls`: the class timed."""

    name: str
    method: str | None
    cls: str
    parameters: dict[str, int]
    disk_bytes: int
    memory_bytes: dict[str, int]


@dataclass(frozen=True)
class Flops:
    """Of one sequence of `length`. `counted` by torch on the path as it ran; `predicted` from the plan (matrices, attention,
    and mixing the banks where the path does), None where the plan cannot tell; `rest`: counted outside the layers."""

    model: Role
    path: str
    length: int
    predicted: int | None
    counted: int
    rest: int

    @property
    def agrees(self) -> bool | None:
        """Whether torch counted inside the layers what the plan predicts."""
        return None if self.predicted is None else self.predicted == self.counted - self.rest


@dataclass(frozen=True)
class Timing:
    """One model on one path in one cell. Where it was not timed only `why` is filled, and `difference` where it is known.

    median, p95      of a call, over `calls` of them
    throughput       sequences a second at the median
    peak_bytes       what its weights, and the most that a call held besides, take; None where the runtime does not tell
    difference       of its outputs to those of its model's eager path: norm of the difference / norm, over real tokens
    prepare_seconds  making the path ready; what is made once for all cells (an ONNX file) was paid for in the first of them
    first_seconds    the first call, which compiles and warms up
    how              what was chosen for the fused path
    """

    model: Role
    path: str
    state: State
    why: str = ""
    median: float | None = None
    p95: float | None = None
    calls: int = 0
    throughput: float | None = None
    peak_bytes: int | None = None
    difference: float | None = None
    prepare_seconds: float | None = None
    first_seconds: float | None = None
    how: str = ""


@dataclass(frozen=True)
class Speedup:
    """The compressed model's `path` against the original's path `against`; `best`: that is the original's fastest here."""

    path: str
    against: str
    best: bool
    estimate: float
    low: float | None
    high: float | None
    rounds: int
    verdict: Verdict


@dataclass(frozen=True)
class Cell:
    """One batch x length x precision. `label` names the length: its number, or "text" where `lengths` come from one.

    `length` is what the batch is padded to, `tokens` counts the real ones.
    """

    batch: int
    length: int
    dtype: str
    label: str
    tokens: int
    timings: tuple[Timing, ...]
    speedups: tuple[Speedup, ...]

    def timing(self, model: Role, path: str) -> Timing | None:
        return next((each for each in self.timings if (each.model, each.path) == (model, path)), None)

    def speedup(self, path: str, best: bool) -> Speedup | None:
        """Against the original's same path, or against its best one."""
        wanted = (each for each in self.speedups if each.path == path and (each.best if best else each.against == path))
        return next(wanted, None)


@dataclass(frozen=True)
class Throughput:
    """The batch, among those measured that fit the memory limit, at which a model answers most sequences a second."""

    model: Role
    path: str
    label: str
    dtype: str
    batch: int
    sequences_per_second: float
    peak_bytes: int | None


@dataclass(frozen=True)
class Measurement:
    """All of it. `machine`: cpu, cores, threads, device, system, peak_rss_bytes of the process."""

    command: list[str]
    time: str
    versions: dict[str, str]
    machine: dict[str, Any]
    settings: dict[str, Any]
    seconds: float
    original: Counts
    compressed: Counts
    flops: tuple[Flops, ...]
    cells: tuple[Cell, ...]
    throughput: tuple[Throughput, ...]
    crossovers: tuple[str, ...]
    notes: tuple[str, ...]
    version: int = field(default=VERSION)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def counts(self, model: Role) -> Counts:
        return self.original if model == ORIGINAL else self.compressed


def from_dict(data: Any) -> Measurement:
    found = data.get("version") if isinstance(data, dict) else None
    if found != VERSION:
        raise CheckpointError(f"{MEASUREMENT} must have version {VERSION}, got {found}: measure again with this tenfold")
    try:
        return TypeAdapter(Measurement).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{MEASUREMENT} must hold a measurement, got {first['msg']} at {where}: measure again") from error


def read_measurement(folder: Path) -> Measurement | None:
    """None where the folder was not measured."""
    data = read_json(folder / MEASUREMENT)
    return None if data is None else from_dict(data)


def write_measurement(folder: Path, measurement: Measurement) -> Path:
    """Beside the model, where it takes the place of an older one."""
    return write_file(folder / MEASUREMENT, measurement)


def write_file(file: Path, measurement: Measurement) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, measurement.to_dict())
    return file


def measurement_file(compressed: str, out: Path | None) -> Path:
    """Where a measurement goes: beside the model, or `out`, which may replace a measurement and nothing else."""
    if out is None:
        if not Path(compressed).is_dir():
            raise OutputError(
                f"a measurement is kept beside the model, got {compressed}, which is no folder: give --out FILE.json"
            )
        return Path(compressed) / MEASUREMENT
    if out.is_dir():
        raise OutputError(f"--out must be a file, got the folder {out}: write {out / MEASUREMENT}")
    if out.exists():
        try:
            from_dict(read_json(out))
        except CheckpointError as error:
            raise OutputError(
                f"--out replaces a measurement, got {out}, which holds something else: choose another name"
            ) from error
    return out
