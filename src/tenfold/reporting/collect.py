"""Everything that lies in a folder that a verb made, read once: what reports, model cards and comparisons are told from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

from tenfold.errors import CheckpointError
from tenfold.measurement.record import Measurement, read_measurement
from tenfold.planning.plan import MODEL, Plan, plan_from_dict
from tenfold.records import AGREEMENT, ANALYSIS, HISTORY, MEASUREMENT, RESULTS, SCORES, Record, history, read_json
from tenfold.reporting.records import Agreement, Analysis, Done, Results, Scores, check, read
from tenfold.safetensors_header import read_shapes

DENSE = "dense"


@dataclass(frozen=True)
class Count:
    """Of the original (None: not known) and of what was made from it."""

    before: int | None
    after: int

    @property
    def ratio(self) -> float | None:
        """Kept / original."""
        return self.after / self.before if self.before else None


@dataclass(frozen=True)
class Run:
    """One folder. What it does not hold is None or empty; `plan` is None for a dense model."""

    folder: Path
    name: str
    config: Record
    plan: Plan | None
    history: tuple[Done, ...]
    scores: Scores | None
    measurement: Measurement | None
    agreement: Agreement | None
    analysis: Analysis | None
    results: Results | None
    recipe: str | None

    def entries(self, *verbs: str) -> tuple[Done, ...]:
        """What was done by these verbs, oldest first."""
        return tuple(entry for entry in self.history if entry.verb in verbs)

    @property
    def compression(self) -> Done:
        """The last compress entry, or an empty one."""
        return (self.entries("compress") or (Done(verb="compress"),))[-1]

    @property
    def model(self) -> bool:
        """Whether it holds a model; a table of models is a run too."""
        return (self.folder / "config.json").is_file()

    @property
    def taught(self) -> bool:
        """Whether its weights moved after they were compressed."""
        return bool(self.history) and self.history[-1].verb != "compress"

    @property
    def original(self) -> str | None:
        """The model that it is held against, as it was typed: what was compressed, else fine-tuned, else its teacher."""
        if self.compression.model is not None:
            return self.compression.model
        if self.results is not None:
            return self.results.model
        return next((name for entry in self.history for name in (entry.model, entry.teacher) if name is not None), None)

    @property
    def method(self) -> str:
        return self.plan.method if self.plan else DENSE

    @property
    def form(self) -> str:
        """The form of its matrices: of the largest group where there are several."""
        groups = self.plan.matrix_groups or self.plan.groups if self.plan else ()
        return max(groups, key=lambda group: group.dense).form.kind if groups else DENSE

    @cached_property
    def parameters(self) -> dict[str, Count]:
        """By scope. Where compress left no entry, the model's count is that of the file and the plan."""
        if recorded := self.compression.parameters:
            return {scope: Count(row.before, row.after) for scope, row in recorded.items()}
        after = sum(prod(shape) for file in self.weights for shape in read_shapes(file).values())
        saved = sum(group.dense - group.parameters for group in self.plan.groups) if self.plan else 0
        return {MODEL: Count(after + saved if self.plan else None, after)} if after else {}

    @property
    def flops(self) -> Count | None:
        """Of one request of 128 tokens."""
        recorded = self.compression.flops
        return Count(recorded.before, recorded.after) if recorded else None

    @property
    def weights(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.glob("*.safetensors")))

    @property
    def disk(self) -> Count | None:
        """Bytes of all weight files."""
        before = self.compression.bytes_before or (self.measurement and self.measurement.original.disk_bytes)
        after = sum(file.stat().st_size for file in self.weights)
        return Count(before or None, after) if after else None

    @property
    def sentences(self) -> bool:
        """Whether sentence-transformers loads it."""
        return (self.folder / "modules.json").is_file()


def collect(folder: Path) -> Run:
    """A folder with a record of any verb; another one is refused."""
    if not folder.is_dir():
        raise CheckpointError(
            f"a run must be a folder that a verb of tenfold made, got {folder}, which is none: check the path"
        )
    config = read_json(folder / "config.json") or {}
    data = config.get("quantization_config") or {}
    plan = plan_from_dict(data) if data.get("quant_method") == "tenfold" else None
    recipe = folder / "recipe.yaml"
    run = Run(
        folder=folder,
        name=folder.resolve().name,
        config=config,
        plan=plan,
        history=check(history(folder), tuple[Done, ...], folder / HISTORY),
        scores=read(folder / SCORES, Scores),
        measurement=read_measurement(folder),
        agreement=read(folder / AGREEMENT, Agreement),
        analysis=read(folder / ANALYSIS / f"{ANALYSIS}.json", Analysis),
        results=read(folder / RESULTS, Results),
        recipe=recipe.read_text(encoding="utf-8") if recipe.is_file() else None,
    )
    if plan is None and not run.history and not any((run.scores, run.measurement, run.agreement, run.results)):
        raise CheckpointError(
            f"a run must hold a record of what was done to it, got {folder} without {HISTORY}, {SCORES}, {MEASUREMENT} or "
            f"{RESULTS}: name a folder that compress, distill or finetune made, or run tenfold evaluate or measure on it first"
        )
    return run


def collect_all(folders: Sequence[Path]) -> list[Run]:
    """Several, with names that tell them apart: as much of each path as it takes."""
    places = [folder.resolve() for folder in folders]
    if twice := next((folder for k, folder in enumerate(folders) if places[k] in places[:k]), None):
        raise CheckpointError(f"each run is named once, got {twice} again: leave it out")
    runs = [collect(folder) for folder in folders]
    names = distinct([place.parts for place in places])
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def distinct(paths: Iterable[Sequence[str]]) -> list[str]:
    """The shortest ends of paths that differ: x/small and y/small, but big."""
    all_paths = [tuple(path) for path in paths]
    found = []
    for path in all_paths:
        length = 1
        while length < len(path) and sum(other[-length:] == path[-length:] for other in set(all_paths)) > 1:
            length += 1
        found.append("/".join(path[-length:]))
    return found
