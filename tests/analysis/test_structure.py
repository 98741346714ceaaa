"""What was planted into a model is found: equal layers, low ranks, shared factors; and tiles are named and ordered as said."""

import pytest
import torch
from pico import PICO, inputs, pico
from torch import Tensor

from tenfold.algebra.moments import Moments
from tenfold.analysis.blocks import Outputs, Plain, Sides, by_role, cosines, inner, labels
from tenfold.analysis.exploring import Exploration, Settings, cut, explore
from tenfold.analysis.modes import corners, modes
from tenfold.analysis.spectra import energies
from tenfold.analysis.views import ROWS, pairs, variance
from tenfold.calibration import calibrate
from tenfold.forms import TensorTrain, Tucker
from tenfold.methods import parse
from tenfold.planning import Plan
from tenfold.planning.build import build_plan
from tenfold.planning.plan import Group
from tenfold.planning.sites import find_sites
from tenfold.recipe import Compress

ORDER = ["attn.q", "attn.k", "attn.v", "attn.o", *(f"ffn.{side} {part}" for side in ("in", "out") for part in (1, 2, 3, 4))]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def group_of(model: torch.nn.Module, **settings: str) -> Group:
    plan = build_plan(model, find_sites(model.base_model, "bert", None), parse("II-1"), Compress.model_validate(settings))  # type: ignore[arg-type]
    return plan.groups[0]


def look_at(model: torch.nn.Module, *sizes: str) -> Exploration:
    return explore(model, Settings(Compress(), sizes, pairs=10), None)


@torch.no_grad()
def test_two_equal_layers_have_a_cosine_of_one() -> None:
    model = pico("bert")
    model.encoder.layer[1].load_state_dict(model.encoder.layer[0].state_dict())
    found = look_at(model).looks[0].structure
    for matrix in found.cosines.values():
        for block in range(12):
            assert float(matrix[2 * block, 2 * block + 1]) == pytest.approx(1, abs=1e-6)
    assert found.summary()["similarity"]["slices"]["same block of another layer"] == pytest.approx(1, abs=1e-6)
    assert abs(found.summary()["similarity"]["slices"]["other"]) < 0.1
    half = found.spectra["slices"].half[0]
    assert half == pytest.approx(1, abs=1e-6)  # 24 slices, 12 different ones
    assert found.orthogonality()["largest"] == pytest.approx(1, abs=1e-6)


@torch.no_grad()
def test_a_model_of_rank_eight_shows_as_rank_eight() -> None:
    model = pico("bert", intermediate_size=32)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2 and "encoder" in name:
            parameter.copy_(noise(parameter.shape[0], 8) @ noise(8, parameter.shape[1], seed=1) / 10)
    look = look_at(model, "3/5").looks[0]
    assert [tile["numerical_rank"] for tile in look.weights.tiles] == [8] * 12
    assert max(tile["ninety"] for tile in look.weights.tiles) <= 8
    predictions = {p.candidate.plan.method: p for p in look_at(model, "3/5").predictions}
    assert predictions["II-9"].weight_error < 1e-10


@torch.no_grad()
def test_a_planted_tucker_model_is_lost_by_no_form_that_can_hold_it() -> None:
    model = pico("bert", dtype=torch.float64)
    group = group_of(model)
    u, v, bank, mix = noise(32, 10), noise(10, 32, seed=1), noise(12, 10, 10, seed=2), noise(24, 12, seed=3)
    for site, grid in group.grids():
        rows = [torch.cat([u @ torch.einsum("k,kpq->pq", mix[g], bank) @ v for g in row], dim=1) for row in grid]
        model.base_model.get_submodule(site.path).weight.copy_(torch.cat(rows).T)
    found = explore(model, Settings(Compress(), ("3/10",), pairs=0), None)
    errors = {p.candidate.plan.groups[0].form: p.weight_error for p in found.predictions}
    held = [error for form, error in errors.items() if isinstance(form, TensorTrain) and form.p >= 10]
    held += [error for form, error in errors.items() if isinstance(form, Tucker) and form.p >= 10 and form.l >= 12]
    assert len(held) == 2
    assert max(held) < 1e-12
    smaller = [error for form, error in errors.items() if isinstance(form, Tucker) and form.l < 12]
    assert smaller and min(smaller) > 1e-3
    assert found.suggestion is not None


def test_tiles_are_named_and_ordered_as_in_the_paper() -> None:
    names = labels(group_of(pico("bert")))
    assert [label.block for label in names] == 2 * ORDER
    assert [label.layer for label in names] == 12 * [0] + 12 * [1]
    assert names[17].name == "1 ffn.in 2"
    by = [names[g] for g in by_role(names)]
    assert [label.block for label in by] == [block for block in ORDER for _ in range(2)]
    assert [label.layer for label in by] == [0, 1] * 12


@torch.no_grad()
def test_a_heatmap_holds_the_cosines_in_the_order_of_its_labels() -> None:
    model = pico("bert")
    found = look_at(model).looks[0].structure
    assert [label.name for label in found.labels[:4]] == ["0 attn.q", "1 attn.q", "0 attn.k", "1 attn.k"]
    q, k = (model.encoder.layer[1].attention.self.get_submodule(name).weight.flatten() for name in ("query", "key"))
    assert float(found.cosines["slices"][1, 3]) == pytest.approx(float(torch.cosine_similarity(q, k, dim=0)), abs=1e-6)


def test_a_stack_read_in_slabs_is_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = Plain([noise(10, 14, seed=seed) for seed in range(5)])
    moments = Moments([noise(40, 10, seed=seed).T @ noise(40, 10, seed=seed) for seed in (6, 7)], (0, 0, 1, 1, 1))
    for stack in (tiles, Outputs(tiles, moments), Sides(tiles, output=False), Sides(tiles, output=True)):
        whole = torch.stack([stack[g].flatten() for g in range(5)])
        monkeypatch.setattr("tenfold.analysis.blocks.SLAB", 5 * 14 * 3)
        assert len(list(stack.slabs())) > 2
        torch.testing.assert_close(inner(stack), whole @ whole.T, rtol=1e-10, atol=1e-8)
        monkeypatch.undo()
    output = Outputs(tiles, moments)[3]
    torch.testing.assert_close(output.T @ output, tiles[3].T @ moments[3] @ tiles[3], rtol=1e-9, atol=1e-8)


def test_sides_see_past_a_rotation_of_the_other_side() -> None:
    w, turn = noise(20, 20), torch.linalg.qr(noise(20, 20, seed=1))[0]
    stack = Plain([w, w @ turn, noise(20, 20, seed=2)])
    read, write = (cosines(inner(Sides(stack, output))) for output in (False, True))
    assert float(read[0, 1]) == pytest.approx(1, abs=1e-10)
    assert abs(float(write[0, 1])) < 0.3
    assert abs(float(read[0, 2])) < 0.3


def test_corners_are_what_hosvd_keeps() -> None:
    stack = Plain([noise(9, 7, seed=seed) for seed in range(6)])
    sums, grams = corners(stack, modes(stack), [(5, 5), (3, 2), (9, 6)], (9, 7))
    u, v = (torch.linalg.eigh(gram)[1].flip(-1) for gram in (modes(stack).left, modes(stack).right))
    for p, q in [(5, 5), (3, 2), (9, 6)]:
        cores = torch.stack([(u[:, :p].T @ w @ v[:, :q]).flatten() for w in stack])
        torch.testing.assert_close(grams[p, q], cores @ cores.T)
        assert float(sums[p, q]) == pytest.approx(float(cores.square().sum()))
    assert float(sums[9, 7]) == pytest.approx(modes(stack).energy)
    some, own = corners(stack, modes(stack), [(3, 2)], (3, 4))
    torch.testing.assert_close(some, sums[:4, :5])
    torch.testing.assert_close(own[3, 2], grams[3, 2])


def test_pairs_are_joined_both_ways_and_drawn_with_the_seed() -> None:
    model = pico("bert")
    group = group_of(model)
    names = labels(group)
    stack = Plain([noise(32, 32, seed=seed) for seed in range(24)])
    found = pairs(stack, names, 20, seed=0)
    assert len(set(found[ROWS].pairs)) == 20
    assert found[ROWS].pairs != pairs(stack, names, 20, seed=1)[ROWS].pairs
    assert found[ROWS].pairs == pairs(stack, names, 20, seed=0)[ROWS].pairs
    a, b = found[ROWS].pairs[0]
    both = torch.cat([stack[a], stack[b]])
    values = torch.linalg.svdvals(both - both.mean(0)).square()
    assert found[ROWS].curves.half[0] == pytest.approx(float(values[:16].sum() / values.sum()))
    assert len(pairs(stack, names, 10_000, seed=0)[ROWS].pairs) == 24 * 23 // 2


@torch.no_grad()
def test_output_curves_are_those_of_what_the_layer_gives() -> None:
    model = pico("bert", dtype=torch.float64)
    group = group_of(model)
    batches = [{"input_ids": torch.randint(5, 100, (8, 32), generator=torch.Generator().manual_seed(0))}]
    reads: list[Tensor] = []
    handle = model.encoder.layer[0].attention.self.key.register_forward_hook(lambda *call: reads.append(call[2]))
    moments = calibrate(model, Plan("", (group,)), batches).moments(group)
    handle.remove()
    outputs = reads[0].flatten(0, 1) - model.encoder.layer[0].attention.self.key.bias
    outputs = outputs - outputs.mean(0)
    values = torch.linalg.svdvals(outputs).square()
    stack = Plain([model.base_model.get_submodule(site.path).weight.T for site in group.sites[:4]])
    seen = Outputs(stack, Moments(moments.matrices, moments.of[:4]))
    found = variance(seen, labels(group)[:4], [energies(seen[g]) for g in range(4)])
    assert found.curves.half[1] == pytest.approx(float(values[:16].sum() / values.sum()), rel=1e-6)


def test_moments_of_short_tiles_are_cut_from_those_of_tall_ones() -> None:
    """Seen whole, ffn.out reads 128 numbers at once; its four tiles read 32 each."""
    model, batches = pico("bert", dtype=torch.float64), [{"input_ids": torch.arange(5, 45).reshape(2, 20)}]
    plans = [
        build_plan(model, find_sites(model, "bert", None), parse("II-1"), Compress(tile=tile)) for tile in ("whole", "square")
    ]
    tall, short = (calibrate(model, plan, batches) for plan in plans)
    for site in (site for site in plans[1].factored if site.role == "ffn.out"):
        found = cut(tall[site], 32)
        torch.testing.assert_close(found.square, short[site].square, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.mean, short[site].mean)
        torch.testing.assert_close(cut(found, 32).square, found.square)


@pytest.mark.parametrize("name", sorted(PICO))
def test_every_family_is_explored(name: str) -> None:
    """On text too, where it reads text: outputs lose less than weights where a form starts from activations."""
    model = pico(name)
    batches = None if model.main_input_name == "pixel_values" else [inputs(model, batch=4, length=16)]
    found = explore(model, Settings(Compress(), ("1/2",), pairs=2), batches)
    assert sum(look.group.n for look in found.looks) >= 8
    assert found.predictions and found.suggestion is not None
    for prediction in found.predictions:
        assert 0 <= prediction.weight_error <= 1 + 1e-9
        assert (prediction.output_error is None) == (batches is None)
