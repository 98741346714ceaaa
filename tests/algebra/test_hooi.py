"""algebra/tucker.py: HOSVD and HOOI of stacks, against unfoldings in numpy and against tensorly."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from tenfold.algebra.tucker import bank, cores, hosvd, improve, tucker

N, IN, OUT, P, Q, BANK = 9, 8, 7, 4, 3, 5


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def stack(seed: int = 0) -> Tensor:
    """Half planted, half noise: HOSVD is a fair start and HOOI has something left to do."""
    planted = noise(IN, P, seed=seed + 1) @ noise(N, P, Q, seed=seed + 2) @ noise(Q, OUT, seed=seed + 3)
    return planted / planted.norm() + noise(N, IN, OUT, seed=seed) / (N * IN * OUT) ** 0.5


def error(tiles: Tensor, u: Tensor, v: Tensor, core: Tensor) -> float:
    return float((tiles - u @ core @ v).norm())


def fitted(tiles: Tensor, rounds: int, size: int | None = None) -> float:
    u, v, core = tucker(list(tiles), P, Q, size, rounds)
    if size:
        mix, c = bank(core, size)
        core = torch.einsum("gk,kpq->gpq", mix, c)
    return error(tiles, u, v, core)


def test_hosvd_takes_the_leading_vectors_of_the_unfoldings() -> None:
    tiles = stack()
    u, v = hosvd(list(tiles), P, Q)
    for found, mode, rank in ((u, 1, P), (v.T, 2, Q)):
        unfolding = np.moveaxis(tiles.numpy(), mode, 0).reshape(tiles.shape[mode], -1)
        leading = torch.from_numpy(np.linalg.svd(unfolding, full_matrices=False)[0][:, :rank])
        torch.testing.assert_close(found @ found.T, leading @ leading.T, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.T @ found, torch.eye(rank, dtype=torch.float64), rtol=0, atol=1e-12)


def test_the_cores_are_least_squares() -> None:
    tiles = stack()
    u, v = hosvd(list(tiles), P, Q)
    core = cores(list(tiles), u, v).requires_grad_()
    (gradient,) = torch.autograd.grad((tiles - u @ core @ v).square().sum(), core)
    assert gradient.abs().max() < 1e-12


@pytest.mark.parametrize("size", [1, BANK, N])
def test_a_bank_is_the_truncated_svd_of_the_flat_cores(size: int) -> None:
    core = noise(N, P, Q)
    mix, c = bank(core, size)
    left, values, right = torch.linalg.svd(core.flatten(1), full_matrices=False)
    best = (left[:, :size] * values[:size] @ right[:size]).unflatten(1, (P, Q))
    torch.testing.assert_close(torch.einsum("gk,kpq->gpq", mix, c), best, rtol=1e-10, atol=1e-10)
    assert mix.shape == (N, size)
    assert c.shape == (size, P, Q)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_bank_it_ends_where_tensorlys_partial_tucker_ends(seed: int) -> None:
    tensorly, tiles = pytest.importorskip("tensorly"), stack(seed)
    (core, factors), _ = tensorly.decomposition.partial_tucker(
        tiles.numpy(), rank=[P, Q], modes=[1, 2], n_iter_max=500, tol=1e-15
    )
    reference = np.linalg.norm(tiles.numpy() - tensorly.tenalg.multi_mode_dot(core, factors, modes=[1, 2]))
    assert fitted(tiles, 200) == pytest.approx(reference, rel=1e-8)
    assert fitted(tiles, 0) > reference * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_bank_it_ends_where_tensorlys_tucker_ends(seed: int) -> None:
    tensorly, tiles = pytest.importorskip("tensorly"), stack(seed)
    reference = tensorly.decomposition.tucker(tiles.numpy(), rank=[BANK, P, Q], n_iter_max=1000, tol=1e-15)
    lost = np.linalg.norm(tiles.numpy() - tensorly.tucker_to_tensor(reference))
    assert fitted(tiles, 500, BANK) == pytest.approx(lost, rel=1e-6)
    assert fitted(tiles, 0, BANK) > lost * (1 + 1e-5)
    assert fitted(tiles, 500, BANK) > fitted(tiles, 500) * 1.01


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [None, BANK])
def test_no_round_of_hooi_loses(seed: int, size: int | None) -> None:
    errors = [fitted(stack(seed), rounds, size) for rounds in range(8)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(errors))
    assert errors[-1] < errors[0] * (1 - 1e-5)


def test_improving_an_optimum_changes_nothing() -> None:
    tiles = list(stack())
    u, v, _ = tucker(tiles, P, Q, None, 300)
    better_u, better_v = improve(tiles, u, v, None)
    torch.testing.assert_close(better_u @ better_u.T, u @ u.T, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(better_v.T @ better_v, v.T @ v, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("size", [None, BANK])
def test_planted_factors_are_found(rounds: int, size: int | None) -> None:
    """A stack that is U core_g V, or U (P C)_g V, comes back exactly; smaller ranks or banks lose some of it."""
    core = noise(N, P, Q)
    if size:
        core = torch.einsum("gk,kpq->gpq", noise(N, size, seed=4), noise(size, P, Q, seed=5))
    tiles = noise(IN, P, seed=1) @ core @ noise(Q, OUT, seed=2)
    assert fitted(tiles, rounds, size) < 1e-9 * float(tiles.norm())
    assert fitted(tiles, rounds, BANK - 1) > 1e-2 * float(tiles.norm())
    u, v, smaller = tucker(list(tiles), P - 1, Q, None, rounds)
    assert error(tiles, u, v, smaller) > 1e-2 * float(tiles.norm())
