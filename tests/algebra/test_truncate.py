"""algebra/low_rank.py: the best product A B of a given rank, against SVDs written out."""

import pytest
import torch
from torch import Tensor

from tenfold.algebra.low_rank import balance, normalise, truncate

SIDES = [(9, 6), (6, 9), (7, 7)]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def moment(i: int) -> Tensor:
    x = noise(3 * i, i, seed=5) * torch.linspace(0.2, 3, i, dtype=torch.float64)
    return x.T @ x / len(x)


def root(s: Tensor) -> Tensor:
    """The symmetric S^(1/2)."""
    values, vectors = torch.linalg.eigh(s)
    return vectors @ torch.diag(values.sqrt()) @ vectors.T


def svd(w: Tensor, rank: int) -> Tensor:
    u, s, v = torch.linalg.svd(w, full_matrices=False)
    return u[:, :rank] * s[:rank] @ v[:rank]


@pytest.mark.parametrize("sides", SIDES, ids=str)
@pytest.mark.parametrize("rank", [1, 3, 6])
def test_in_weight_space_it_is_the_truncated_svd(sides: tuple[int, int], rank: int) -> None:
    w = noise(*sides)
    a, b = truncate(w, rank)
    assert a.shape == (sides[0], rank)
    assert b.shape == (rank, sides[1])
    torch.testing.assert_close(a @ b, svd(w, rank), rtol=1e-10, atol=1e-10)
    eckart_young = torch.linalg.svdvals(w)[rank:].square().sum()
    torch.testing.assert_close((w - a @ b).square().sum(), eckart_young, rtol=1e-10, atol=1e-20)


@pytest.mark.parametrize("sides", SIDES, ids=str)
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_under_a_moment_it_is_the_svd_of_the_root_times_w(sides: tuple[int, int], rank: int) -> None:
    w, s = noise(*sides), moment(sides[0])
    half = root(s)
    a, b = truncate(w, rank, s)
    torch.testing.assert_close(a @ b, torch.linalg.inv(half) @ svd(half @ w, rank), rtol=1e-9, atol=1e-9)

    best = torch.linalg.svdvals(half @ w)[rank:].square().sum()
    torch.testing.assert_close((half @ (w - a @ b)).square().sum(), best, rtol=1e-10, atol=0)
    assert (half @ (w - svd(w, rank))).square().sum() > 1.01 * best


@pytest.mark.parametrize("sides", SIDES, ids=str)
def test_a_moment_that_is_the_identity_changes_nothing(sides: tuple[int, int]) -> None:
    w = noise(*sides)
    plain, weighted = truncate(w, 3), truncate(w, 3, 7 * torch.eye(sides[0], dtype=torch.float64))
    torch.testing.assert_close(weighted[0] @ weighted[1], plain[0] @ plain[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("sides", SIDES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_planted_product_is_found(sides: tuple[int, int], weighted: bool) -> None:
    w = noise(sides[0], 3) @ noise(3, sides[1], seed=1)
    s = moment(sides[0]) if weighted else None
    for rank in (3, 4):
        a, b = truncate(w, rank, s)
        assert (a @ b - w).norm() < 1e-9 * w.norm()
    a, b = truncate(w, 2, s)
    assert (a @ b - w).norm() > 1e-2 * w.norm()


def test_full_rank_is_exact_however_small_singular_values_are() -> None:
    turn = torch.linalg.qr(noise(6, 6))[0]
    w = turn @ torch.diag(torch.logspace(0, -14, 6, dtype=torch.float64)) @ noise(6, 9, seed=1)
    for tile in (w, w.T):
        a, b = truncate(tile, 6, moment(tile.shape[0]))
        assert (a @ b - tile).norm() < 1e-12 * tile.norm()


def test_scales_move_and_the_product_stays() -> None:
    a, b = noise(9, 3), noise(3, 6, seed=1)
    left, scale, right = normalise(a, b)
    torch.testing.assert_close(left * scale @ right, a @ b, rtol=1e-12, atol=1e-12)
    for norms in (left.norm(dim=0), right.norm(dim=1)):
        torch.testing.assert_close(norms, torch.ones_like(norms))

    even_a, even_b = balance(100 * a, b)
    torch.testing.assert_close(even_a @ even_b, 100 * a @ b, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(even_a.norm(dim=0), even_b.norm(dim=1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_zeros_have_no_scale_and_do_no_harm(dtype: torch.dtype) -> None:
    for a, b in ((torch.zeros(9, 3), noise(3, 6)), (noise(9, 3), torch.zeros(3, 6)), (torch.zeros(9, 3), torch.zeros(3, 6))):
        left, scale, right = normalise(a.to(dtype), b.to(dtype))
        even_a, even_b = balance(a.to(dtype), b.to(dtype))
        for found in (left * scale @ right, even_a @ even_b):
            assert not found.any()
