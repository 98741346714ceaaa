"""A table of the error that each form would start with, over a grid of sizes, and what follows from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tenfold.algebra.moments import Moments
from tenfold.analysis.blocks import Plain
from tenfold.analysis.losing import lost
from tenfold.analysis.spectra import energies
from tenfold.compression import Originals, Tiles
from tenfold.errors import PlanError
from tenfold.forms import Form
from tenfold.planning import MATRICES, Candidate, Group, plan_model
from tenfold.recipe import Compress

ENOUGH = 0.1
"""Of the energy: a start that loses less is called close."""

Key = tuple[int, int, tuple[str, ...]]
Energy = tuple[float, float | None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Prediction:
    """One form at one size. Errors are shares of the squared norm, of the weights and, where there is text, of the outputs."""

    size: str
    candidate: Candidate
    weight_error: float
    output_error: float | None
    fit: bool

    @property
    def bounds(self) -> dict[str, bool]:
        """Which errors only bound what a fit loses: see `losing`."""
        method = self.candidate.plan.method
        shared = not method.startswith("II-")
        return {"weight_bound": not self.fit and "+" in method, "output_bound": not self.fit and shared}

    @property
    def error(self) -> float:
        return self.weight_error if self.output_error is None else self.output_error

    def to_dict(self) -> dict[str, Any]:
        plan = self.candidate.plan
        before, after = plan.flops()
        return {
            "size": self.size,
            "method": plan.method,
            "tile": self.candidate.tile,
            "kept": plan.ratio(MATRICES),
            "flops": after / before,
            "counts": {key: value for key, value in plan.summary().items() if key in ("parameters", "flops")},
            "weight_error": self.weight_error,
            "output_error": self.output_error,
            **self.bounds,
            "recommended": self.candidate.chosen,
        }


def candidates(model: Any, settings: Compress, sizes: Sequence[str]) -> tuple[dict[str, list[Candidate]], list[str]]:
    """What the planner offers at each size of the matrices, and a note for each size that cannot be had."""
    found, notes = {}, []
    for size in sizes:
        try:
            found[size] = plan_model(model, settings.model_copy(update={"to": size, "of": MATRICES}))
        except PlanError as error:
            if "cannot be met" not in str(error):
                raise
            notes.append(str(error))
    return found, notes


@dataclass(frozen=True)
class Spectra:
    """The energies of a group's tiles, of the weights and, where there is text, of the outputs."""

    group: Group
    weights: Sequence[Tensor]
    outputs: Sequence[Tensor] | None

    @property
    def totals(self) -> Energy:
        return _sum(self.weights), None if self.outputs is None else _sum(self.outputs)

    def by_site(self) -> dict[str, Energy]:
        found = {}
        for site, grid in self.group.grids():
            tiles = slice(grid[0][0], grid[-1][-1] + 1)
            found[site.path] = Spectra(self.group, self.weights[tiles], self.outputs and self.outputs[tiles]).totals
        return found


def spectra(group: Group, originals: Originals, moments: Moments | None) -> Spectra:
    tiles = Tiles(group, originals)
    outputs = None if moments is None else [energies(tiles[g], moments[g]) for g in range(group.n)]
    return Spectra(group, [energies(tiles[g]) for g in range(group.n)], outputs)


def predict(
    found: Mapping[str, Sequence[Candidate]],
    originals: Originals,
    moments: Callable[[Group], Moments | None],
    explored: Sequence[Spectra],
    rounds: int | None,
    say: Say,
) -> list[Prediction]:
    """`explored` are the groups that hold all sites, whatever a plan leaves dense; `rounds` as in `losing.lost`."""
    known = {key_of(each.group): each for each in explored}
    sites = {path: energy for each in explored for path, energy in each.by_site().items()}
    forms: dict[Key, list[Form]] = {}
    groups: dict[Key, Group] = {}
    for group in (group for row in found.values() for candidate in row for group in candidate.plan.matrix_groups):
        groups[key_of(group)] = group
        forms.setdefault(key_of(group), []).append(group.form)
    losses: dict[Key, dict[Form, Energy]] = {}
    totals: dict[Key, Energy] = {}
    for index, (key, group) in enumerate(groups.items()):
        say(f"predicting errors: group {index + 1} of {len(groups)}, {group.n} tiles of {group.i} x {group.o}")
        of = moments(group)
        own = known.get(key) or spectra(group, originals, of)
        stack = Plain(Tiles(group, originals))
        in_weights = lost(stack, own.weights, forms[key], None, rounds)
        in_outputs = None if of is None or own.outputs is None else lost(stack, own.outputs, forms[key], of, rounds)
        losses[key] = {form: (value, None if in_outputs is None else in_outputs[form]) for form, value in in_weights.items()}
        totals[key] = own.totals
    return [
        Prediction(size, candidate, *_errors(candidate, losses, totals, sites), rounds is not None)
        for size, row in found.items()
        for candidate in row
    ]


def key_of(group: Group) -> Key:
    return group.i, group.o, tuple(site.path for site in group.sites)


def _sum(values: Sequence[Tensor]) -> float:
    return float(torch.stack([value.sum() for value in values]).sum())


def _errors(
    candidate: Candidate,
    losses: Mapping[Key, Mapping[Form, Energy]],
    totals: Mapping[Key, Energy],
    sites: Mapping[str, Energy],
) -> Energy:
    """Lost / all, where all includes the sites that the plan leaves dense."""
    plan = candidate.plan
    dense = sites.keys() - {site.path for site in plan.factored}
    gone = [losses[key_of(group)][group.form] for group in plan.matrix_groups]
    whole = [totals[key_of(group)] for group in plan.matrix_groups] + [sites[path] for path in dense]
    weights = sum(w for w, _ in gone) / sum(w for w, _ in whole)
    if any(o is None for _, o in whole):
        return weights, None
    return weights, sum(o or 0.0 for _, o in gone) / sum(o or 0.0 for _, o in whole)


def suggest(predictions: Sequence[Prediction]) -> dict[str, Any] | None:
    """The smallest size at which the recommended form still starts close, else the one that it starts closest at."""
    chosen = [p for p in predictions if p.candidate.chosen]
    if not chosen:
        return None
    close = [p for p in chosen if p.error <= ENOUGH]
    best = min(close, key=_kept) if close else min(chosen, key=lambda p: p.error)
    what = "weights" if best.output_error is None else "outputs"
    start = f"{best.candidate.plan.method} starts with {best.error:.1%} of the {what}' energy lost"
    if close:
        smaller = [p for p in chosen if _kept(p) < _kept(best)]
        start += f", the smallest of these sizes that loses less than {ENOUGH:.0%}" if smaller else ""
    else:
        start += f": no size here loses less than {ENOUGH:.0%}, so teach whatever you take (tenfold distill)"
    options = ["--method", best.candidate.plan.method, "--tile", best.candidate.tile]
    return {"size": best.size, "method": best.candidate.plan.method, "tile": best.candidate.tile, "options": options,
            "error": best.error, "of": what, "why": f"{start}. {best.candidate.why}"}  # fmt: skip


def _kept(prediction: Prediction) -> float:
    return prediction.candidate.plan.ratio(MATRICES)
