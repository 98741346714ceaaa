"""Variance curves are scikit-learn's; ranks are those that were planted."""

import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor

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
from tenfold.analysis.views import by_chance


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(20, 20), (30, 12), (12, 30)])
def test_the_curve_is_that_of_principal_component_analysis(shape: tuple[int, int]) -> None:
    w = noise(*shape) + torch.linspace(-2, 2, shape[1])
    theirs = PCA().fit(w.numpy()).explained_variance_ratio_.cumsum()
    kept = list(range(1, min(shape) + 1))
    assert captured(variances(w), kept) == pytest.approx(theirs, abs=1e-12)
    assert captured(variances(w), [0, *kept])[0] == 0
    assert captured(energies(w), [1])[0] > captured(variances(w), [1])[0]  # the mean row is a direction of its own


@pytest.mark.parametrize("shape", [(16, 16), (24, 10), (10, 24)])
def test_energies_under_a_moment_are_those_of_the_outputs(shape: tuple[int, int]) -> None:
    x, w = noise(200, shape[0], seed=1), noise(*shape)
    outputs = torch.linalg.svdvals(x @ w).square()[: min(shape)] / len(x)
    torch.testing.assert_close(energies(w, x.T @ x / len(x)), outputs, rtol=1e-10, atol=0)
    torch.testing.assert_close(energies(w), torch.linalg.svdvals(w).square(), rtol=1e-9, atol=1e-12)


def test_ranks_of_a_planted_product() -> None:
    a, b = torch.linalg.qr(noise(40, 8))[0], torch.linalg.qr(noise(30, 8, seed=1))[0].T
    w = (a @ b).float()
    values = energies(w)
    assert numerical_rank(values, (40, 30), w.dtype) == 8
    assert entropy_rank(values) == pytest.approx(8, abs=1e-3)
    assert stable_rank(values) == pytest.approx(8, abs=1e-5)
    assert dimensions_for(values, 0.9) == 8
    assert dimensions_for(values, 0.5) == 4
    zeros = energies(torch.zeros(4, 3))
    assert (entropy_rank(zeros), stable_rank(zeros), numerical_rank(zeros, (4, 3), torch.float32)) == (0, 0, 0)
    assert captured(zeros, [0, 2]) == [1, 1]


@pytest.mark.parametrize("dimensions", [1, 2, 31, 32, 384, 767])
def test_the_grid_holds_both_ends_and_the_middle(dimensions: int) -> None:
    kept = grid(dimensions)
    assert kept == sorted(set(kept))
    assert {0, dimensions // 2, dimensions} <= set(kept)
    assert len(kept) <= 66


def test_random_numbers_are_what_the_law_of_marchenko_and_pastur_says() -> None:
    """Square: half of the dimensions hold 89.4%; twice as wide or as high: 79.0%. By numerical integration of the law."""
    for shape, expected in (((192, 192), 0.894), ((192, 384), 0.790), ((384, 192), 0.790)):
        assert by_chance(*shape, [0, 96, 192]) == pytest.approx([0, expected, 1], abs=0.004)
