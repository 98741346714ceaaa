"""What a student's folder says of how it was made, and a private low-rank rival of the same size."""

from bisect import bisect_right
from pathlib import Path
from typing import Any

from tenfold.checkpoints import Source, find, skeleton
from tenfold.distillation.stage import ONLY, Stage
from tenfold.errors import PlanError
from tenfold.experiments.bench import parameters
from tenfold.methods import ALL, parse
from tenfold.planning import MODEL, plan_model
from tenfold.recipe import Compress
from tenfold.records import Record, history

_SITES = {ALL: "", "attention": "-SAN", "ffn": "-FFN"}


def made_by(student: str, verb: str) -> list[Record]:
    """The entries of a verb, oldest first; none for a name of the hub."""
    folder = Path(student)
    return [entry for entry in (history(folder) if folder.is_dir() else []) if entry["verb"] == verb]


def original_of(student: str) -> str | None:
    """What the student was compressed or trimmed from, as it was typed."""
    return next((str(entry["model"]) for verb in ("compress", "trim") for entry in made_by(student, verb)), None)


def general_stages(student: str) -> list[tuple[str, Stage]]:
    """(teacher, stage) of every round on unlabelled text that the student went through."""
    entries = [entry for entry in made_by(student, "distill") if entry["settings"]["stage"] == "general"]
    return [(str(entry["teacher"]), _stage(entry["settings"])) for entry in entries]


def _stage(settings: Record) -> Stage:
    """A stage out of its own dump, which also names what the other kind of stage reads."""
    return Stage.model_validate(
        {key: value for key, value in settings.items() if key not in ONLY["task"] and value is not None}
    )


def rival_settings(student: str, method: str) -> Compress:
    """The student's way of compressing (start, text, embeddings) with another method on square tiles of one group."""
    base = Compress(**_compressed(student).get("settings", {}))
    return base.model_copy(update={"method": method, "to": None, "tile": "square", "group": "all", "sites": None})


def low_rank_settings(model: str, student: str) -> Compress:
    """II-d on whole matrices of the student's sites, at the largest d with which the model has no more parameters than it."""
    source, entry = find(model, weights=True), _compressed(student)
    sites = Compress(**entry.get("settings", {})).sites or parse(str(entry.get("method", "II-1"))).sites
    budget = parameters(_folder(find(student, weights=True)))
    stem = f"II{_SITES[sites]}"
    settings = rival_settings(student, "II-1").model_copy(update={"tile": "whole"})
    network: Any = skeleton(source)

    def kept(d: int) -> int:
        try:
            return plan_model(network, settings.model_copy(update={"method": f"{stem}-{d}"}))[0].plan.kept(MODEL)
        except PlanError:
            return budget + 1  # a rank that no matrix has

    largest = bisect_right(range(1, network.config.get_text_config().hidden_size + 1), budget, key=kept)
    if largest == 0:
        raise PlanError(
            f"low_rank must be as small as {student} ({budget:,} parameters), got {kept(1):,} at rank 1: leave it out"
        )
    return settings.model_copy(update={"method": f"{stem}-{largest}"})


def _compressed(student: str) -> Record:
    """Its last compression; nothing for a student that was never compressed."""
    return (made_by(student, "compress") or [{}])[-1]


def _folder(source: Source) -> Path:
    assert source.folder is not None
    return source.folder
