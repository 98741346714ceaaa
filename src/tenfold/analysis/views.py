"""A look at a group's tiles: how few dimensions hold them, alone, in pairs and as one stack, and how alike they are.

There are two looks: at the weights, and at S^(1/2) W, whose energies are those of the outputs on real text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import pi, sqrt
from random import Random
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from tenfold.analysis.blocks import Label, Outputs, Sides, Stack, by_role, cosines, inner
from tenfold.analysis.modes import modes, spectrum
from tenfold.analysis.spectra import (
    captured,
    dimensions_for,
    energies,
    entropy_rank,
    grid,
    numerical_rank,
    stable_rank,
    variances,
)

COLUMNS, ROWS = "along columns", "along rows"
"""[W_a W_b] (i, 2 o) share the space that they read; W_a on top of W_b (2 i, o) share the space that they write."""
RELATIONS = ("same matrix", "same block of another layer", "same layer", "other")


@dataclass(frozen=True)
class Curves:
    """Share captured against kept dimensions: one row of `captured` for each of `names`.

    random: what a matrix of independent random numbers has, where that is something to compare with.
    """

    kept: list[int]
    names: list[str]
    captured: list[list[float]]
    random: list[float] | None = None

    @property
    def half(self) -> list[float]:
        """With half of the dimensions."""
        return [row[self.kept.index(self.kept[-1] // 2)] for row in self.captured]

    def mean(self, rows: Sequence[int] | None = None) -> list[float]:
        chosen = range(len(self.captured)) if rows is None else rows
        return [fmean(self.captured[r][k] for r in chosen) for k in range(len(self.kept))]

    def summary(self) -> dict[str, Any]:
        chance = None if self.random is None else self.random[self.kept.index(self.kept[-1] // 2)]
        return {"kept": self.kept, "mean": self.mean(), **spread(self.half), "half_random": chance}


def by_chance(i: int, o: int, kept: Sequence[int]) -> list[float]:
    """The curve of a matrix (i, o) of independent normal numbers: half of its dimensions hold 89% where it is square."""
    noise = torch.randn(i, o, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return captured(variances(noise), kept)


def spread(half: Sequence[float]) -> dict[str, float]:
    return {"half": fmean(half), "half_least": min(half), "half_most": max(half)}


@dataclass(frozen=True)
class Variance:
    """Of every tile: its curve, and its ranks."""

    labels: list[Label]
    curves: Curves
    tiles: list[dict[str, Any]]

    def summary(self) -> dict[str, Any]:
        half = self.curves.half
        roles = dict.fromkeys(label.role for label in self.labels)
        layers = sorted({label.layer for label in self.labels})
        of_role = {role: [g for g, x in enumerate(self.labels) if x.role == role] for role in roles}
        of_layer = {layer: [g for g, x in enumerate(self.labels) if x.layer == layer] for layer in layers}
        return {
            **self.curves.summary(),
            "roles": {k: {**spread([half[g] for g in rows]), "curve": self.curves.mean(rows)} for k, rows in of_role.items()},
            "layers": {str(k): spread([half[g] for g in rows]) for k, rows in of_layer.items()},
            "tiles": self.tiles,
        }


def variance(stack: Stack, names: list[Label], spectra: Sequence[Tensor]) -> Variance:
    """`spectra` are the tiles' energies. Curves of weights are those of principal components: without the mean row."""
    weighted = isinstance(stack, Outputs)
    kept = grid(min(stack.shape))
    values = list(spectra) if weighted else [variances(stack[g]) for g in range(stack.n)]
    random = None if weighted else by_chance(*stack.shape, kept)
    curves = Curves(kept, [label.name for label in names], [captured(v, kept) for v in values], random)
    tiles = []
    for label, value, energy, half in zip(names, values, spectra, curves.half, strict=True):
        ranks = {"stable_rank": stable_rank(energy), "entropy_rank": entropy_rank(energy)}
        if not weighted:
            ranks["numerical_rank"] = numerical_rank(energy, stack.shape, stack[0].dtype)
        tiles.append(
            {**facts(label), "half": half, "ninety": dimensions_for(value, 0.9), **ranks, "energy": float(energy.sum())}
        )
    return Variance(names, curves, tiles)


def facts(label: Label) -> dict[str, Any]:
    return {"name": label.name, "path": label.path, "role": label.role, "layer": label.layer, "part": label.part}


def relation(a: Label, b: Label) -> str:
    if a.path == b.path:
        return RELATIONS[0]
    if a.block == b.block:
        return RELATIONS[1]
    return RELATIONS[2] if a.layer == b.layer else RELATIONS[3]


@dataclass(frozen=True)
class Pairs:
    """Curves of a sample of pairs, joined one way."""

    pairs: list[tuple[int, int]]
    relations: list[str]
    curves: Curves

    def summary(self) -> dict[str, Any]:
        half = self.curves.half
        kinds = {kind: [h for h, r in zip(half, self.relations, strict=True) if r == kind] for kind in RELATIONS}
        found = {kind: {"pairs": len(of), "half": fmean(of)} for kind, of in kinds.items() if of}
        return {"pairs": len(self.pairs), **self.curves.summary(), "relations": found}


def pairs(stack: Stack, names: list[Label], count: int, seed: int) -> dict[str, Pairs]:
    """At most `count` pairs, drawn evenly from all. Those of weights are centred like single tiles."""
    every = list(combinations(range(stack.n), 2))
    chosen = sorted(Random(seed).sample(every, min(count, len(every))))
    if not chosen:
        return {}
    measured = energies if isinstance(stack, Outputs) else variances
    joined: dict[str, list[Tensor]] = {COLUMNS: [], ROWS: []}
    for a, b in chosen:
        both = (stack[a], stack[b])
        joined[COLUMNS].append(measured(torch.cat(both, dim=1)))
        joined[ROWS].append(measured(torch.cat(both)))
    relations = [relation(names[a], names[b]) for a, b in chosen]
    titles = [f"{names[a].name} + {names[b].name}" for a, b in chosen]
    result, (i, o) = {}, stack.shape
    for way, values in joined.items():
        kept = grid(len(values[0]))
        shape = (i, 2 * o) if way == COLUMNS else (2 * i, o)
        random = None if isinstance(stack, Outputs) else by_chance(*shape, kept)
        result[way] = Pairs(chosen, relations, Curves(kept, titles, [captured(v, kept) for v in values], random))
    return result


@dataclass(frozen=True)
class Structure:
    """Of the stack as one tensor: its spectra along the three modes, and how alike its slices are.

    slices: cosines of the tiles; inputs, outputs: of what they read and write (`blocks.Sides`). All (n, n).
    """

    labels: list[Label]
    shape: tuple[int, int]
    spectra: dict[str, Curves]
    cosines: dict[str, Tensor]

    def summary(self) -> dict[str, Any]:
        return {
            "modes": {name: {"size": c.kept[-1], **c.summary()} for name, c in self.spectra.items()},
            "orthogonality": self.orthogonality(),
            "similarity": {name: self.by_relation(matrix) for name, matrix in self.cosines.items()},
        }

    def orthogonality(self) -> dict[str, Any]:
        """Of the slices. Entries drawn at random would have cosines of standard deviation 1 / sqrt(i o)."""
        matrix, i_o = self.cosines["slices"], self.shape[0] * self.shape[1]
        upper = matrix[tuple(torch.triu_indices(len(matrix), len(matrix), offset=1))].abs()
        order = upper.argsort(descending=True)[:5].tolist()
        index = list(combinations(range(len(matrix)), 2))
        return {
            "mean": float(upper.mean()) if len(upper) else None,
            "largest": float(upper.max()) if len(upper) else None,
            "random": sqrt(2 / pi / i_o),
            "nearest": [
                {"a": self.labels[index[k][0]].name, "b": self.labels[index[k][1]].name, "cosine": float(matrix[index[k]])}
                for k in order
            ],
        }

    def by_relation(self, matrix: Tensor) -> dict[str, float]:
        """Mean cosine of the pairs of each kind."""
        found: dict[str, list[float]] = {}
        for a, b in combinations(range(len(matrix)), 2):
            found.setdefault(relation(self.labels[a], self.labels[b]), []).append(float(matrix[a, b]))
        return {kind: fmean(found[kind]) for kind in RELATIONS if kind in found}


def structure(stack: Stack, names: list[Label]) -> Structure:
    slices, sides = inner(stack), modes(stack)
    curves = {}
    for name, gram in (("slices", slices), ("input side", sides.left), ("output side", sides.right)):
        values = spectrum(gram)
        kept = grid(len(values))
        curves[name] = Curves(kept, [name], [captured(values, kept)])
    order = by_role(names)
    alike = {
        "slices": cosines(slices),
        "inputs": cosines(inner(Sides(stack, output=False))),
        "outputs": cosines(inner(Sides(stack, output=True))),
    }
    return Structure([names[g] for g in order], stack.shape, curves, {k: m[order][:, order] for k, m in alike.items()})
