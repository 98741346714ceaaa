"""Plans: the paper's counts, and predictions that equal what installed models have and do."""

import json
from typing import Any

import pytest
import torch
from pico import HEADS, HIDDEN, PICO, inputs, pico, pico_config
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertModel, PreTrainedModel

from tenfold import plan
from tenfold.checkpoints import build
from tenfold.errors import CheckpointError, PlanError
from tenfold.forms import LayerShared, LowRank, TensorTrain
from tenfold.modules import factored_layers, install_
from tenfold.planning import MATRICES, MODEL, PAPER, Plan, describe_sites, plan_from_dict, plan_model
from tenfold.recipe import Compress

METHODS = ["II-6", "II-alpha-6", "III-8", "III-8x6", "IV-4-8", "ALBERT", "III-8+II-2", "IV-SAN-3-8", "III-FFN-8"]


@pytest.fixture(scope="module")
def bert() -> PreTrainedModel:
    return build(BertModel, BertConfig())


def meta(name: str, head: str | None = None, layers: int = 2) -> PreTrainedModel:
    with torch.device("meta"):
        model = HEADS[head].from_config(pico_config(name, layers))
    assert isinstance(model, PreTrainedModel)
    return model


def sizes(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def shapes(found: Plan) -> dict[str, tuple[int, int, int]]:
    return {group.name: (group.n, group.i, group.o) for group in found.groups}


@pytest.mark.parametrize(
    ("method", "n", "paper"),
    [
        ("III-384", 144, 22_930_176),
        ("III-64", 144, 1_794_816),
        ("IV-72-384", 144, 12_323_712),
        ("IV-36-256", 144, 3_864_384),
        ("IV-36-128", 144, 1_898_304),
        ("IV-FFN-48-384", 96, 37_090_560),
        ("IV-SAN-24-384", 48, 61_859_712),
        ("IV-144-384", 144, 22_950_912),
        ("II-245", 144, 55_296_768),
    ],
)
def test_the_papers_parameters(bert: PreTrainedModel, method: str, n: int, paper: int) -> None:
    found = plan(bert, method)
    (group,) = found.groups
    assert (group.n, group.i, group.o) == (n, 768, 768)
    assert found.kept(PAPER) == paper
    assert found.kept(MATRICES) == paper - (86_041_344 - 84_934_656)
    assert found.kept(MODEL) == paper + 30522 * 768


def test_the_originals_counts(bert: PreTrainedModel) -> None:
    totals = plan(bert, "III-64").totals
    assert totals is not None
    assert totals.matrices == 144 * 768**2
    assert (totals.of(MATRICES), totals.of(PAPER), totals.of(MODEL)) == (84_934_656, 86_041_344, sizes(bert))
    assert totals.embedding == 30522 * 768
    assert totals.attention == 12 * 768


def test_a_ratio_is_kept_over_original(bert: PreTrainedModel) -> None:
    found = plan(bert, "III-64")
    assert found.ratio(PAPER) == 1_794_816 / 86_041_344
    assert found.ratio(MATRICES) < found.ratio(PAPER) < found.ratio(MODEL) < 1
    summary = found.summary()
    assert summary["parameters"][PAPER] == {"before": 86_041_344, "after": 1_794_816, "ratio": found.ratio(PAPER)}
    assert summary["method"] == "III-64"
    assert json.loads(json.dumps(summary)) == summary


@pytest.mark.parametrize("d", [384, 128, 64])
def test_flops_of_bert_are_what_eager_layers_do(bert: PreTrainedModel, d: int) -> None:
    """x U once a matrix: 4 U, 6 V and 12 cores in attention's four and FFN's two, of which one has four rows."""
    n, L, D = 128, 12, 768
    before, after = plan(bert, f"III-{d}").flops()
    attention = 2 * n**2 * D * L
    assert before == 2 * (12 * n * D * D * L + attention) == 22_347_251_712
    assert after == 2 * (n * L * (18 * D * d + 12 * d * d) + attention)
    banked = plan(bert, f"IV-36-{d}")
    assert banked.flops() == (before, after)
    assert banked.flops(fold=True) == (before, after + 2 * 144 * 36 * d * d)
    assert banked.flops(batch=8, length=64)[0] == 8 * 2 * 64 * L * (12 * D * D + 2 * 64 * D)


def test_flops_of_the_word_table_count_its_second_factor(bert: PreTrainedModel) -> None:
    without, within = (plan(bert, "III-64", embeddings=rank).flops() for rank in (None, 32))
    assert within[0] == without[0]
    assert within[1] - without[1] == 2 * 128 * 32 * 768


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PICO)
def test_predicted_parameters_are_those_of_the_installed_model(name: str, method: str) -> None:
    model = meta(name)
    found = plan(model, method)
    totals = found.totals
    assert totals is not None
    assert (totals.model, totals.paper) == (sizes(model), sizes(model.base_model) - totals.embedding)
    install_(model.base_model, found)
    assert found.kept(MODEL) == sizes(model) != totals.model
    assert found.kept(PAPER) == sizes(model.base_model) - totals.embedding
    assert factored_layers(model.base_model).keys() == {site.path for site in found.factored}


@pytest.mark.parametrize("group", ["all", "role", "layers:1", "layers:2", "none"])
@pytest.mark.parametrize("tile", ["square", "whole", "16x16"])
@pytest.mark.parametrize("name", ["bert", "llama_gqa", "modernbert"])
def test_predicted_parameters_hold_for_every_grouping_and_tile(name: str, group: str, tile: str) -> None:
    for method in ("II-5", "III-5", "IV-1-5", "ALBERT"):
        model = meta(name, layers=3)
        found = plan(model, method, group=group, tile=tile)
        install_(model.base_model, found)
        assert found.kept(MODEL) == sizes(model)
        for g in found.groups:
            assert [t for _, grid in g.grids() for row in grid for t in row] == list(range(g.n))
            assert g.dense == g.n * g.i * g.o


@pytest.mark.parametrize("head", ["masked_lm", "sequence_classification"])
def test_a_head_belongs_to_the_model_and_not_to_the_paper(head: str) -> None:
    model, base = meta("bert", head), meta("bert")
    found, plain = plan(model, "III-8"), plan(base, "III-8")
    assert found.groups == plain.groups
    assert found.kept(MODEL) - found.kept(PAPER) > HIDDEN * 120
    install_(model.base_model, found)
    assert found.kept(MODEL) == sizes(model)
    pooler = 0 if head == "sequence_classification" else HIDDEN * (HIDDEN + 1)
    assert found.kept(PAPER) == plain.kept(PAPER) - pooler


def counted(model: PreTrainedModel, arguments: dict[str, Tensor]) -> int:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(**arguments)
    return int(counter.get_total_flops())


# DeBERTa sends positions through the matrices as well as tokens; a plan counts tokens.
@pytest.mark.parametrize("name", sorted(set(PICO) - {"deberta_v2", "deberta_v2_split"}))
@pytest.mark.parametrize("method", ["II-6", "III-8", "IV-4-8", "IV-4-8+II-2"])
def test_predicted_savings_are_those_that_torch_counts(name: str, method: str) -> None:
    model = pico(name)
    arguments = inputs(model, batch=2, length=16)
    found = plan(model, method)
    before, after = found.flops(batch=2, length=10 if name == "vit" else 16, fold=True)
    dense = counted(model, arguments)
    install_(model.base_model, found)
    assert dense - counted(model, arguments) == before - after != 0


def test_predicted_flops_are_all_that_bert_does_but_for_its_pooler() -> None:
    model = pico("bert")
    model.set_attn_implementation("eager")  # torch does not count the fused kernel of CPUs
    model.pooler = None
    found, arguments = plan(model, "IV-4-8"), inputs(model, batch=2, length=16)
    before, after = found.flops(batch=2, length=16, fold=True)
    assert counted(model, arguments) == before
    install_(model, found)
    assert counted(model, arguments) == after < before
    assert found.flops(batch=2, length=16)[1] < after


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("all", {"all": 48}),
        ("role", {"ATTN_Q": 4, "ATTN_K": 4, "ATTN_V": 4, "ATTN_O": 4, "FFN_IN": 16, "FFN_OUT": 16}),
        ("layers:1", {"LAYERS_0": 12, "LAYERS_1": 12, "LAYERS_2": 12, "LAYERS_3": 12}),
        ("layers:2", {"LAYERS_0": 24, "LAYERS_2": 24}),
        ("layers:3", {"LAYERS_0": 36, "LAYERS_3": 12}),
        ("layers:9", {"LAYERS_0": 48}),
    ],
)
def test_groupings(group: str, expected: dict[str, int]) -> None:
    found = plan(meta("bert", layers=4), "III-8", group=group)
    assert {name: n for name, (n, _, _) in shapes(found).items()} == expected
    assert len(found.factored) == len(set(found.factored)) == 24


def test_without_a_grouping_every_matrix_is_its_own() -> None:
    found = plan(meta("bert"), "III-8", group="none")
    assert [group.sites for group in found.groups] == [(site,) for site in plan(meta("bert"), "III-8").factored]
    assert {"ENCODER_LAYER_0_ATTENTION_SELF_QUERY", "ENCODER_LAYER_1_OUTPUT_DENSE"} <= shapes(found).keys()
    assert not any("." in name for name in shapes(found)), "a module's name has no dots"


@pytest.mark.parametrize("group", ["layers", "layers:0", "layers:-1", "layers:x", "roles", ""])
def test_an_unknown_grouping_is_refused(group: str) -> None:
    with pytest.raises(PlanError, match=f'grouping must be all, role, layers:K or none, got "{group}": write for example'):
        plan(meta("bert"), "III-8", group=group)


@pytest.mark.parametrize(
    ("tile", "expected"),
    [
        ("square", {"all": (24, 32, 32)}),
        ("whole", {"all_32x32": (8, 32, 32), "all_32x128": (2, 32, 128), "all_128x32": (2, 128, 32)}),
        ("16x16", {"all": (96, 16, 16)}),
        ("32x16", {"all": (48, 32, 16)}),
    ],
)
def test_tiles(tile: str, expected: dict[str, tuple[int, int, int]]) -> None:
    assert shapes(plan(meta("bert"), "III-8", tile=tile)) == expected


def test_square_tiles_need_sides_that_are_multiples_of_the_width() -> None:
    square = plan(meta("llama_gqa"), "III-8")
    assert shapes(square) == {
        "all_32x32": (4, 32, 32),
        "all_32x16": (4, 32, 16),
        "all_32x48": (4, 32, 48),
        "all_48x32": (2, 48, 32),
    }


@pytest.mark.parametrize("tile", ["0x16", "16", "16x", "squares", "-1x16", "16x16x16"])
def test_an_unknown_tile_is_refused(tile: str) -> None:
    with pytest.raises(PlanError, match=f'a tile must be square, whole or IxO, got "{tile}": write for example 384x384'):
        plan(meta("bert"), "III-8", tile=tile)


def test_tiles_must_divide_every_matrix() -> None:
    rule = (
        r"tiles must divide every matrix that takes part, got 32x48 for encoder\.layer\.0\.attention\.self\.query \(32 x 32\)"
    )
    with pytest.raises(PlanError, match=rule + ": try square or whole"):
        plan(meta("bert"), "III-8", tile="32x48")
    assert shapes(plan(meta("bert"), "III-SAN-8", tile="8x32")) == {"all": (32, 8, 32)}


@pytest.mark.parametrize("name", PICO)
@pytest.mark.parametrize("group", ["all", "role", "layers:2"])
def test_albert_shares_a_matrix_among_the_same_roles_of_all_layers(name: str, group: str) -> None:
    for g in plan(meta(name, layers=3), "ALBERT", group=group).groups:
        assert isinstance(g.form, LayerShared)
        layers = {site.layer for site in g.sites}
        owners = [(site.role, position) for site, grid in g.grids() for position in range(sum(map(len, grid)))]
        assert len(owners) == g.n == g.form.r * len(layers)
        assert owners == owners[: g.form.r] * len(layers)
        assert len(set(owners)) == g.form.r


def test_a_number_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(PlanError, match=r"input rank of tensor_train must lie between 1 and 32 .*, got 33: choose"):
        plan(meta("bert"), "III-33")
    with pytest.raises(PlanError, match=r"bank of tucker must lie between 1 and 4 \(the 4 tiles of its group\), got 5: choose"):
        plan(meta("llama_gqa"), "IV-5-8")
    with pytest.raises(PlanError, match=r"between 1 and .*, got 0: choose"):
        plan(meta("llama_gqa"), "III-0")


def test_a_number_that_fits_somewhere_is_lowered_elsewhere_and_noted() -> None:
    found = plan(meta("llama_gqa"), "III-17")
    assert {group.name: group.form for group in found.groups} == {
        "all_32x32": TensorTrain(17, 17),
        "all_32x16": TensorTrain(17, 16),
        "all_32x48": TensorTrain(17, 17),
        "all_48x32": TensorTrain(17, 17),
    }
    note = "all_32x16 (4 tiles of 32 x 16) takes tensor_train p=17 q=16: the largest that fits it"
    assert found.notes == (note,)
    assert found.summary()["notes"] == [note]

    (banked,) = plan(meta("qwen2"), "IV-6-8").notes
    assert banked == "all_32x16 (4 tiles of 32 x 16) takes tucker l=4 p=8 q=8: the largest that fits it"
    assert plan(meta("llama_gqa"), "III-16").notes == ()


def test_a_group_that_would_not_shrink_stays_dense_and_is_noted() -> None:
    model = meta("llama_gqa")
    found = plan(model, "II-20")
    assert "all_32x16 (4 tiles of 32 x 16) stays dense: the form takes more than it saves there" in found.notes
    assert "all_32x32 (4 tiles of 32 x 32) saves nothing: 5,120 for 4,096 parameters" in found.notes
    assert "all_32x16" not in shapes(found)
    install_(model, found)
    assert sizes(model) == found.kept(MODEL)
    dense = {"layers.0.self_attn.k_proj", "layers.0.self_attn.v_proj", "layers.1.self_attn.k_proj", "layers.1.self_attn.v_proj"}
    assert {name for name, module in model.named_modules() if type(module) is torch.nn.Linear} == dense


@pytest.mark.parametrize("sites", ["attention", "ffn"])
def test_sites_can_be_chosen_in_the_name_or_beside_it(sites: str) -> None:
    name = {"attention": "III-SAN-8", "ffn": "III-FFN-8"}[sites]
    named, beside = plan(meta("bert"), name), plan(meta("bert"), "III-8", sites=sites)
    assert named.groups == beside.groups
    assert {site.role.split(".")[0] for site in named.factored} == {sites.replace("ention", "n")}
    assert plan(meta("bert"), name, sites="all").groups == plan(meta("bert"), "III-8").groups


@pytest.mark.parametrize("name", ["bert", "gpt2", "modernbert", "electra"])
def test_the_word_table_can_be_factored(name: str) -> None:
    model = meta(name)
    found, plain = plan(model, "III-8", embeddings=5), plan(model, "III-8")
    group = found.groups[-1]
    rows, width = group.i, group.o
    assert (group.name, group.n, group.form, rows) == ("embeddings", 1, LowRank(5), 120)
    assert group.parameters == 5 * (rows + width)
    assert plain.kept(MODEL) - found.kept(MODEL) == rows * width - 5 * (rows + width)
    assert found.kept(PAPER) == plain.kept(PAPER)
    assert found.groups[:-1] == plain.groups == found.matrix_groups
    install_(model, found)
    assert sizes(model) == found.kept(MODEL)


def test_a_word_table_that_a_head_reads_or_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        PlanError, match=r"a model without a language-model head, got GPT2LMHeadModel: .* leave --embeddings out"
    ):
        plan(meta("gpt2", "causal_lm"), "III-8", embeddings=5)
    with pytest.raises(PlanError, match=r"no table of word vectors to factor, got .*: leave --embeddings out"):
        plan(meta("vit"), "III-8", embeddings=5)
    with pytest.raises(PlanError, match=r"must lie between 1 and 32 .*, got 33"):
        plan(meta("bert"), "III-8", embeddings=33)


@pytest.mark.parametrize("name", PICO)
def test_a_plan_survives_json(name: str) -> None:
    for method in METHODS:
        found = plan(meta(name), method, embeddings=None if name == "vit" else 4)
        again = plan_from_dict(json.loads(json.dumps(found.to_dict())))
        assert again.groups == found.groups
        assert again.method == found.method == method
        assert again.to_dict() == found.to_dict()
    assert again.groups != plan(meta(name), "III-9").groups


@pytest.mark.parametrize("version", [0, 2, None])
def test_a_plan_of_another_version_is_refused(version: int | None) -> None:
    data = plan(meta("bert"), "III-8").to_dict() | {"version": version}
    with pytest.raises(CheckpointError, match=f"must have version 1, got {version}: use the tenfold that wrote it"):
        plan_from_dict(data)


@pytest.mark.parametrize("settings", [Compress(), Compress(method="III-8", to="1/10")])
def test_a_plan_needs_a_method_or_a_size_and_not_both(settings: Compress) -> None:
    with pytest.raises(PlanError, match="a plan needs either a method or a size, got"):
        plan_model(meta("bert"), settings)


def test_the_same_plan_comes_from_a_config_a_model_and_a_meta_model() -> None:
    models = [pico_config("bert"), pico("bert"), meta("bert")]
    assert len({plan(model, "IV-4-8").groups for model in models}) == 1
    assert len({plan(model, "IV-4-8").totals for model in models}) == 1


def test_sites_are_described_in_a_line(bert: PreTrainedModel) -> None:
    found = plan(bert, "III-64", embeddings=32)
    matrices, table = (describe_sites(group.sites) for group in found.groups)
    assert matrices == "attn.q k v o, ffn.in out x 12 layers"
    assert table == "embed"


def test_a_plan_reads_as_its_groups_sizes_and_notes() -> None:
    found = plan(pico_config("llama_gqa"), "III-24")
    lines = str(found).splitlines()
    assert lines[0] == "III-24"
    assert len(lines) == 1 + len(found.groups) + 3 + len(found.notes)
    assert all(
        f"{group.n} tiles of {group.i} x {group.o}" in line for group, line in zip(found.groups, lines[1:], strict=False)
    )
    assert f"model: {found.totals.model:,} -> {found.kept('model'):,} parameters" in str(found)  # type: ignore[union-attr]
    assert len(str(plan_from_dict(found.to_dict())).splitlines()) == 1 + len(found.groups)
