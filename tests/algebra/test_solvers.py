"""algebra/linear.py: eigenvectors, positive systems and conjugate gradients."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from tenfold.algebra.linear import conjugate_gradient, solve_positive, top_eigenvectors
from tenfold.algebra.moments import ridged


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def positive(a: int, rank: int | None = None) -> Tensor:
    x = noise(a, rank or 2 * a)
    return x @ x.T


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_top_eigenvectors_are_numpys_largest_first(rank: int) -> None:
    gram = positive(7)
    values, vectors = np.linalg.eigh(gram.numpy())
    found = top_eigenvectors(gram, rank)
    assert found.shape == (7, rank)
    overlap = found.T @ torch.from_numpy(vectors[:, ::-1][:, :rank].copy())
    torch.testing.assert_close(overlap.abs(), torch.eye(rank, dtype=torch.float64), rtol=0, atol=1e-10)
    energy = (found.T @ gram @ found).diagonal()
    torch.testing.assert_close(energy, torch.from_numpy(values[::-1][:rank].copy()), rtol=1e-10, atol=0)


def test_single_precision_is_solved_in_double_and_returned_single() -> None:
    gram, right = positive(7), noise(7, 2)
    assert top_eigenvectors(gram.float(), 2).dtype == solve_positive(gram.float(), right.float()).dtype == torch.float32
    hard = torch.diag(torch.logspace(0, -12, 7, dtype=torch.float64)).float()  # beyond what single precision can factor
    torch.testing.assert_close(hard @ solve_positive(hard, right.float()), right.float(), rtol=1e-5, atol=0)


def test_a_positive_system_is_solved() -> None:
    matrix, right = positive(7), noise(7, 3)
    found = solve_positive(matrix, right)
    torch.testing.assert_close(matrix @ found, right, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found, torch.linalg.solve(matrix, right), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 4, 6])
def test_a_singular_system_is_solved_where_it_can_be(rank: int) -> None:
    matrix = positive(7, rank)
    assert torch.linalg.matrix_rank(matrix) == rank
    right = matrix @ noise(7, 3, seed=1)
    found = solve_positive(matrix, right)
    assert (matrix @ found - right).norm() < 1e-6 * right.norm()


def test_hopeless_systems_give_numbers() -> None:
    zeros = torch.zeros(4, 4, dtype=torch.float64)
    assert not solve_positive(zeros, zeros).any()
    indefinite = torch.diag(torch.tensor([2.0, 1.0, -1.0], dtype=torch.float64))
    right = noise(3, 1)
    torch.testing.assert_close(indefinite @ solve_positive(indefinite, right), right)


def test_conjugate_gradients_reach_the_solution_and_every_step_lowers_the_quadratic() -> None:
    matrix, right, start = positive(6), noise(6, 1), noise(6, 1, seed=2)

    def after(steps: int) -> Tensor:
        return conjugate_gradient(lambda x: matrix @ x, right, start, lambda x: x, steps)

    quadratic = [float((x * (matrix @ x)).sum() / 2 - (right * x).sum()) for x in map(after, range(7))]
    assert all(later < earlier for earlier, later in pairwise(quadratic))
    solution = torch.linalg.solve(matrix, right)
    torch.testing.assert_close(after(6), solution, rtol=1e-8, atol=1e-8)
    assert (after(2) - solution).norm() > 1e-3 * solution.norm()
    torch.testing.assert_close(after(0), start, rtol=0, atol=0)


def test_the_right_preconditioner_takes_one_step() -> None:
    matrix, right = positive(6), noise(6, 1)
    found = conjugate_gradient(lambda x: matrix @ x, right, torch.zeros_like(right), lambda x: solve_positive(matrix, x), 1)
    torch.testing.assert_close(matrix @ found, right, rtol=1e-10, atol=1e-10)


def test_conjugate_gradients_stay_at_a_solution() -> None:
    matrix, solution = positive(6), noise(6, 1)
    for right, start in ((matrix @ solution, solution), (torch.zeros_like(solution), torch.zeros_like(solution))):
        found = conjugate_gradient(lambda x: matrix @ x, right, start, lambda x: x, 20)
        torch.testing.assert_close(found, start, rtol=1e-10, atol=1e-10)


def test_a_ridge_lifts_every_direction_by_a_share_of_the_mean() -> None:
    moment = positive(5, 2)
    lifted = torch.linalg.eigvalsh(ridged(moment, 0.01)) - torch.linalg.eigvalsh(moment)
    torch.testing.assert_close(lifted, torch.full_like(lifted, 0.01 * float(moment.diagonal().mean())))
    assert torch.linalg.eigvalsh(ridged(torch.zeros(5, 5, dtype=torch.float64))).min() > 0
