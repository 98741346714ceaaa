"""From a recipe to OUT: compress, general stage, teacher, task stage, scores, speed, report. Each step goes on where it was."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenfold.checkpoints import find
from tenfold.compression import Progress
from tenfold.distillation.running import distill_folder
from tenfold.evaluation.scoring import evaluate_folder
from tenfold.folders import complete_folder, refuse_existing
from tenfold.measurement import measure_folders
from tenfold.measurement.record import write_measurement
from tenfold.pipeline import compress_folder, weight_bytes
from tenfold.recipe import Recipe
from tenfold.records import AGREEMENT, MEASUREMENT, REPORT, SCORES, digest, history, read_json
from tenfold.reporting.card import write_card
from tenfold.reporting.page import write_report
from tenfold.workflow.agreeing import write_agreement
from tenfold.workflow.checking import check_flow
from tenfold.workflow.recipe import Flow, dump_flow
from tenfold.workflow.steps import Steps
from tenfold.workflow.teaching import teacher_of

ALIKE = {"compressed": "compressed", "general": "compressed and taught"}
"""The models that are held against the original without a task, as a reader knows them."""


@dataclass(frozen=True)
class Ran:
    """OUT, which holds everything said here. seconds: of each step; the records are None where they were not asked for.

    compression: what compress wrote of itself in history.json: method, parameters and FLOPs before and after.
    """

    out: Path
    seconds: Mapping[str, float]
    bytes_before: int
    bytes_after: int
    compression: Mapping[str, Any]
    scores: Mapping[str, Any] | None
    measurement: Mapping[str, Any] | None
    agreement: Mapping[str, Any] | None
    report: Path | None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        told = {name: self.compression.get(name) for name in ("method", "parameters", "flops")}
        return {
            "out": str(self.out),
            "seconds": dict(self.seconds),
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
            **told,
            "scores": self.scores,
            "measurement": self.measurement,
            "agreement": self.agreement,
            "report": None if self.report is None else str(self.report),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Models:
    """What the steps made, by name in their order; the last is the result. `original`: what it is held against."""

    made: dict[str, Path]
    original: str

    @property
    def result(self) -> Path:
        return [*self.made.values()][-1]


def run_flow(
    flow: Flow,
    out: Path,
    force: bool = False,
    fresh: bool = False,
    keep: bool = False,
    progress: Progress = lambda _: None,
) -> Ran:
    """OUT.run holds the steps until OUT is complete (and with `keep` for ever); the same command goes on with what is there."""
    refuse_existing(out, force)
    check_flow(flow)
    assert flow.model is not None
    source = find(flow.model, weights=True)
    assert source.header is not None and source.folder is not None
    out = out.resolve()
    told = {"recipe": flow.model_dump(mode="json"), "model": digest(source.header.files)}
    steps = Steps(out.with_name(f"{out.name}.run"), told, fresh, progress)
    models = _models(flow, steps)
    final = _told(flow, models, steps, out.name)
    with complete_folder(out, force) as partial:
        shutil.copytree(final, partial, dirs_exist_ok=True)
    if not keep:
        shutil.rmtree(steps.work)
    compression = next(entry for entry in reversed(history(out)) if entry["verb"] == "compress")
    notes = (f"{flow.model} answers the task already: the section finetune had nothing to do",) if _idle(flow, models) else ()
    return Ran(
        out,
        steps.seconds,
        bytes_before=weight_bytes(source.folder),
        bytes_after=weight_bytes(out),
        compression=compression,
        scores=read_json(out / SCORES),
        measurement=read_json(out / MEASUREMENT),
        agreement=read_json(out / AGREEMENT),
        report=out / REPORT if flow.report else None,
        notes=notes,
    )


def _idle(flow: Flow, models: Models) -> bool:
    return flow.finetune is not None and models.original == flow.model


def _models(flow: Flow, steps: Steps) -> Models:
    """Every model on the way, as a folder of its own."""
    assert flow.model is not None
    model, say = flow.model, steps.say
    recipe = Recipe(model=model, compress=flow.start)
    made = {"compressed": steps.folder("compressed", lambda to: compress_folder(model, to, recipe, False, say))}
    general, task = flow.general, flow.task_stage
    if general is not None:
        start = str(made["compressed"])
        made["general"] = steps.folder("general", lambda to: distill_folder(start, to, model, general, progress=say))
    if task is None:
        return Models(made, model)
    teacher, taught = teacher_of(flow, steps), str([*made.values()][-1])
    made["task"] = steps.folder("task", lambda to: distill_folder(taught, to, teacher, task, progress=say))
    return Models(made, teacher)


def _told(flow: Flow, models: Models, steps: Steps, name: str) -> Path:
    """A copy of the result under its own name, with what is known of it beside it."""

    def copy(to: Path) -> None:
        with complete_folder(to) as partial:
            shutil.copytree(models.result, partial, dirs_exist_ok=True)
            (partial / "recipe.yaml").write_text(dump_flow(flow), encoding="utf-8")

    final = steps.folder("result", copy, inside=name)
    original, say = models.original, steps.say
    if flow.data is not None:
        steps.once("scores", final / SCORES, lambda: evaluate_folder(str(final), None, teacher=original, progress=say))
    if (agree := flow.agree) is not None and (model := flow.model) is not None:
        made = {ALIKE[name]: folder for name, folder in models.made.items() if name in ALIKE}
        steps.once("agreement", final / AGREEMENT, lambda: write_agreement(final, model, made, agree))
    if (measure := flow.measure) is not None:
        asked = measure.settings
        steps.once(
            "speed",
            final / MEASUREMENT,
            lambda: write_measurement(final, measure_folders(str(final), original, asked, progress=say)),
        )
    if flow.report:
        steps.once("report", final / REPORT, lambda: (write_card(final), write_report(final)))
    return final
