"""The phases of a stage worked out for two models: which layers are compared in which steps, and at what rate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenfold.distillation.losses import LABELS, LOGITS, loss_named, takes
from tenfold.distillation.matching import Projections, compare
from tenfold.distillation.parts import Part
from tenfold.distillation.stage import ANSWERS, ANSWERS_BY_KIND, LossTerm, Stage
from tenfold.distillation.trace import Trace, Wanted
from tenfold.errors import RecipeError
from tenfold.tasks.task import Task

ROWS, TOKENS, PAIRS, LABELLED = range(4)
"""What a loss is counted in."""
BLOCKS = "blocks"
Scales = Mapping[tuple[str, int], float]


@dataclass(frozen=True)
class Term:
    """One loss between pairs of layers. items: what it counts; size: of how many pairs and kinds of tensors it is the mean."""

    name: str
    weight: float
    pairs: tuple[tuple[int, int], ...]
    items: int
    options: Mapping[str, Any]
    size: int

    def parts(self, student: Trace, teacher: Trace, projections: Projections, scales: Scales) -> Iterator[Part]:
        for layers in self.pairs:
            yield compare(self.name, student, teacher, layers, projections=projections, scales=scales, **self.options)


LAST = Term("hidden", 0.0, ((-1, -1),), TOKENS, {}, 1)


@dataclass(frozen=True)
class Leg:
    """A phase's steps [start, stop) of a run. A local one has one term, `blocks`, and compares block by block."""

    terms: tuple[Term, ...]
    local: bool
    start: int
    stop: int
    lr: float
    constant: bool
    warmup: float
    warmup_steps: int

    def rate(self, step: int) -> float:
        """The factor on the rates: up within the warm-up, then down to 0 (which would be the step after the last) or level."""
        length, done = self.stop - self.start, step - self.start
        rising = max(round(self.warmup * length), min(self.warmup_steps, length // 2))
        if done < rising:
            return self.lr * (done + 1) / (rising + 1)
        return self.lr if self.constant else self.lr * max(0.0, (length - done) / max(1, length - rising))


@dataclass(frozen=True)
class Models:
    """What the losses need to know of the two models. per_token: their heads answer for every token (language models)."""

    student: int
    teacher: int
    per_token: bool = False


def legs(stage: Stage, models: Models, steps: int, task: Task | None = None) -> list[Leg]:
    """The phases in order. Every one has at least one step."""
    assert stage.phases and stage.warmup is not None and stage.warmup_steps is not None
    if steps < len(stage.phases):
        raise RecipeError(f"each of {len(stage.phases)} phases needs a step, got {steps} in all: give more tokens or epochs")
    total = sum(phase.share for phase in stage.phases)
    found, start, shared = [], 0, 0.0
    for left, phase in zip(range(len(stage.phases), 0, -1), stage.phases, strict=True):
        shared += phase.share
        stop = min(max(start + 1, round(steps * shared / total)), steps - left + 1)
        terms = tuple(_term(loss, stage, models, task) for loss in phase.losses)
        chosen = _local(stage, models) if phase.local else terms
        rise = stage.warmup, stage.warmup_steps
        found.append(Leg(chosen, phase.local, start, stop, phase.lr, phase.decay == "constant", *rise))
        start = stop
    return found


def leg_at(chosen: Sequence[Leg], step: int) -> Leg:
    return next((leg for leg in chosen if step < leg.stop), chosen[-1])


def _local(stage: Stage, models: Models) -> tuple[Term, ...]:
    pairs = tuple(LossTerm(name="hidden").pairs(models.student, models.teacher, stage.map))
    return (Term(BLOCKS, 1.0, pairs, TOKENS, {}, len(pairs)),)


def _term(loss: LossTerm, stage: Stage, models: Models, task: Task | None) -> Term:
    if loss.name == ANSWERS:
        assert task is not None
        loss = loss.model_copy(update={"name": ANSWERS_BY_KIND[task.kind]})
    options = loss.options
    if takes(loss.name, "pooling"):
        options["pooling"] = stage.pooling or "mean"
    if takes(loss.name, "problem"):
        assert task is not None
        options["problem"] = task.problem
    pairs = tuple(loss.pairs(models.student, models.teacher, stage.map))
    items = _items(loss.name, models.per_token)
    return Term(loss.name, loss.weight, pairs, items, options, len(pairs) * len(loss_named(loss.name).reads))


def _items(name: str, per_token: bool) -> int:
    if name in ("scores", "probabilities_mse"):
        return PAIRS
    loss = loss_named(name)
    if LABELS in loss.reads:
        return LABELLED
    rows = name in ("patient", "sentence") or (LOGITS in loss.reads and not per_token)
    return ROWS if rows else TOKENS


def wanted(leg: Leg, side: int) -> Wanted:
    """What a model (side 0 the student, 1 the teacher) must keep for a leg's losses, and for `LAST`."""
    layers: dict[str, list[int]] = {"hidden": [-1]}
    for term in () if leg.local else leg.terms:
        layers.setdefault(term.name, []).extend(pair[side] for pair in term.pairs)
    return Wanted.of(layers)
