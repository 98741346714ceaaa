"""explore: what of a dense model could be compressed, looked at before deciding."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tenfold.algebra.moments import Moments, ridged
from tenfold.analysis import explore_figures
from tenfold.analysis.blocks import Outputs, Plain, labels
from tenfold.analysis.predicting import Prediction, Spectra, candidates, key_of, predict, spectra, suggest
from tenfold.analysis.record import analysis_folder, explored, write
from tenfold.analysis.views import Pairs, Structure, Variance, pairs, structure, variance
from tenfold.calibration import Batch, Calibration, Inputs, calibrate, text_batches
from tenfold.checkpoints import find, load, refuse_compressed
from tenfold.compression import Originals, Tiles
from tenfold.methods import parse
from tenfold.pipeline import tokenizer_of
from tenfold.planning import Candidate, Group, Plan
from tenfold.planning.build import build_plan
from tenfold.planning.sites import find_sites
from tenfold.recipe import Compress

SIZES = ("1/2", "1/4", "1/10", "1/20", "1/48")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """`compress` says which matrices, how they are cut and grouped, which text and seed; its method and size are not read.

    `fit`: errors of shared forms are those of their whole fit, `compress.rounds` included, instead of its first round.
    """

    compress: Compress
    sizes: tuple[str, ...] = SIZES
    pairs: int = 100
    fit: bool = False


@dataclass(frozen=True)
class Look:
    """One group's tiles as they are, and as what they give on real text."""

    group: Group
    weights: Variance
    outputs: Variance | None
    weight_pairs: dict[str, Pairs]
    output_pairs: dict[str, Pairs]
    structure: Structure


@dataclass(frozen=True)
class Exploration:
    looks: tuple[Look, ...]
    predictions: tuple[Prediction, ...]
    suggestion: dict[str, Any] | None
    notes: tuple[str, ...]


def explore_folder(model: str, out: Path, settings: Settings, force: bool, progress: Say) -> dict[str, Any]:
    """MODEL -> OUT: analysis.json and the figures. Returns the record."""
    start = time.perf_counter()
    with analysis_folder(out, force) as partial:
        source = find(model, weights=True)
        refuse_compressed(source)
        progress("loading the model")
        network = load(source)
        text = settings.compress.text
        batches = None
        if text is not None:
            progress("reading text")
            batches = text_batches(tokenizer_of(source), text, settings.compress.tokens, settings.compress.length)
        found = explore(network, settings, batches, progress)
        progress("drawing")
        figures = explore_figures.draw(found, partial)
        return write(partial, explored(model, network, settings, found, figures, time.perf_counter() - start))


@torch.no_grad()
def explore(model: Any, settings: Settings, batches: Sequence[Batch] | None, say: Say = lambda _: None) -> Exploration:
    base = model.base_model
    sites = find_sites(base, model.config.model_type, settings.compress.family)
    plan = build_plan(model, sites, parse("II-1"), settings.compress)
    weights: dict[str, Any] = {site.path: base.get_submodule(site.path).weight.detach() for site in plan.factored}
    originals = Originals(weights, {})
    offered, notes = candidates(model, settings.compress, settings.sizes)
    moments = _moments(model, plan, offered, batches, say)
    looks, spectra_of = [], []
    for group in plan.groups:
        say(f"looking at {group.name}, {group.n} tiles of {group.i} x {group.o}")
        of = moments(group)
        spectra_of.append(spectra(group, originals, of))
        looks.append(look(group, originals, spectra_of[-1], of, settings))
    rounds = settings.compress.rounds if settings.fit else None
    predictions = predict(offered, originals, moments, spectra_of, rounds, say)
    return Exploration(tuple(looks), tuple(predictions), suggest(predictions), tuple(notes))


def look(group: Group, originals: Originals, found: Spectra, of: Moments | None, settings: Settings) -> Look:
    stack, names = Plain(Tiles(group, originals)), labels(group)
    count, seed = settings.pairs, settings.compress.seed
    outputs, output_pairs = None, {}
    if of is not None and found.outputs is not None:
        weighted = Outputs(stack, of)
        outputs = variance(weighted, names, found.outputs)
        output_pairs = pairs(weighted, names, count, seed)
    return Look(
        group,
        variance(stack, names, found.weights),
        outputs,
        pairs(stack, names, count, seed),
        output_pairs,
        structure(stack, names),
    )


def _moments(
    model: Any, plan: Plan, offered: dict[str, list[Candidate]], batches: Sequence[Batch] | None, say: Say
) -> Callable[[Group], Moments | None]:
    """Those of a group's tiles, ridged as the fits ridge them. One pass sees every site at its tallest cut."""
    if batches is None:
        return lambda _: None
    groups = {key_of(g): g for g in (*plan.groups, *(g for row in offered.values() for c in row for g in c.plan.matrix_groups))}
    tallest: dict[str, Group] = {}
    for group in sorted(groups.values(), key=lambda g: g.i):
        tallest |= {site.path: group for site in group.sites}
    seen = tuple(replace(g, sites=tuple(s for s in g.sites if tallest[s.path] is g)) for g in groups.values())
    say("seeing activations")
    calibration = calibrate(model, Plan("", tuple(group for group in seen if group.sites)), batches)

    def find_moments(group: Group) -> Moments:
        parts = {
            path: cut(found, group.i) for path, found in calibration.inputs.items() if found.square.shape[-1] % group.i == 0
        }
        found = Calibration(parts, calibration.same).moments(group)
        return Moments([ridged(s) for s in found.matrices], found.of)

    return find_moments


def cut(inputs: Inputs, i: int) -> Inputs:
    """Of shorter tiles: the blocks (i, i) on the diagonals of the blocks that were seen."""
    count, tall, _ = inputs.square.shape
    blocks = inputs.square.unflatten(2, (tall // i, i)).unflatten(1, (tall // i, i))
    return replace(inputs, square=blocks.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).reshape(count * tall // i, i, i))
