"""What is found out about two models on a few rows before training."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tenfold.distillation.legs import Leg, Scales, wanted
from tenfold.distillation.local import BlockLocal
from tenfold.distillation.losses import HIDDEN
from tenfold.distillation.matching import Projections, measure_scales, projections
from tenfold.distillation.trace import Trace, Tracer, Wanted

Rows = Mapping[str, Tensor]


@dataclass(frozen=True)
class Facts:
    """By a leg's start: `idle`, the trained parameters that its losses do not reach, and `flops`, the FLOPs of both models'
    matrix products for one token, backward included.

    last: whether the last hidden states can be compared: widths agree, or a loss learns the projection.
    """

    scales: Scales
    projections: Projections
    idle: Mapping[int, tuple[Tensor, ...]]
    flops: Mapping[int, float]
    last: bool


def probe(student: Any, teacher: Any, legs: Sequence[Leg], batches: Iterable[Rows]) -> Facts:
    """The teacher's variances over all batches; the rest on the first. Freezes what no leg reaches: it needs no optimiser."""
    batches = list(batches)
    asked = [_together(legs, side) for side in (0, 1)]
    with Tracer(teacher, asked[1]) as theirs, torch.no_grad():
        scales = measure_scales(theirs(rows) for rows in batches)
        target = theirs(batches[0])
    with Tracer(student, asked[0]) as ours, torch.no_grad():
        seen = ours(batches[0])
    mapped = projections(seen, target, [term.name for leg in legs if not leg.local for term in leg.terms])
    trained = [p for model in (student, mapped) for p in model.parameters() if p.requires_grad]
    reached, flops = {}, {}
    for leg in legs:
        with FlopCounterMode(display=False) as counter:
            loss = _first_loss(student, teacher, leg, mapped, scales, batches[0])
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
        reached[leg.start] = {id(p) for p, gradient in zip(trained, gradients, strict=True) if gradient is not None}
        flops[leg.start] = counter.get_total_flops() / float(batches[0]["attention_mask"].sum())
    kept = [p for p in trained if any(id(p) in found for found in reached.values())]
    for parameter in trained:
        parameter.requires_grad_(any(parameter is other for other in kept))
    idle = {start: tuple(p for p in kept if id(p) not in found) for start, found in reached.items()}
    return Facts(scales, mapped, idle, flops, _comparable(seen, target, mapped))


def _together(legs: Sequence[Leg], side: int) -> Wanted:
    """What any leg asks of a model, and the teacher's states that local legs are scaled by."""
    layers: dict[str, frozenset[int]] = {}
    for one in (wanted(leg, side) for leg in legs):
        layers |= {what: layers.get(what, frozenset()) | found for what, found in one.layers.items()}
    blocks = {pair[side] for leg in legs if leg.local for pair in leg.terms[0].pairs}
    return Wanted({**layers, HIDDEN: layers[HIDDEN] | blocks}, any(wanted(leg, side).logits for leg in legs))


def _first_loss(student: Any, teacher: Any, leg: Leg, mapped: Projections, scales: Scales, rows: Rows) -> Tensor:
    if leg.local:
        pairs = dict(leg.terms[0].pairs)
        with BlockLocal(student, teacher, pairs, pairs) as local:
            parts = [*local(rows).values()]
    else:
        with Tracer(student, wanted(leg, 0)) as ours, Tracer(teacher, wanted(leg, 1)) as theirs:
            with torch.no_grad():
                target = theirs(rows)
            seen = ours(rows)
        parts = [part for term in leg.terms for part in term.parts(seen, target, mapped, scales)]
    return torch.stack([part.total for part in parts]).sum()


def _comparable(seen: Trace, target: Trace, mapped: Projections) -> bool:
    if seen.read(HIDDEN).shape == target.read(HIDDEN).shape:
        return True
    learnt = [p for name, linear in mapped.linears.items() if name == f"to_{HIDDEN}" for p in linear.parameters()]
    return bool(learnt) and all(p.requires_grad for p in learnt)
