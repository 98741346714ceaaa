"""What is said of factors, on factors that one can work out by hand."""

from math import sqrt

import pytest
import torch
from pico import pico
from torch import Tensor

from tenfold.analysis.blocks import labels
from tenfold.analysis.learnt import Learnt, learnt
from tenfold.forms import Form, LowRank, Mixed, TensorTrain, Tucker
from tenfold.nn import FactorBank
from tenfold.planning.plan import Group
from tenfold.planning.sites import find_sites

D = 32
TILES = 24
"""Two layers of Q, K, V, O, In 1..4, Out 1..4."""


def bank(form: Form, seed: int = 0, **given: Tensor) -> FactorBank:
    made = FactorBank(form, TILES, D, D).double()
    draw = torch.Generator().manual_seed(seed)
    made.fill_({k: given.get(k, torch.randn(v.shape, generator=draw, dtype=v.dtype)) for k, v in made.factors().items()})
    return made


def found(own: FactorBank, raw: list[Tensor] | None = None, start: FactorBank | None = None) -> Learnt:
    model = pico("bert")
    sites = find_sites(model.base_model, "bert", None)
    group = Group("all", own.form, D, D, tuple(sites))
    return learnt(group, labels(group), own, raw, start)


def test_distances_are_one_minus_the_cosine_of_factor_vectors() -> None:
    """Layer 1 has the vectors of layer 0; in a layer Q is at 45 degrees to K and opposite to V, others at right angles."""
    layer = torch.zeros(12, 12, dtype=torch.float64)
    layer[0, 0] = 2.0
    layer[1, :2] = 3.0
    layer[2, 0] = -1.0
    layer[3:, 3:] = torch.eye(9, dtype=torch.float64)
    own = found(bank(Tucker(12, 4, 4), P=torch.cat([layer, layer])))
    assert own.vectors == "P"
    distances = own.distances
    torch.testing.assert_close(distances, distances.T)
    assert distances[0, 1].item() == pytest.approx(1 - sqrt(0.5), abs=1e-12)
    assert distances[0, 2].item() == pytest.approx(2, abs=1e-12)
    assert distances[0, 3].item() == pytest.approx(1, abs=1e-12)
    assert torch.diagonal(distances, 12).abs().max() < 1e-12
    assert own.by_role() == pytest.approx(
        dict.fromkeys(("attn.q", "attn.k", "attn.v", "attn.o", "ffn.in", "ffn.out"), 0), abs=1e-12
    )
    assert own.by_relation()["same block of another layer"] == pytest.approx(0, abs=1e-12)
    parts = own.by_part()
    assert parts == pytest.approx({"same part": 1, "other part": 1})


def test_parts_of_in_and_out_that_belong_together_are_told_apart() -> None:
    """The paper's finding: In 1 is near Out 1, In 2 near Out 2."""
    layer = torch.eye(12, dtype=torch.float64)
    layer[8:] = layer[4:8]
    own = found(bank(Tucker(12, 4, 4), P=torch.cat([layer, layer])))
    assert own.by_part() == pytest.approx({"same part": 0, "other part": 1}, abs=1e-12)


def test_usage_is_the_energy_that_each_bank_matrix_brings() -> None:
    """Bank matrices of squared norms 1 and 4, used with 3 and 2: 9 to 16. Unused ones have no share."""
    eye = torch.eye(D, 4, dtype=torch.float64)
    c = torch.zeros(3, 4, 4, dtype=torch.float64)
    c[0, 0, 0], c[1, 1, 1], c[2, 2, 2] = 1.0, 2.0, 5.0
    p = torch.tensor([[3.0, 2.0, 0.0]], dtype=torch.float64).repeat(TILES, 1)
    own = found(bank(Tucker(3, 4, 4), U=eye, V=eye.T.clone(), C=c, P=p))
    assert own.usage is not None
    torch.testing.assert_close(own.usage.shares, torch.tensor([[9 / 25, 16 / 25, 0]], dtype=torch.float64).repeat(TILES, 1))
    told = own.bank()
    assert told is not None
    assert told["order"] == [1, 0, 2]
    assert told["roles"]["ffn.in"] == pytest.approx([9 / 25, 16 / 25, 0])
    assert told["layers"]["1"] == pytest.approx([9 / 25, 16 / 25, 0])
    entropy_of_two = (9 / 25) ** (-9 / 25) * (16 / 25) ** (-16 / 25)
    assert told["used"] == pytest.approx(entropy_of_two)
    assert told["used_by_tile"] == pytest.approx([entropy_of_two] * TILES)


def test_movement_is_relative_to_the_start() -> None:
    start = bank(LowRank(3))
    now = bank(LowRank(3), A=1.5 * start.factors()["A"], B=start.factors()["B"])
    own = found(now, start=start)
    assert [tile["moved"] for tile in own.tiles] == pytest.approx([0.5] * TILES)
    assert own.factors["A"]["moved"] == pytest.approx(0.5)
    assert own.factors["A"]["cosine"] == pytest.approx(1)
    assert own.factors["B"]["moved"] == 0
    assert "moved" not in found(now).tiles[0]


def test_against_the_original_norms_ranks_and_errors() -> None:
    """The original is the reconstruction twice over: half of it, so a quarter of its energy, is lost."""
    own = bank(LowRank(3))
    twice = [2 * own.matrix(g).detach() for g in range(TILES)]
    for tile, raw in zip(found(own, twice).tiles, twice, strict=True):
        assert tile["error"] == pytest.approx(0.25)
        assert tile["cosine"] == pytest.approx(1)
        assert tile["raw_norm"] == pytest.approx(2 * tile["norm"]) == pytest.approx(float(raw.norm()))
        assert tile["raw_entropy_rank"] == pytest.approx(tile["entropy_rank"]) and 1 < tile["entropy_rank"] <= 3.001


def test_what_stands_for_a_tile_in_each_form() -> None:
    core = torch.randn(TILES, 4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    flat = core.flatten(1)
    cosine = torch.nn.functional.cosine_similarity(flat[0], flat[7], dim=0).item()
    train = found(bank(TensorTrain(4, 4), core=core))
    mixed = found(bank(Mixed(TensorTrain(4, 4), LowRank(2)), shared_core=core))
    alone = found(own := bank(LowRank(2)))
    assert (train.vectors, mixed.vectors, alone.vectors) == ("cores", "cores", "matrices")
    assert train.distances[0, 7].item() == mixed.distances[0, 7].item() == pytest.approx(1 - cosine)
    of_matrices = torch.nn.functional.cosine_similarity(own.matrix(0).flatten(), own.matrix(7).flatten(), dim=0).item()
    assert alone.distances[0, 7].item() == pytest.approx(1 - of_matrices)
    assert alone.usage is None and alone.bank() is None


def test_the_private_share_of_a_sum() -> None:
    """A private part with three times the norm of the shared one holds nine tenths of the energy."""
    form = Mixed(TensorTrain(2, 2), LowRank(1))
    left, right = torch.zeros(D, 2, dtype=torch.float64), torch.zeros(2, D, dtype=torch.float64)
    left[0, 0] = right[0, 0] = 1.0
    a, b = torch.zeros(TILES, D, 1, dtype=torch.float64), torch.zeros(TILES, 1, D, dtype=torch.float64)
    a[:, 5], b[:, :, 6] = 3.0, 1.0
    core = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64).repeat(TILES, 1, 1)
    own = found(bank(form, shared_U=left, shared_core=core, shared_V=right, private_A=a, private_B=b))
    assert [tile["private"] for tile in own.tiles] == pytest.approx([0.9] * TILES)
