"""Rivals that a table trains by itself, by name: each says what it starts from and how it learns a task.

    dense               the original, fine-tuned
    low_rank            the original with every matrix as A B (II), as many parameters as the student, taught in the same stages
    every-K-kd          every K-th layer of the original; soft and hard labels (1503.02531)
    every-K-pkd         the same with the hidden states of the first token, all layers but the last (PKD, 1908.09355)
    every-K-tinybert    the same with TinyBERT's losses: embeddings, hidden states and scores, then soft labels (1909.10351)
    every-K-theseus     the same through module replacing (2002.02925); no loss on the teacher's outputs
    every-K-tinybert-METHOD  the paper's TinyBERT-IV: a TinyBERT after its general stage, compressed, in the student's stages

`theseus`, `tinybert` and `tinybert-METHOD` alone are those of every second layer.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tenfold.distillation.running import distill_folder
from tenfold.distillation.stage import ANSWERS, LossTerm, Phase, Stage
from tenfold.errors import RecipeError, nearest
from tenfold.experiments.bench import Bench, depth, safe
from tenfold.experiments.rival import general_stages, low_rank_settings, rival_settings
from tenfold.experiments.trimming import trim_folder
from tenfold.finetuning.settings import Theseus
from tenfold.methods import parse
from tenfold.pipeline import compress_folder
from tenfold.recipe import Recipe
from tenfold.tasks import Kind

DENSE_LR = 5e-5
TEMPERATURE = 5.0
SHORT = {"theseus": "every-2-theseus", "tinybert": "every-2-tinybert"}
_TRIMMED = re.compile(r"(every-[1-9]\d*)-(kd|pkd|tinybert|theseus)")
_COMPRESSED = re.compile(r"(?:(every-[1-9]\d*)-)?tinybert-(I.*|ALBERT.*)")


@dataclass(frozen=True)
class Baseline:
    """title: for a table. start: makes or finds its model before it learns a task; learn: the folder of a task and seed."""

    name: str
    title: str
    start: Callable[[Bench], Path]
    learn: Callable[[Bench, Path, str, int], Path]

    @property
    def place(self) -> str:
        return f"baselines/{self.name}"


def baseline(name: str, student: str) -> Baseline:
    """By its name. `student`: what it is a rival of."""
    if name == "dense":
        return Baseline(name, "the original, fine-tuned", lambda bench: Path(bench.model), _tune_dense)
    if name == "low_rank":
        title = "II: every matrix as A B, as many parameters, the same stages"
        return Baseline(name, title, lambda bench: _start_low_rank(bench, student), _distil(name, _unchanged))
    if found := _TRIMMED.fullmatch(SHORT.get(name, name)):
        layers, how = found.groups()
        learn = _replace_modules(name) if how == "theseus" else _distil(name, partial(rival_stage, how))
        start = _start_tinybert if how == "tinybert" else _trimmed
        return Baseline(name, f"layers {layers}, {TITLES[how]}", lambda bench: start(bench, layers, student), learn)
    if found := _COMPRESSED.fullmatch(name):
        layers, method = found[1] or "every-2", parse(found[2]).name
        title = f"layers {layers}, TinyBERT's general stage, then {method}"
        return Baseline(name, title, lambda bench: _start_compressed(bench, layers, method, student), _distil(name, _unchanged))
    known = ("dense", "low_rank", *SHORT, *(f"every-2-{how}" for how in TITLES), "tinybert-IV-72-384")
    raise RecipeError(f'a baseline must be one that exists, got "{name}": {nearest(name, known)} (known: {", ".join(known)})')


TITLES = {"kd": "soft and hard labels", "pkd": "PKD", "tinybert": "TinyBERT's losses", "theseus": "module replacing"}


def _tune_dense(bench: Bench, start: Path, task: str, k: int) -> Path:
    """Its first seed is the teacher; the others are the teacher's cell of the grid again."""
    teacher, place = bench.teacher(task), "baselines/dense"
    if k == 0:
        return bench.copied(teacher, place, task, k)
    return bench.tuned(str(start), place, task, k, bench.finetune)


def _start_low_rank(bench: Bench, student: str) -> Path:
    settings = low_rank_settings(bench.model, student)
    recipe, say = Recipe(model=bench.model, compress=settings), bench.steps.say
    folder = bench.steps.folder(f"starts/{settings.method}", lambda to: compress_folder(bench.model, to, recipe, False, say))
    for number, (teacher, stage) in enumerate(general_stages(student), 1):
        folder = _general(bench, folder, f"starts/{settings.method}-general-{number}", teacher, stage)
    return folder


def _trimmed(bench: Bench, layers: str, student: str) -> Path:  # noqa: ARG001 - what starts have in common
    return bench.steps.folder(f"starts/{layers}", lambda to: trim_folder(bench.model, to, layers, False, bench.steps.say))


def _start_tinybert(bench: Bench, layers: str, student: str) -> Path:
    """TinyBERT is taught on text first; here on the text that the student saw, if it saw any."""
    folder = _trimmed(bench, layers, student)
    losses = tuple(LossTerm(name=name) for name in ("embedding", "hidden", "scores"))
    for number, (teacher, stage) in enumerate(general_stages(student), 1):
        changed = {"preset": "paper", "phases": (Phase(losses=losses),), "lr": 1e-4, "lr_rest": 1e-4, "map": "uniform"}
        own = stage.model_copy(update={**changed, "freeze_embeddings": False})
        folder = _general(bench, folder, f"starts/{layers}-tinybert-general-{number}", teacher, own)
    return folder


def _start_compressed(bench: Bench, layers: str, method: str, student: str) -> Path:
    """The text that the student saw teaches it twice: before it is compressed, and after."""
    dense, settings = _start_tinybert(bench, layers, student), rival_settings(student, method)
    name, say = f"starts/{layers}-tinybert-{safe(method)}", bench.steps.say
    recipe = Recipe(model=str(dense), compress=settings)
    folder = bench.steps.folder(name, lambda to: compress_folder(str(dense), to, recipe, False, say))
    for number, (teacher, stage) in enumerate(general_stages(student), 1):
        even = stage.model_copy(update={"map": "uniform"})
        folder = _general(bench, folder, f"{name}-general-{number}", teacher, even)
    return folder


def _general(bench: Bench, start: Path, name: str, teacher: str, stage: Stage) -> Path:
    return bench.steps.folder(name, lambda to: distill_folder(str(start), to, teacher, stage, progress=bench.steps.say))


Losses = Callable[[tuple[Kind, int, int], Stage], Stage]
"""((kind of the task, layers of the student, of the teacher), the student's own stage) -> the stage of a rival."""


def _unchanged(about: tuple[Kind, int, int], stage: Stage) -> Stage:  # noqa: ARG001 - one signature for all
    return stage


def _distil(name: str, losses: Losses) -> Callable[[Bench, Path, str, int], Path]:
    """With the student's rows, copies, epochs and batch."""

    def learn(bench: Bench, start: Path, task: str, k: int) -> Path:
        about = bench.kind(task), depth(str(start)), depth(str(bench.teacher(task)))
        return bench.distilled(str(start), f"baselines/{name}", task, k, losses(about, bench.stage))

    return learn


def rival_stage(how: str, about: tuple[Kind, int, int], stage: Stage) -> Stage:
    """The student's stage with the losses kd, pkd or tinybert. Dense weights learn at a rate of their own, embeddings too."""
    return _LOSSES[how](about, stage).model_copy(update={"lr": DENSE_LR, "lr_rest": DENSE_LR, "freeze_embeddings": False})


def _replace_modules(name: str) -> Callable[[Bench, Path, str, int], Path]:
    def learn(bench: Bench, start: Path, task: str, k: int) -> Path:
        theseus = Theseus(teacher=str(bench.teacher(task)))
        settings = bench.finetune.model_copy(update={"theseus": theseus})
        return bench.tuned(str(start), f"baselines/{name}", task, k, settings)

    return learn


def _labels(kind: Kind) -> tuple[LossTerm, ...]:
    """Half of each; the teacher's softened where there are classes. Sentence vectors have no labels of their own."""
    if kind == "embedding":
        return (LossTerm(name=ANSWERS),)
    soft = LossTerm(name="soft_labels", temperature=TEMPERATURE, weight=0.5) if kind == "classification" else None
    return soft or LossTerm(name=ANSWERS, weight=0.5), LossTerm(name="hard_labels", weight=0.5)


def _kd(about: tuple[Kind, int, int], stage: Stage) -> Stage:
    return _with(stage, losses=_labels(about[0]))


def _pkd(about: tuple[Kind, int, int], stage: Stage) -> Stage:
    """PKD-Skip: layer k of the student with k K of the teacher, but for the last."""
    kind, ours, theirs = about
    patient = (LossTerm(name="patient", weight=0.5, layers=tuple(range(1, ours))),) if ours > 1 else ()
    even = f"every-{theirs // ours}" if theirs % ours == 0 else "uniform"
    return _with(stage, losses=(*_labels(kind), *patient), map=even)


def _tinybert(about: tuple[Kind, int, int], stage: Stage) -> Stage:  # noqa: ARG001 - one signature for all
    """Three quarters of the steps on what is inside, at a constant rate; then on the answers."""
    inside = tuple(LossTerm(name=name) for name in ("embedding", "hidden", "scores"))
    phases = (Phase(share=3, losses=inside, decay="constant"), Phase(share=1, losses=(LossTerm(name=ANSWERS),), lr=0.4))
    return _with(stage, phases=phases, map="uniform")


_LOSSES: Mapping[str, Losses] = {"kd": _kd, "pkd": _pkd, "tinybert": _tinybert}


def _with(stage: Stage, **changes: Any) -> Stage:
    """The rows and the schedule of a stage with other losses."""
    return stage.model_copy(update={"losses": None, "phases": None, "map": None, **changes})
