"""A compressed model against its original, in one process: what both have, what both cost, and how long both take."""

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch

from tenfold.checkpoints import Source, find, load
from tenfold.compression import Progress
from tenfold.errors import TenfoldError
from tenfold.measurement.counting import RELATIVE, Anatomy, anatomy, counts, flops
from tenfold.measurement.machine import device_of, machine
from tenfold.measurement.paths import EAGER, FUSED, ONNX, Absent, Subject, prepare
from tenfold.measurement.record import COMPRESSED, ORIGINAL, TIMED, Cell, Flops, Measurement, Role
from tenfold.measurement.rounds import cell
from tenfold.measurement.settings import DTYPES, Settings
from tenfold.measurement.shapes import Shape, full, pictures, shapes
from tenfold.measurement.summary import crossovers, throughputs
from tenfold.measurement.timing import clock_of
from tenfold.records import stamp

Subjects = Mapping[Role, Subject]
ROLES: tuple[Role, ...] = (ORIGINAL, COMPRESSED)


def measure_folders(compressed: str, original: str, settings: Settings, progress: Progress = lambda _: None) -> Measurement:
    """All of it. Nothing is written: write_measurement does that."""
    start = perf_counter()
    entry = stamp("measure")
    device = device_of(settings.device)
    sources: dict[Role, Source] = {ORIGINAL: find(original, weights=True), COMPRESSED: find(compressed, weights=True)}
    with TemporaryDirectory(prefix="tenfold-measure-") as work:
        measured = _Measured(sources, settings, device, Path(work), progress)
        for dtype in settings.dtypes:
            measured.add(dtype)
    if not any(timing.state == TIMED for each in measured.cells for timing in each.timings):
        timing = measured.cells[0].timings[0]
        raise TenfoldError(f"at least one path must run, got none: {timing.model}, {timing.path}: {timing.why}")
    return Measurement(
        command=entry["command"],
        time=entry["time"],
        versions=entry["versions"] | _more_versions(settings),
        machine=machine(device),
        settings=_told(settings),
        seconds=perf_counter() - start,
        original=measured.counts[ORIGINAL],
        compressed=measured.counts[COMPRESSED],
        flops=tuple(measured.flops),
        cells=tuple(measured.cells),
        throughput=throughputs(measured.cells, settings.memory_limit),
        crossovers=crossovers(measured.cells),
        notes=tuple(measured.notes),
    )


class _Measured:
    """What is known so far; every precision adds its cells."""

    def __init__(self, sources: Mapping[Role, Source], settings: Settings, device: torch.device, work: Path, say: Progress):
        self.sources, self.settings, self.device, self.work, self.say = sources, settings, device, work, say
        self.draw = random.Random(settings.seed)
        self.counts: dict[Role, Any] = {}
        self.flops: list[Flops] = []
        self.cells: list[Cell] = []
        self.notes: list[str] = []

    def add(self, dtype: str) -> None:
        subjects = self._load(DTYPES[dtype])
        known = {role: anatomy(subject.model) for role, subject in subjects.items()}
        found = {role: counts(self.sources[role], subject.model, known[role]) for role, subject in subjects.items()}
        asked, models = self.settings, [subject.model for subject in subjects.values()]
        todo = shapes(models, self.sources[COMPRESSED], asked.batches, asked.lengths, asked.lengths_from, asked.seed)
        if self.counts:
            for role in ROLES:
                memory = self.counts[role].memory_bytes | found[role].memory_bytes
                self.counts[role] = replace(self.counts[role], memory_bytes=memory)
        else:
            self.counts = found
            self.notes += _notes(subjects, known)
            self.say("counting FLOPs")
            self.flops += _flops(subjects, known, todo, asked)
        for shape in todo:
            self.cells.append(cell(subjects, shape, asked, clock_of(self.device), self.draw, self.say))
            self.notes += _cell_notes(self.cells[-1])

    def _load(self, dtype: torch.dtype) -> dict[Role, Subject]:
        """Both models, or the base models of both where their heads differ."""
        models = {}
        for role in ROLES:
            self.say(f"loading the {role} model")
            models[role] = load(self.sources[role]).to(device=self.device, dtype=dtype)
        whole = type(models[ORIGINAL]) is type(models[COMPRESSED])
        subjects = {}
        for role, model in models.items():
            timed = model if whole else model.base_model
            if hasattr(timed.config, "use_cache"):
                timed.config.use_cache = False  # what a decoder keeps for the next word is no part of reading a text
            work = self.work / str(dtype)
            work.mkdir(exist_ok=True)
            subjects[role] = Subject(
                role, self.sources[role], timed.eval().requires_grad_(False), whole or timed is model, work
            )
        return subjects


def _flops(subjects: Subjects, known: Mapping[Role, Anatomy | None], todo: list[Shape], settings: Settings) -> Iterator[Flops]:
    """Of each length that is measured, by the paths that torch's counter can see into."""
    models: list[Any] = [subject.model for subject in subjects.values()]
    paths = [path for path in (EAGER, FUSED) if path == EAGER or path in settings.paths]
    for length, (role, subject), path in product(dict.fromkeys(s.length for s in todo), subjects.items(), paths):
        alone = pictures(models, 1) if "pixel_values" in todo[0].inputs else full(models, 1, length)
        alone = alone.to(models[0].device, models[0].dtype)
        with suppress(Absent):  # its timings say why
            yield flops(role, path, prepare(path, subject, alone), known[role], alone)


def _notes(subjects: Subjects, known: Mapping[Role, Anatomy | None]) -> Iterator[str]:
    original, compressed = (subjects[role] for role in ROLES)
    if not (original.whole and compressed.whole):
        yield (
            f"the heads differ, so the base models were measured: {type(original.model).__name__} against "
            f"{type(compressed.model).__name__}"
        )
    plans = [found.plan for found in known.values() if found is not None]
    made_of = [plan.totals.matrices for plan in plans if plan.totals is not None]
    if len(set(made_of)) > 1:
        first, second = made_of
        yield f"the two were not made from one model: the matrices of one had {first:,} parameters, of the other {second:,}"
    for role, found in known.items():
        if found is None:
            yield f"the {role} model has no known weight matrices: its FLOPs are counted, not predicted"
        elif subjects[role].model.config.model_type in RELATIVE:
            yield f"the {role} model sends relative positions through its matrices too: its FLOPs are counted, not predicted"


def _cell_notes(found: Cell) -> Iterator[str]:
    if any(ratio.low is None for ratio in found.speedups):
        rounds = max(ratio.rounds for ratio in found.speedups)
        yield (
            f"batch {found.batch}, length {found.label}, {found.dtype}: {rounds} rounds are too few for an interval; give "
            "--max-seconds more, or --repeats"
        )


def _more_versions(settings: Settings) -> dict[str, str]:
    try:
        return {"onnxruntime": version("onnxruntime")} if ONNX in settings.paths else {}
    except PackageNotFoundError:
        return {}


def _told(settings: Settings) -> dict[str, Any]:
    """As JSON gives them back."""
    found = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(settings).items()}
    return found | {"lengths_from": None if settings.lengths_from is None else str(settings.lengths_from)}
