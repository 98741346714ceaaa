"""How the paper's methods contain each other, and that its orders of multiplication agree.

Random factors stand for trained ones: nothing is orthonormal.
"""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from tenfold.algebra.moments import Moments
from tenfold.forms import Factors, Form, LayerShared, LowRank, TensorTrain, Tucker, apply, merge, parameters

N, IN, OUT, P, Q, BANK = 12, 10, 8, 6, 5, 4
GRID = [[7, 2, 0], [11, 3, 5]]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def trained(form: Form, seed: int = 0) -> dict[str, Tensor]:
    return {name: noise(*shape, seed=seed + k) for k, (name, shape) in enumerate(form.shapes(N, IN, OUT).items())}


def matrices(form: Form, factors: Factors, tiles: Sequence[int] = range(N)) -> Tensor:
    return torch.stack([form.matrix(factors, g) for g in tiles])


def near(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> bool:
    return float((found - expected).norm()) <= tolerance * float(expected.norm())


def same_function(one: tuple[Form, Factors], other: tuple[Form, Factors]) -> bool:
    """The same matrices and, through the cheap path, the same outputs."""
    x = noise(7, 2 * IN, seed=99)
    first, second = (apply(form.products(factors), GRID, x) for form, factors in (one, other))
    return near(matrices(*one), matrices(*other)) and near(first, second)


def test_three_is_four_with_a_bank_of_all_cores_and_the_identity_for_a_mix() -> None:
    three, four = TensorTrain(P, Q), Tucker(N, P, Q)
    factors = trained(three)
    as_four = {"U": factors["U"], "P": torch.eye(N, dtype=torch.float64), "C": factors["core"], "V": factors["V"]}
    assert same_function((three, factors), (four, as_four))
    assert parameters(four, N, IN, OUT) - parameters(three, N, IN, OUT) == N * N
    assert not same_function((three, factors), (four, as_four | {"P": torch.eye(N, dtype=torch.float64).roll(1, 0)}))


@pytest.mark.parametrize("bank", [N, BANK])
def test_merging_mix_and_bank_turns_a_trained_four_into_three(bank: int) -> None:
    """The paper merges its IV-144 after training and calls it III; any bank can be merged."""
    four, three = Tucker(bank, P, Q), TensorTrain(P, Q)
    factors = trained(four)
    merged = merge(factors)
    assert {name: tuple(value.shape) for name, value in merged.items()} == three.shapes(N, IN, OUT)
    assert same_function((four, factors), (three, merged))
    assert not same_function((four, trained(four, seed=50)), (three, merged))


def test_albert_is_four_without_sides_whose_mix_repeats_the_identity() -> None:
    albert, four = LayerShared(BANK, N), Tucker(BANK, IN, OUT)
    shared = trained(albert)
    mix = torch.eye(BANK, dtype=torch.float64).repeat(N // BANK, 1)
    factors = {"U": torch.eye(IN, dtype=torch.float64), "P": mix, "C": shared["C"], "V": torch.eye(OUT, dtype=torch.float64)}
    assert same_function((albert, shared), (four, factors))
    assert not same_function((albert, shared), (four, factors | {"P": mix.flip(0)}))


@pytest.mark.parametrize("diagonal", [False, True], ids=["beta", "alpha"])
@pytest.mark.parametrize("weighted", [False, True], ids=["weights", "outputs"])
def test_two_is_a_group_of_one(diagonal: bool, weighted: bool) -> None:
    """Tiles of II do not know each other, and III alone with one tile is its SVD."""
    two, three = LowRank(3, diagonal), TensorTrain(3, 3)
    tiles = list(noise(N, IN, OUT))
    moments = Moments([x.T @ x / 40 for x in noise(N, 40, IN, seed=1)], tuple(range(N)))
    together = matrices(two, two.decompose(tiles, moments if weighted else None))
    for g, tile in enumerate(tiles):
        own = Moments([moments[g]], (0,)) if weighted else None
        alone = two.decompose([tile], own)
        assert near(two.matrix(alone, 0), together[g])
        assert near(three.matrix(three.decompose([tile], own), 0), together[g], 1e-8)
    stacked = matrices(three, three.decompose(tiles, moments if weighted else None, 3))
    assert not near(stacked, together, 0.1)


def test_alpha_is_beta_with_its_scales_taken_out() -> None:
    tiles = list(noise(N, IN, OUT))
    alpha, beta = LowRank(3, diagonal=True), LowRank(3)
    scaled, plain = alpha.decompose(tiles), beta.decompose(tiles)
    assert same_function((alpha, scaled), (beta, plain))
    assert same_function((alpha, scaled), (beta, {"A": scaled["A"] * scaled["s"][:, None], "B": scaled["B"]}))
    assert not same_function((alpha, scaled), (beta, {"A": scaled["A"], "B": scaled["B"]}))
    torch.testing.assert_close(scaled["A"].norm(dim=1), torch.ones(N, 3, dtype=torch.float64))
    torch.testing.assert_close(scaled["B"].norm(dim=2), torch.ones(N, 3, dtype=torch.float64))
    torch.testing.assert_close(scaled["s"], torch.linalg.svdvals(torch.stack(tiles))[:, :3])
    torch.testing.assert_close(plain["A"].norm(dim=1), plain["B"].norm(dim=2))
    assert parameters(alpha, N, IN, OUT) - parameters(beta, N, IN, OUT) == N * 3


def test_the_orders_of_multiplication_agree() -> None:
    form = Tucker(BANK, P, Q)
    factors = trained(form)
    u, v, x = factors["U"], factors["V"], noise(7, IN, seed=9)
    cheap = form.products(factors)
    for g in range(N):
        core = torch.einsum("k,kpq->pq", factors["P"][g], factors["C"])
        first, second, third = x @ (u @ core @ v), ((x @ u) @ core) @ v, (x @ u) @ (core @ v)
        for found in (second, third, apply(cheap, [[g]], x)):
            assert near(found, first)
        assert not near(apply(cheap, [[(g + 1) % N]], x), first, 0.1)


def test_a_merged_bank_contains_two_separate_ones() -> None:
    """Appendix F: with zeros in P' the bank [C_san; C_ffn] serves attention and FFN as two banks did."""
    attention, ffn = range(4), range(4, N)
    separate = Tucker(BANK, P, Q), Tucker(3, P, Q)
    san, fed = trained(separate[0]), trained(separate[1], seed=20)
    fed |= {"U": san["U"], "V": san["V"]}
    merged = Tucker(BANK + 3, P, Q)
    mix = torch.block_diag(san["P"][: len(attention)], fed["P"][: len(ffn)])
    factors = {"U": san["U"], "P": mix, "C": torch.cat([san["C"], fed["C"]]), "V": san["V"]}
    assert {name: tuple(value.shape) for name, value in factors.items()} == merged.shapes(N, IN, OUT)
    expected = torch.cat([matrices(separate[0], san, range(len(attention))), matrices(separate[1], fed, range(len(ffn)))])
    assert near(matrices(merged, factors), expected)

    swapped = factors | {"C": torch.cat([fed["C"], san["C"]])}
    assert not near(matrices(merged, swapped), expected, 0.1)
    relaxed = matrices(merged, factors | {"P": mix + 0.1 * (mix == 0)})
    assert not near(relaxed[list(attention)], expected[list(attention)], 0.01)
    assert not near(relaxed[list(ffn)], expected[list(ffn)], 0.01)
