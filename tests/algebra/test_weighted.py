"""algebra/weighted.py: shared factors under input moments, every alternating step on its own and the whole."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tenfold.algebra.moments import Moments, identity_moments
from tenfold.algebra.tucker import bank, tucker
from tenfold.algebra.weighted import (
    fit,
    fit_bank,
    free_cores,
    orthonormal,
    projected,
    residual,
    solve_bank,
    solve_core,
    solve_left,
    solve_mix,
    solve_right,
    start,
)

N, IN, OUT, P, Q, BANK = 9, 8, 7, 4, 3, 5
OF = (0, 0, 0, 1, 1, 2, 2, 2, 0)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def moment(seed: int) -> Tensor:
    x = noise(3 * IN, IN, seed=seed) @ (torch.eye(IN, dtype=torch.float64) + noise(IN, IN, seed=seed + 1) / IN**0.5)
    return x.T @ x / len(x)


MOMENTS = Moments([moment(seed) for seed in (100, 200, 300)], OF)
EQUAL = Moments([moment(100)], (0,) * N)
TILES = list(noise(N, IN, OUT))


def loss(moments: Moments, u: Tensor, core: Tensor, v: Tensor, tiles: list[Tensor] = TILES) -> Tensor:
    """sum_g |S_g^(1/2) (W_g - U M_g V)|^2, written out."""
    errors = torch.stack(tiles) - u @ core @ v
    weights = torch.stack([moments[g] for g in range(len(tiles))])
    return (errors * (weights @ errors)).sum()


def mixed(mix: Tensor, bank: Tensor) -> Tensor:
    return torch.einsum("gk,kab->gab", mix, bank)


def basis(rows: int, columns: int, seed: int) -> Tensor:
    return torch.linalg.qr(noise(rows, columns, seed=seed))[0]


def slope(objective: Callable[[Tensor], Tensor], at: Tensor) -> float:
    """The norm of the gradient there, relative to that at a nearby point: 0 at a minimum."""

    def gradient(x: Tensor) -> float:
        leaf = x.clone().requires_grad_()
        return float(torch.autograd.grad(objective(leaf), leaf)[0].norm())

    return gradient(at) / gradient(at + 0.1 * at.std() * noise(*at.shape, seed=77))


def assert_descends(step: Callable[[Tensor], Tensor], objective: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """A first step wins a lot, no step loses, and many of them end at the minimum."""
    losses = [objective(x)]
    for _ in range(30):
        x = step(x)
        losses.append(objective(x))
    assert losses[1] < 0.9 * losses[0]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(losses))
    assert slope(objective, x) < 1e-8


def lost(moments: Moments, u: Tensor, core: Tensor, v: Tensor, tiles: list[Tensor] = TILES) -> float:
    return residual(tiles, moments, list(u @ core @ v))


def test_what_tiles_have_in_common_is_projected_once() -> None:
    u = basis(IN, P, 1)
    grams, r = projected(TILES, MOMENTS, u)
    assert len(grams) == 3
    for g, tile in enumerate(TILES):
        torch.testing.assert_close(grams[OF[g]], u.T @ MOMENTS[g] @ u)
        torch.testing.assert_close(r[g], u.T @ MOMENTS[g] @ tile)


@pytest.mark.parametrize("q", [1, Q, OUT])
def test_free_cores_and_their_right_side_are_the_best_for_a_left_side(q: int) -> None:
    u = basis(IN, P, 1)
    v, core = free_cores(*projected(TILES, MOMENTS, u), OF, q)
    torch.testing.assert_close(v @ v.T, torch.eye(q, dtype=torch.float64))
    assert slope(lambda x: loss(MOMENTS, u, x, v), core) < 1e-10
    assert slope(lambda x: loss(MOMENTS, u, core, x), v) < 1e-10
    best = loss(MOMENTS, u, core, v)
    for seed in range(5 if q < OUT else 0):
        other = basis(OUT, q, seed).T
        theirs = torch.stack([solve_core(tile, MOMENTS[g], u, other) for g, tile in enumerate(TILES)])
        assert loss(MOMENTS, u, theirs, other) > best * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_core_is_least_squares_whatever_the_sides_are(seed: int) -> None:
    u, v = noise(IN, P, seed=seed), noise(Q, OUT, seed=seed + 9)
    core = torch.stack([solve_core(tile, MOMENTS[g], u, v) for g, tile in enumerate(TILES)])
    assert slope(lambda x: loss(MOMENTS, u, x, v), core) < 1e-10
    assert slope(lambda x: loss(EQUAL, u, x, v), core) > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_the_left_side_improves_and_is_exact_where_inputs_are_equal(seed: int) -> None:
    u, core, v = noise(IN, P, seed=seed), noise(N, P, Q, seed=seed + 1), noise(Q, OUT, seed=seed + 2)
    assert_descends(lambda x: solve_left(TILES, MOMENTS, x, core, v), lambda x: loss(MOMENTS, x, core, v), u)
    exact = solve_left(TILES, EQUAL, u, core, v)
    assert slope(lambda x: loss(EQUAL, x, core, v), exact) < 1e-9
    assert slope(lambda x: loss(MOMENTS, x, core, v), exact) > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_the_mix_is_least_squares(seed: int) -> None:
    u, c, v = basis(IN, P, seed), noise(BANK, P, Q, seed=seed + 1), basis(OUT, Q, seed + 2).T
    grams, r = projected(TILES, MOMENTS, u)
    mix = solve_mix(grams, [x @ v.T for x in r], OF, c)
    assert mix.shape == (N, BANK)
    assert slope(lambda x: loss(MOMENTS, u, mixed(x, c), v), mix) < 1e-9
    assert slope(lambda x: loss(EQUAL, u, mixed(x, c), v), mix) > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_the_bank_improves_and_is_exact_where_inputs_are_equal(seed: int) -> None:
    u, v = basis(IN, P, seed), basis(OUT, Q, seed + 2).T
    mix, c = noise(N, N - 1, seed=seed + 3), noise(N - 1, P, Q, seed=seed + 1)  # more matrices than steps

    def solved(moments: Moments, c: Tensor) -> Tensor:
        grams, r = projected(TILES, moments, u)
        return solve_bank(grams, torch.stack([x @ v.T for x in r]), moments.of, mix, c)

    assert_descends(lambda x: solved(MOMENTS, x), lambda x: loss(MOMENTS, u, mixed(mix, x), v), c)
    exact = solved(EQUAL, c)
    assert slope(lambda x: loss(EQUAL, u, mixed(mix, x), v), exact) < 1e-9
    assert slope(lambda x: loss(MOMENTS, u, mixed(mix, x), v), exact) > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_the_right_side_is_least_squares(seed: int) -> None:
    u, core = basis(IN, P, seed), noise(N, P, Q, seed=seed + 1)
    grams, r = projected(TILES, MOMENTS, u)
    v = solve_right(grams, r, OF, core)
    assert v.shape == (Q, OUT)
    assert slope(lambda x: loss(MOMENTS, u, core, x), v) < 1e-10
    assert slope(lambda x: loss(EQUAL, u, core, x), v) > 1e-3


def test_making_sides_orthonormal_keeps_the_product() -> None:
    u, core, v = noise(IN, P), noise(N, P, Q, seed=1), noise(Q, OUT, seed=2)
    u_, core_, v_ = orthonormal(u, core, v)
    torch.testing.assert_close(u_ @ core_ @ v_, u @ core @ v, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(u_.T @ u_, torch.eye(P, dtype=torch.float64))
    torch.testing.assert_close(v_ @ v_.T, torch.eye(Q, dtype=torch.float64))


@pytest.mark.parametrize("q", [Q, OUT])
def test_with_equal_inputs_and_one_side_only_the_start_is_the_optimum(q: int) -> None:
    """With V = I and one moment, U is the leading left vectors of S^(1/2) [W_1 ... W_n], written out."""
    u = start(TILES, EQUAL, P)
    v, core = free_cores(*projected(TILES, EQUAL, u), EQUAL.of, q)
    values, vectors = torch.linalg.eigh(EQUAL[0])
    half = vectors @ torch.diag(values.sqrt()) @ vectors.T
    singular = torch.linalg.svdvals(half @ torch.cat(TILES, dim=1))
    best = singular[P:].square().sum()
    if q == OUT:
        torch.testing.assert_close(loss(EQUAL, u, core, v), best, rtol=1e-10, atol=0)
    else:
        assert loss(EQUAL, u, core, v) > 1.01 * best


def after(rounds: int, size: int | None, moments: Moments = MOMENTS, tiles: list[Tensor] = TILES) -> float:
    if size is None:
        u, v, core = fit(tiles, moments, P, Q, rounds)
        return lost(moments, u, core, v, tiles)
    u, v, mix, c = fit_bank(tiles, moments, P, Q, size, rounds)
    return lost(moments, u, mixed(mix, c), v, tiles)


@pytest.mark.parametrize("size", [None, BANK])
@pytest.mark.parametrize("seed", range(3))
def test_no_round_loses_and_early_ones_win(size: int | None, seed: int) -> None:
    tiles = list(noise(N, IN, OUT, seed=1000 * seed))
    errors = [after(rounds, size, tiles=tiles) for rounds in range(0 if size is None else 1, 8)]
    assert all(later <= earlier * (1 + 1e-10) for earlier, later in pairwise(errors))
    assert errors[-1] < errors[0] * (1 - 1e-4)


def test_what_comes_out_is_the_best_for_the_sides_that_come_with_it() -> None:
    u, v, core = fit(TILES, MOMENTS, P, Q, 2)
    assert slope(lambda x: loss(MOMENTS, u, x, v), core) < 1e-9
    assert slope(lambda x: loss(MOMENTS, u, core, x), v) < 1e-9
    assert slope(lambda x: loss(MOMENTS, x, core, v), u) > 1e-3
    u, v, mix, c = fit_bank(TILES, MOMENTS, P, Q, BANK, 2)
    assert slope(lambda x: loss(MOMENTS, u, mixed(x, c), v), mix) < 1e-9
    assert slope(lambda x: loss(MOMENTS, u, mixed(mix, x), v), c) > 1e-3


@pytest.mark.parametrize("size", [None, BANK])
def test_under_the_identity_it_ends_where_hooi_ends(size: int | None) -> None:
    plain = identity_moments(N, IN, TILES[0])
    u, v, core = tucker(TILES, P, Q, size, 500)
    hooi = lost(plain, u, mixed(*bank(core, size)) if size else core, v)
    assert after(500, size, plain) == pytest.approx(hooi, rel=1e-5)
    assert after(500, size, MOMENTS) != pytest.approx(hooi, rel=1e-2)


@pytest.mark.parametrize("size", [None, BANK])
@pytest.mark.parametrize("rounds", [1, 3])
def test_planted_factors_are_found_under_moments(size: int | None, rounds: int) -> None:
    core = noise(N, P, Q) if size is None else mixed(noise(N, size), noise(size, P, Q, seed=1))
    tiles = list(noise(IN, P, seed=2) @ core @ noise(Q, OUT, seed=3))
    assert after(rounds, size, tiles=tiles) ** 0.5 < 1e-9
    assert after(rounds, BANK - 1, tiles=tiles) > 1e-3


@pytest.mark.parametrize("size", [None, BANK])
def test_it_loses_less_output_than_hooi_and_more_weight(size: int | None) -> None:
    plain = identity_moments(N, IN, TILES[0])
    u, v, core = tucker(TILES, P, Q, size, 20)
    core = mixed(*bank(core, size)) if size else core
    assert after(5, size) < 0.95 * lost(MOMENTS, u, core, v)

    if size is None:
        w_u, w_v, w_core = fit(TILES, MOMENTS, P, Q, 5)
    else:
        w_u, w_v, mix, c = fit_bank(TILES, MOMENTS, P, Q, size, 5)
        w_core = mixed(mix, c)
    assert lost(plain, w_u, w_core, w_v) > lost(plain, u, core, v)


@pytest.mark.parametrize("size", [None, BANK])
def test_a_moment_held_once_is_a_moment_for_each_tile(size: int | None) -> None:
    each = Moments([MOMENTS[g] for g in range(N)], tuple(range(N)))
    assert after(3, size, each) == pytest.approx(after(3, size), rel=1e-10)
    turned = Moments(MOMENTS.matrices, tuple((s + 1) % 3 for s in OF))
    assert after(3, size, turned) != pytest.approx(after(3, size), rel=1e-2)


def test_moments_scale_out() -> None:
    """Only the shape of a moment matters where all inputs grow together."""
    scaled = Moments([1e6 * s for s in MOMENTS.matrices], OF)
    assert after(2, None, scaled) == pytest.approx(after(2, None), rel=1e-9)
