"""Everything that lies in a folder that a verb made, read once: what reports, model cards and comparisons are told from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path

from tenfold.errors import CheckpointError, PlanError
from tenfold.measurement.record import Measurement, read_measurement
from tenfold.methods import parse
from tenfold.planning.plan import MODEL, Plan, plan_from_dict
from tenfold.records import AGREEMENT, ANALYSIS, HISTORY, MEASUREMENT, RESULTS, SCORES, Record, history, read_json
from tenfold.reporting.records import Agreement, Analysis, Done, Look, Results, Scores, Sized, check, read
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
    look: Look | None
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
    def last(self) -> Done | None:
        """What was last done to its weights; export only writes them another way."""
        return next((entry for entry in reversed(self.history) if entry.verb != "export"), None)

    @property
    def taught(self) -> bool:
        """Whether its weights moved after they were compressed."""
        return self.last is not None and self.last.verb != "compress"

    @property
    def onnx(self) -> bool:
        """Whether its model is an ONNX file alone."""
        return not self.weights and (self.folder / "onnx" / "model.onnx").is_file()

    @property
    def multiplied_out(self) -> bool:
        """Whether its factors became matrices of the original's shapes: then it costs what the original does."""
        made = [entry for entry in self.history if entry.verb == "compress" or entry.to == "dense"]
        return bool(made) and made[-1].to == "dense"

    @property
    def original(self) -> str | None:
        """The model that it is held against, as it was typed: what was compressed, else fine-tuned, else its teacher."""
        if self.compression.model is not None:
            return self.compression.model
        if other := self.results or self.look:
            return other.model
        return next((name for entry in self.history for name in (entry.model, entry.teacher) if name is not None), None)

    @property
    def method(self) -> str:
        if self.onnx and not self.multiplied_out:
            return self.compression.method or DENSE
        return self.plan.method if self.plan else DENSE

    @property
    def form(self) -> str:
        """The form of its matrices: of the largest group where there are several. An ONNX file tells no plan."""
        if self.plan is None:
            return form_of(self.method)
        groups = self.plan.matrix_groups or self.plan.groups
        return max(groups, key=lambda group: group.dense).form.kind if groups else DENSE

    @cached_property
    def parameters(self) -> dict[str, Count]:
        """By scope. Where compress left no entry, the model's count is that of the file and the plan."""
        if recorded := self.compression.parameters:
            return {scope: self._count(row) for scope, row in recorded.items()}
        after = sum(prod(shape) for file in self.weights for shape in read_shapes(file).values())
        saved = sum(group.dense - group.parameters for group in self.plan.groups) if self.plan else 0
        return {MODEL: Count(after + saved if self.plan else None, after)} if after else {}

    @property
    def flops(self) -> Count | None:
        """Of one request of 128 tokens."""
        recorded = self.compression.flops
        return self._count(recorded) if recorded else None

    def _count(self, recorded: Sized) -> Count:
        return Count(recorded.before, recorded.before if self.multiplied_out else recorded.after)

    @property
    def weights(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.glob("*.safetensors")))

    @property
    def disk(self) -> Count | None:
        """Bytes of all weight files, or of the ONNX file and what lies beside it."""
        before = self.compression.bytes_before or (self.measurement and self.measurement.original.disk_bytes)
        files = (self.folder / "onnx").iterdir() if self.onnx else self.weights
        after = sum(file.stat().st_size for file in files)
        return Count(before or None, after) if after else None

    @property
    def sentences(self) -> bool:
        """Whether sentence-transformers loads it."""
        return (self.folder / "modules.json").is_file()


def form_of(method: str) -> str:
    """The kind of form that a method's name stands for; what is none is dense."""
    try:
        return parse(method).form(1, 1).kind
    except PlanError:
        return DENSE


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
    looked = read_json(folder / f"{ANALYSIS}.json")
    verb = looked.get("verb") if isinstance(looked, dict) else None
    if verb == "analyze":
        raise CheckpointError(f"a run must hold more than an analysis, got {folder}: name the model's, {looked.get('model')}")
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
        look=check(looked, Look, folder / f"{ANALYSIS}.json") if verb == "explore" else None,
        results=read(folder / RESULTS, Results),
        recipe=recipe.read_text(encoding="utf-8") if recipe.is_file() else None,
    )
    if plan is None and not run.history and not any((run.scores, run.measurement, run.agreement, run.look, run.results)):
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
