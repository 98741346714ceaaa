"""Folded constants against matrices made from the definition, over random forms, grids and readers."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from tenfold.forms import Form, Grid, LayerShared, LowRank, Mixed, TensorTrain, Tucker
from tenfold.runtime.fold import Folded, add_terms, dense, fold

I, O = 6, 10  # noqa: E741 - the sides of a tile

KINDS = ["II", "II-alpha", "III", "IV", "ALBERT", "III+II", "IV+II-alpha", "ALBERT+II"]


def form_of(kind: str, n: int, d: int) -> Form:
    return {
        "II": LowRank(d),
        "II-alpha": LowRank(d, diagonal=True),
        "III": TensorTrain(d, d + 1),
        "IV": Tucker(max(1, n // 2), d + 1, d),
        "ALBERT": LayerShared(n, n),
        "III+II": Mixed(TensorTrain(d, d), LowRank(2)),
        "IV+II-alpha": Mixed(Tucker(1, d, d + 2), LowRank(1, diagonal=True)),
        "ALBERT+II": Mixed(LayerShared(n, n), LowRank(3)),
    }[kind]


def draw(kind: str, seed: int) -> tuple[Form, dict[str, Tensor], list[Grid]]:
    """A form of random rank, its factors, and one to four sites of random rows x columns that read the same x."""
    rng = random.Random(seed)
    rows, columns = rng.randint(1, 4), [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
    tiles = list(range(rows * sum(columns)))
    rng.shuffle(tiles)
    left = iter(tiles)
    grids: list[Grid] = [[[next(left) for _ in range(wide)] for _ in range(rows)] for wide in columns]
    form = form_of(kind, len(tiles), rng.randint(1, 5))
    generator = torch.Generator().manual_seed(seed)
    shapes = form.shapes(len(tiles), I, O)
    return form, {k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()}, grids


def outputs(folded: Folded, x: Tensor, biases: list[Tensor | None]) -> list[Tensor]:
    lefts = [step(x) for step in folded.lefts]
    return [add_terms(terms, x, lefts, bias) for terms, bias in zip(folded.sites, biases, strict=True)]


@pytest.mark.parametrize("make", [fold, dense])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_constants_multiply_as_the_matrices_do(kind: str, seed: int, make: Any) -> None:
    form, factors, grids = draw(kind, seed)
    folded = make(form.products(factors), grids)
    for shape in ((), (7,), (2, 5), (2, 0)):
        x = torch.randn(*shape, len(grids[0]) * I, dtype=torch.float64)
        biases = [torch.randn(len(g[0]) * O, dtype=torch.float64) if seed % 2 else None for g in grids]
        for y, grid, bias in zip(outputs(folded, x, biases), grids, biases, strict=True):
            matrix = torch.cat([torch.cat([form.matrix(factors, g) for g in row], dim=1) for row in grid])
            expected = x @ matrix + (0 if bias is None else bias)
            assert y.shape == expected.shape
            torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)


def test_berts_layer_takes_sixteen_d_times_width() -> None:
    width, rank = 768, 64
    factors = {name: torch.empty(shape, device="meta") for name, shape in TensorTrain(rank, rank).shapes(12, 768, 768).items()}
    products = TensorTrain(rank, rank).products(factors)
    heads, out = [[[0]], [[1]], [[2]]], [[[3]]]
    wide, tall = [[list(range(4, 8))]], [[[g] for g in range(8, 12)]]
    found = [fold(products, grids) for grids in (heads, out, wide, tall)]
    assert [one.macs // (width * rank) for one in found] == [4, 2, 5, 5]
    assert [(one.products, one.depth) for one in found] == [(4, 2), (2, 2), (2, 2), (2, 2)]
    assert dense(products, heads).macs == 3 * width**2


def test_weights_are_put_in_where_they_were_taken_from() -> None:
    form, factors, grids = draw("III+II", 3)
    folded = fold(form.products(factors), grids)
    again = folded.with_weights(2 * step.weight for step in folded.steps())
    assert all(torch.equal(b.weight, 2 * a.weight) for a, b in zip(folded.steps(), again.steps(), strict=True))
    assert again.with_weights(step.weight for step in folded.steps()) == folded
