"""What every form must do, asked of every form. A new form takes a row in ROWS and one in EXACT."""

import json

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tenfold.algebra.moments import Moments, identity_moments, ridged
from tenfold.algebra.weighted import residual
from tenfold.errors import PlanError
from tenfold.forms import (
    FORMS,
    Form,
    LayerShared,
    LowRank,
    Mixed,
    TensorTrain,
    Tucker,
    apply,
    describe,
    from_dict,
    macs,
    parameters,
    to_dict,
)

N = 8
SIDES = [(12, 10), (10, 12), (11, 11)]
GRIDS = {
    "1x1": [[5]],
    "1x4": [[3, 0, 7, 4]],
    "4x1": [[6], [1], [1], [2]],
    "2x3": [[4, 2, 7], [0, 5, 3]],
}
ROWS: dict[str, Form] = {
    "low_rank": LowRank(4),
    "low_rank alpha": LowRank(4, diagonal=True),
    "tensor_train": TensorTrain(4, 6),
    "tucker": Tucker(3, 6, 4),
    "layer_shared": LayerShared(4, N),
    "tensor_train + low_rank": Mixed(TensorTrain(5, 3), LowRank(2)),
    "tucker + low_rank": Mixed(Tucker(3, 4, 6), LowRank(2)),
    "layer_shared + low_rank alpha": Mixed(LayerShared(4, N), LowRank(2, diagonal=True)),
}
"""Ranks that lose something."""
EXACT: dict[str, Form] = {
    "low_rank": LowRank(99),
    "low_rank alpha": LowRank(99, diagonal=True),
    "tensor_train": TensorTrain(99, 99),
    "tucker": Tucker(N, 99, 99),
    "layer_shared": LayerShared(N, N),
    "tensor_train + low_rank": Mixed(TensorTrain(99, 99), LowRank(2)),
    "tucker + low_rank": Mixed(Tucker(3, 4, 6), LowRank(99)),
    "layer_shared + low_rank alpha": Mixed(LayerShared(4, N), LowRank(99, diagonal=True)),
}
"""The same with ranks that lose nothing, once `within` has cut them to what the tiles have."""

every_form = pytest.mark.parametrize("row", ROWS)
every_side = pytest.mark.parametrize("sides", SIDES, ids=str)
with_or_without_moments = pytest.mark.parametrize("weighted", [False, True], ids=["weights", "outputs"])


def source(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=source(seed), dtype=torch.float64)


def some_tiles(sides: tuple[int, int], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return list(noise(N, *sides).to(dtype))


def moment(i: int, seed: int) -> Tensor:
    """Of correlated inputs, well-conditioned."""
    x = noise(4 * i, i, seed=seed) @ (torch.eye(i, dtype=torch.float64) + noise(i, i, seed=seed + 1) / i**0.5)
    return x.T @ x / len(x)


def some_moments(i: int) -> Moments:
    """Three distinct ones; the first is that of four tiles."""
    return Moments([moment(i, seed) for seed in (10, 20, 30)], (0, 0, 0, 1, 1, 2, 2, 0))


def ridged_moments(moments: Moments) -> Moments:
    """What a fit under `moments` minimises."""
    return Moments([ridged(s) for s in moments.matrices], moments.of)


def matrices(form: Form, factors: dict[str, Tensor]) -> list[Tensor]:
    return [form.matrix(factors, g) for g in range(N)]


def random_factors(form: Form, i: int, o: int, seed: int = 0) -> dict[str, Tensor]:
    return {name: noise(*shape, seed=seed + k) for k, (name, shape) in enumerate(form.shapes(N, i, o).items())}


def shapes_of(factors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in factors.items()}


def assert_near(found: Tensor, expected: Tensor, near: float = 1e-10) -> None:
    assert found.shape == expected.shape
    assert float((found - expected).norm()) <= near * float(expected.norm())


def test_every_form_has_rows() -> None:
    assert {form.kind for form in ROWS.values()} == set(FORMS)
    assert {type(form.shared) for form in ROWS.values() if isinstance(form, Mixed)} == {TensorTrain, Tucker, LayerShared}
    assert ROWS.keys() == EXACT.keys()


@every_form
@every_side
@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_the_cheap_path_multiplies_with_the_matrix(row: str, sides: tuple[int, int], grid: list[list[int]]) -> None:
    form, (i, o) = ROWS[row], sides
    for seed in range(3):
        factors = random_factors(form, i, o, 100 * seed)
        whole = torch.cat([torch.cat([form.matrix(factors, g) for g in tiles], dim=1) for tiles in grid])
        x = noise(2, 3, len(grid) * i, seed=seed)
        found = apply(form.products(factors), grid, x)
        assert_near(found, x @ whole)

        other = [[(g + 1) % N for g in tiles] for tiles in grid]
        assert float((found - apply(form.products(factors), other, x)).norm()) > 0.1 * float(found.norm())


@every_form
@every_side
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_factors_have_the_shapes_that_were_promised_and_the_precision_that_came_in(
    row: str, sides: tuple[int, int], dtype: torch.dtype
) -> None:
    form, (i, o) = ROWS[row], sides
    tiles, moments = some_tiles(sides, dtype), some_moments(i)
    moments = Moments([s.to(dtype) for s in moments.matrices], moments.of)
    std = torch.ones(N)
    for factors in (form.decompose(tiles), form.decompose(tiles, moments, 2), form.draw(N, i, o, std, source(0))):
        assert shapes_of(factors) == form.shapes(N, i, o)
        assert sum(value.numel() for value in factors.values()) == parameters(form, N, i, o)
        assert all(value.isfinite().all() for value in factors.values())
    for factors in (form.decompose(tiles), form.decompose(tiles, moments, 2)):
        assert {value.dtype for value in factors.values()} == {dtype}
        assert apply(form.products(factors), [[0]], noise(3, i).to(dtype)).dtype == dtype
        assert {value.dtype for value in form.refit(factors, 1, tiles[1], moments[1]).values()} <= {dtype}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@every_form
@with_or_without_moments
def test_factors_lie_where_the_tiles_lie(row: str, weighted: bool) -> None:
    form, i = ROWS[row], SIDES[0][0]
    tiles, moments = some_tiles(SIDES[0]), some_moments(i)
    there = Moments([s.cuda() for s in moments.matrices], moments.of)
    factors = form.decompose([tile.cuda() for tile in tiles], there if weighted else None, 2)
    assert {value.device.type for value in (factors | form.refit(factors, 1, tiles[1].cuda(), there[1])).values()} == {"cuda"}
    here = form.decompose(tiles, moments if weighted else None, 2)
    for found, expected in zip(matrices(form, factors), matrices(form, here), strict=True):
        assert_near(found.cpu(), expected, 1e-8)


@every_form
@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_multiply_adds_are_those_that_torch_counts(row: str, grid: list[list[int]]) -> None:
    form, (i, o), tokens = ROWS[row], SIDES[0], 7
    factors = {name: torch.empty(shape, device="meta") for name, shape in form.shapes(N, i, o).items()}
    with FlopCounterMode(display=False) as folding:
        products = form.products(factors)
    with FlopCounterMode(display=False) as running:
        apply(products, grid, torch.empty(tokens, len(grid) * i, device="meta"))
    assert folding.get_total_flops() == 2 * form.fold_macs(N, i, o)
    assert running.get_total_flops() == 2 * tokens * macs(form, N, i, o, len(grid), len(grid[0])) > 0


@every_form
def test_a_form_survives_json(row: str) -> None:
    form = ROWS[row]
    assert from_dict(json.loads(json.dumps(to_dict(form)))) == form
    assert [other for other in ROWS.values() if to_dict(other) == to_dict(form)] == [form]
    assert describe(form).split()[0] in FORMS


def test_a_description_shows_the_numbers() -> None:
    assert describe(Tucker(36, 128, 96)) == "tucker l=36 p=128 q=96"
    assert describe(Mixed(TensorTrain(64, 64), LowRank(4))) == "tensor_train p=64 q=64 + low_rank d=4"


def test_an_unknown_form_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(PlanError, match='a form must be one that this version knows, got "tuker": did you mean "tucker"'):
        from_dict({"kind": "tuker", "l": 1})
    with pytest.raises(PlanError, match='got "": known: layer_shared, low_rank'):
        from_dict({"l": 1})


TOO_LARGE = [
    (LowRank(11), r"the rank of low_rank must lie between 1 and 10 \(the shorter side of its 12 x 10 tiles\), got 11: choose"),
    (TensorTrain(13, 4), r"the input rank of tensor_train must lie between 1 and 12 \(the input side of .*\), got 13: choose"),
    (TensorTrain(4, 11), r"the output rank of tensor_train must lie between 1 and 10 \(the output side .*\), got 11: choose"),
    (Tucker(9, 4, 4), r"the bank of tucker must lie between 1 and 8 \(the 8 tiles of its group\), got 9: choose"),
    (Tucker(3, 13, 4), r"the input rank .* must lie between 1 and 12 .*, got 13: choose"),
    (Mixed(Tucker(9, 4, 4), LowRank(2)), r"the bank of tucker must lie between 1 and 8 .*, got 9: choose"),
    (Mixed(TensorTrain(4, 4), LowRank(11)), r"the rank of low_rank must lie between 1 and 10 .*, got 11: choose"),
]


@pytest.mark.parametrize(("form", "message"), TOO_LARGE, ids=lambda value: describe(value) if isinstance(value, Form) else "")
def test_ranks_that_do_not_fit_are_refused_and_can_be_cut(form: Form, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        form.check(N, 12, 10)
    cut = form.within(N, 12, 10)
    cut.check(N, 12, 10)
    assert cut != form
    assert to_dict(cut).keys() == to_dict(form).keys()


@pytest.mark.parametrize(
    "form", [LowRank(0), TensorTrain(0, 4), TensorTrain(4, 0), Tucker(0, 4, 4), Tucker(2, 4, 0)], ids=describe
)
def test_a_rank_of_nothing_is_refused_and_not_raised(form: Form) -> None:
    with pytest.raises(PlanError, match=r"between 1 and .*, got 0"):
        form.check(N, 12, 10)
    assert form.within(N, 12, 10) == form


@pytest.mark.parametrize(("r", "n"), [(3, 8), (4, 12)])
def test_layers_with_unequal_numbers_of_tiles_share_nothing(r: int, n: int) -> None:
    with pytest.raises(PlanError, match=f"the same number of tiles in every layer, got 8 tiles at {r} a layer: choose sites"):
        LayerShared(r, n).check(8, 12, 10)


@every_form
@every_side
def test_ranks_that_fit_stay(row: str, sides: tuple[int, int]) -> None:
    form = ROWS[row]
    form.check(N, *sides)
    assert form.within(N, *sides) == form


@every_form
@every_side
@with_or_without_moments
def test_full_rank_gives_the_tiles_back_and_low_rank_does_not(row: str, sides: tuple[int, int], weighted: bool) -> None:
    tiles, moments = some_tiles(sides), some_moments(sides[0]) if weighted else None
    exact = EXACT[row].within(N, *sides)
    for rounds in (0, 2):
        factors = exact.decompose(tiles, moments, rounds)
        for tile, found in zip(tiles, matrices(exact, factors), strict=True):
            assert_near(found, tile)
        low = ROWS[row].decompose(tiles, moments, rounds)
        for tile, found in zip(tiles, matrices(ROWS[row], low), strict=True):
            assert float((found - tile).norm()) > 0.1 * float(tile.norm())


@every_form
def test_a_moment_held_once_is_a_moment_for_each_tile(row: str) -> None:
    form, tiles, shared = ROWS[row], some_tiles(SIDES[0]), some_moments(SIDES[0][0])
    each = Moments([shared[g] for g in range(N)], tuple(range(N)))
    other = Moments(shared.matrices, tuple((s + 1) % 3 for s in shared.of))
    expected, same, different = (matrices(form, form.decompose(tiles, m, 3)) for m in (shared, each, other))
    for g in range(N):
        assert_near(same[g], expected[g], 1e-8)
    assert max(float((a - b).norm()) for a, b in zip(different, expected, strict=True)) > 0.1


@every_form
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("silent", [None, 1, 3], ids=["weights", "one silent input", "silent inputs"])
def test_tiles_of_zeros_and_silent_inputs_do_no_harm(row: str, dtype: torch.dtype, silent: int | None) -> None:
    """Some checkpoints hold layers that are still zero, some inputs never vary: nothing may turn into NaN."""
    form, (i, o) = ROWS[row], SIDES[0]
    moments = None
    if silent:
        heard = some_moments(i).matrices[silent:]
        moments = Moments([s.to(dtype) for s in (*[torch.zeros(i, i)] * silent, *heard)], some_moments(i).of)
    for found in matrices(form, form.decompose(list(torch.zeros(N, i, o, dtype=dtype)), moments, 2)):
        assert found.abs().max() < 1e-12
    tiles = some_tiles(SIDES[0], dtype)
    for tile, found in zip(tiles, matrices(form, form.decompose(tiles, moments, 2)), strict=True):
        assert 0.1 < found.norm() / tile.norm() < 10


@every_form
def test_matrices_of_no_scale_are_drawn_as_zeros(row: str) -> None:
    form, (i, o) = ROWS[row], SIDES[0]
    for found in matrices(form, form.draw(N, i, o, torch.zeros(N), source(0))):
        assert found.abs().max() < 1e-12


@every_form
def test_drawn_matrices_have_the_scale_that_was_asked_for(row: str) -> None:
    i, o = 96, 80
    form = {
        "low_rank": LowRank(40),
        "low_rank alpha": LowRank(40, diagonal=True),
        "tensor_train": TensorTrain(48, 40),
        "tucker": Tucker(6, 48, 40),
        "tensor_train + low_rank": Mixed(TensorTrain(48, 40), LowRank(40)),
        "tucker + low_rank": Mixed(Tucker(6, 48, 40), LowRank(40)),
    }.get(row, ROWS[row])
    std = torch.tensor([0.5, 1, 2, 4, 0.05, 0.1, 0.2, 0.4])
    pooled = std.view(2, 4).square().mean(0).sqrt().repeat(2)  # a role's matrix has one scale for all layers
    expected = std
    if row.startswith("layer_shared"):
        expected = pooled if row == "layer_shared" else ((pooled.square() + std.square()) / 2).sqrt()
    for seed in range(3):
        drawn = torch.stack(matrices(form, form.draw(N, i, o, std, source(seed))))
        torch.testing.assert_close(drawn.flatten(1).std(1), expected, rtol=0.12, atol=0)
        assert drawn.flatten(1).mean(1).abs().le(0.12 * expected).all()
    again = torch.stack(matrices(form, form.draw(N, i, o, std, source(2))))
    assert torch.equal(again, drawn)


@every_form
def test_every_number_that_was_drawn_can_learn(row: str) -> None:
    """The paper's code starts U, V, P and C at zero: there every gradient is zero, and stays so."""
    form, (i, o) = ROWS[row], SIDES[0]

    def gradients(factors: dict[str, Tensor]) -> list[Tensor]:
        leaves = {name: value.clone().requires_grad_() for name, value in factors.items()}
        products = form.products(leaves)
        y = torch.stack([apply(products, [[g]], noise(5, i, seed=g).float()) for g in range(N)])
        return list(torch.autograd.grad((y - noise(N, 5, o).float()).square().sum(), list(leaves.values())))

    drawn = form.draw(N, i, o, torch.ones(N), source(0))
    assert all(gradient.abs().min() > 0 for gradient in gradients(drawn))
    dead = gradients({name: torch.zeros_like(value) for name, value in drawn.items()})
    products_of_factors = dead[1:] if row.startswith("layer_shared") else dead
    assert not any(gradient.any() for gradient in products_of_factors)


@every_form
@every_side
def test_a_fit_to_outputs_loses_less_output_and_no_less_weight(row: str, sides: tuple[int, int]) -> None:
    form, tiles, moments = ROWS[row], some_tiles(sides), some_moments(sides[0])
    outputs, weights = (matrices(form, form.decompose(tiles, m, 3)) for m in (moments, None))
    assert residual(tiles, ridged_moments(moments), outputs) < 0.97 * residual(tiles, ridged_moments(moments), weights)
    plain = identity_moments(N, sides[0], tiles[0])
    assert residual(tiles, plain, outputs) > residual(tiles, plain, weights)


@every_form
@with_or_without_moments
def test_more_rounds_lose_less_where_one_step_is_not_exact(row: str, weighted: bool) -> None:
    form, tiles, i = ROWS[row], some_tiles(SIDES[0]), SIDES[0][0]
    moments = some_moments(i) if weighted else None
    measure = ridged_moments(moments) if moments else identity_moments(N, i, tiles[0])

    def lost(form: Form, rounds: int) -> float:
        return residual(tiles, measure, matrices(form, form.decompose(tiles, moments, rounds)))

    if isinstance(form, LowRank | LayerShared):
        assert lost(form, 6) == lost(form, 0)
    else:
        assert lost(form, 6) < lost(form, 1) * (1 - 1e-3)
    if isinstance(form, Mixed):
        assert lost(form, 1) < min(lost(form.shared, 6), lost(form.private, 6)), "less than either part alone"


@every_form
@every_side
def test_refitting_a_tile_never_loses_and_wins_where_the_input_changed(row: str, sides: tuple[int, int]) -> None:
    form, (i, o) = ROWS[row], sides
    tiles, moments = some_tiles(sides), some_moments(i)
    factors = form.decompose(tiles, moments, 2)
    shapes = form.shapes(N, i, o)

    def lost_before_and_after(g: int, s: Tensor) -> tuple[float, float]:
        new = form.refit(factors, g, tiles[g], s)
        changed = {name: value.clone() for name, value in factors.items()}
        for name, value in new.items():
            assert value.shape == shapes[name][1:]
            changed[name][g] = value
        untouched = [other for other in range(N) if other != g]
        assert all(torch.equal(form.matrix(changed, other), form.matrix(factors, other)) for other in untouched)
        here = Moments([ridged(s)], (0,))
        before, after = (residual([tiles[g]], here, [form.matrix(f, g)]) for f in (factors, changed))
        return before, after

    for g in range(N):
        before, after = lost_before_and_after(g, moments[g])
        assert after <= before * (1 + 1e-10)
        before, after = lost_before_and_after(g, moment(i, 500 + g) + 20 * torch.outer(*[noise(i, seed=g)] * 2))
        assert after == before if row == "layer_shared" else after < 0.99 * before


@pytest.mark.parametrize("shared", [TensorTrain(5, 4), Tucker(3, 5, 4)], ids=describe)
def test_refitting_does_not_need_orthonormal_sides(shared: TensorTrain | Tucker) -> None:
    """Training leaves none: the answer must not depend on how U and V are scaled and turned."""
    i, g = SIDES[0][0], 2
    tiles, s = some_tiles(SIDES[0]), moment(i, 40)
    plain = shared.decompose(tiles, some_moments(i), 1)
    a, b = noise(5, 5, seed=1), noise(4, 4, seed=2)
    inner = {name: torch.linalg.inv(a) @ plain[name] @ torch.linalg.inv(b) for name in ("core", "C") if name in plain}
    turned = plain | inner | {"U": plain["U"] @ a, "V": b @ plain["V"]}
    assert_near(shared.matrix(turned, g), shared.matrix(plain, g))

    found = []
    for factors in (plain, turned):
        for name, value in shared.refit(factors, g, tiles[g], s).items():
            factors[name][g] = value
        found.append(shared.matrix(factors, g))
    assert_near(found[1], found[0], 1e-8)


@pytest.mark.parametrize(("p", "q"), [(4, 6), (6, 4)])
def test_the_two_ranks_are_not_mixed_up(p: int, q: int) -> None:
    """Tiles whose input side has rank p and whose output side has rank q are exact at (p, q) and not at (q, p)."""
    i, o = SIDES[0]
    planted = noise(i, p, seed=1) @ noise(N, p, q) @ noise(q, o, seed=2)
    tiles = list(planted)
    for moments in (None, some_moments(i)):
        right, wrong = (
            [tile - f.matrix(f.decompose(tiles, moments, 1), g) for g, tile in enumerate(tiles)]
            for f in (TensorTrain(p, q), TensorTrain(q, p))
        )
        assert torch.stack(right).norm() < 1e-9 * planted.norm()
        assert torch.stack(wrong).norm() > 0.1 * planted.norm()


def test_residual_is_the_share_of_the_output_that_is_lost() -> None:
    i, o = SIDES[0]
    tiles, other, x = noise(2, i, o), noise(2, i, o, seed=1), noise(2, 50, i, seed=2)
    moments = Moments([y.T @ y for y in x], (0, 1))
    expected = float((x @ (tiles - other)).square().sum() / (x @ tiles).square().sum())
    assert residual(list(tiles), moments, list(other)) == pytest.approx(expected, rel=1e-10)
    assert residual(list(tiles), Moments(moments.matrices, (1, 0)), list(other)) != pytest.approx(expected, rel=1e-3)
    assert residual(list(tiles), moments, list(tiles)) == 0
    plain = residual(list(tiles), identity_moments(len(tiles), tiles.shape[1], tiles), list(other))
    assert residual(list(tiles), None, list(other)) == pytest.approx(plain, rel=1e-10)
    assert residual(list(torch.zeros_like(tiles)), moments, list(other)) == 0
