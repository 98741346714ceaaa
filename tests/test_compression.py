"""Every form on every family: exact at full rank, other outputs at low rank, the counts of the plan, the starts' order."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import CORPUS, PICO, VOCABULARY, inputs, pico, tokenizer
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForSeq2SeqLM, BartConfig, PreTrainedModel, T5Config

import tenfold
from tenfold.calibration import batches_of
from tenfold.compression import compress_
from tenfold.errors import PlanError
from tenfold.forms import macs
from tenfold.modules import factored_layers, site_matrix
from tenfold.planning import Plan
from tenfold.recipe import INITS

LOW = ["II-4", "II-alpha-4", "III-8", "III-8x6", "IV-2-8", "ALBERT", "III-8+II-2", "IV-2-8+II-2", "ALBERT+II-2"]
# Tiles of 16 x 16 divide every matrix of every family, so that one group holds them all; {n} is how many there are.
FULL = ["II-16", "II-alpha-16", "III-16", "IV-{n}-16", "III-16+II-16", "IV-4-8+II-16", "ALBERT+II-16"]
T5 = T5Config(
    vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_heads=4, num_layers=2, num_decoder_layers=3, pad_token_id=0,
    decoder_start_token_id=0,
)  # fmt: skip
BART = BartConfig(
    vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, pad_token_id=0, bos_token_id=2, eos_token_id=3,
    decoder_start_token_id=3, forced_eos_token_id=3,
)  # fmt: skip
OUTSIDE = ("pooler.dense", "embeddings_project", "patch_embeddings.projection", "rotary_emb")
"""What costs FLOPs and is neither a site nor attention."""


def output(model: PreTrainedModel, arguments: dict[str, Tensor], whole: bool = False) -> Tensor:
    """The hidden states of real tokens, or the whole output."""
    with torch.no_grad():
        found = model(**arguments)[0]
    assert isinstance(found, Tensor)
    mask = arguments.get("attention_mask")
    return found if mask is None or whole else found[mask.bool()]


def distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


def compressed(model: PreTrainedModel, method: str, init: str = "hosvd", **settings: Any) -> tuple[PreTrainedModel, Plan]:
    plan = tenfold.plan(model, method, **settings)
    compress_(model, plan, init=init)
    return model, plan


def parameters(model: PreTrainedModel) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("method", FULL)
@pytest.mark.parametrize("name", PICO)
def test_full_rank_gives_the_original_outputs(name: str, method: str) -> None:
    model = pico(name, dtype=torch.float64)
    arguments, n = inputs(model), tenfold.plan(model, "II-1", tile="16x16").groups[0].n
    before = output(model, arguments)
    compressed(model, method.format(n=n), tile="16x16")
    assert distance(output(model, arguments), before) < 1e-10


@pytest.mark.parametrize("name", PICO)
def test_a_matrix_for_each_role_is_exact_in_a_group_of_one_layer(name: str) -> None:
    model = pico(name, dtype=torch.float64)
    arguments = inputs(model)
    before = output(model, arguments)
    _, plan = compressed(model, "ALBERT", group="layers:1")
    assert len({site.layer for site in plan.factored}) == 2
    assert distance(output(model, arguments), before) < 1e-10


@pytest.mark.parametrize("method", LOW)
@pytest.mark.parametrize("name", PICO)
def test_low_rank_differs_and_has_the_parameters_of_the_plan(name: str, method: str) -> None:
    model = pico(name)
    arguments, dense = inputs(model), parameters(model)
    before = output(model, arguments)
    _, plan = compressed(model, method)
    assert distance(output(model, arguments), before) > 1e-3
    assert plan.totals is not None
    assert plan.totals.model == dense
    assert parameters(model) == plan.kept("model") < dense
    table = model.get_input_embeddings().weight.numel() if name != "vit" else 0
    assert parameters(model) - table == plan.kept("paper")
    inside = sum(bank.numel() for bank in model.factor_banks.parameters())
    left = sum(m.weight.numel() for name, m in model.named_modules() if type(m) is torch.nn.Linear and is_inside(name, plan))
    assert inside + left == plan.kept("matrices")


def is_inside(name: str, plan: Plan) -> bool:
    """In a block: a group that its form would not make smaller stays dense, and counts as kept."""
    return name.startswith(plan.factored[0].path.split(".0.")[0] + ".")


@pytest.mark.parametrize("method", LOW)
@pytest.mark.parametrize("name", sorted(set(PICO) - {"deberta_v2", "deberta_v2_split"}))
def test_flops_are_those_of_the_plan_and_of_torch(name: str, method: str) -> None:
    """All tokens real, attention written out: fused kernels and skipped padding are counted otherwise."""
    model = pico(name, attn_implementation="eager")
    batch, length = (3, 9) if name != "vit" else (3, 10)  # nine patches and the class
    plan = tenfold.plan(model, method)
    for index, network in enumerate((model, compressed(copy.deepcopy(model), method)[0])):
        total, by_module = flops(network)
        outside = sum(count for module, count in by_module.items() if module.endswith(OUTSIDE))
        assert total - outside == plan.flops(batch, length, fold=True)[index]


@pytest.mark.parametrize("method", LOW)
@pytest.mark.parametrize("name", ["deberta_v2", "deberta_v2_split"])
def test_flops_of_deberta_s_sites_are_those_of_torch(name: str, method: str) -> None:
    """Site by site, because the plan's total is for tokens: DeBERTa also sends the relative positions through Q and K (or
    through matrices for positions), once a layer whatever the batch, and takes two more products of them a score."""
    model, plan = compressed(pico(name, attn_implementation="eager"), method)
    rows: dict[str, int] = {}
    for path, layer in factored_layers(model).items():
        layer.register_forward_pre_hook(lambda _, x, path=path: rows.update({path: rows.get(path, 0) + x[0][..., 0].numel()}))
    _, by_module = flops(model)
    for group in plan.matrix_groups:
        for site in group.sites:
            cost = macs(group.form, group.n, group.i, group.o, *group.grid_shape(site))
            assert by_module[f"DebertaV2Model.{site.path}"] == 2 * rows[site.path] * cost


def flops(model: PreTrainedModel) -> tuple[int, dict[str, int]]:
    """Of a batch without padding: the total, and by module."""
    arguments = inputs(model)
    if "attention_mask" in arguments:
        arguments = {"input_ids": arguments["input_ids"].clamp_min(5), "attention_mask": torch.ones(3, 9, dtype=torch.long)}
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**arguments)
    return counter.get_total_flops(), {module: sum(c.values()) for module, c in counter.get_flop_counts().items()}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bert", {"group": "role"}),
        ("bert", {"group": "none"}),
        ("bert", {"group": "layers:1"}),
        ("bert", {"tile": "whole"}),
        ("bert", {"tile": "32x16"}),
        ("bert", {"sites": "ffn"}),
        ("bert", {"sites": "attention"}),
        ("bert", {"family": "auto"}),
        ("bert", {"embeddings": 4}),
        ("distilbert", {"embeddings": 4}),
        ("gpt2", {"tile": "32x32", "embeddings": 8}),
        ("llama_gqa", {"group": "role"}),
        ("modernbert", {"tile": "16x32"}),
    ],
)
def test_every_way_to_group_has_the_counts_of_the_plan(name: str, settings: dict[str, Any]) -> None:
    model = pico(name, attn_implementation="eager")
    arguments = inputs(model) | ({} if name != "modernbert" else {"attention_mask": torch.ones(3, 9, dtype=torch.long)})
    before = output(model, arguments)
    _, plan = compressed(model, "II-4", **settings)
    assert distance(output(model, arguments), before) > 1e-3
    assert parameters(model) == plan.kept("model")
    total, by_module = flops(model)
    assert total - sum(n for module, n in by_module.items() if module.endswith(OUTSIDE)) == plan.flops(3, 9, fold=True)[1]


def test_only_the_planned_weights_change() -> None:
    model = pico("bert", "sequence_classification").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    kept = dict(model.named_parameters())
    _, plan = compressed(model, "III-8", sites="ffn")
    gone = {f"bert.{site.path}.weight" for site in plan.factored}
    assert len(gone) == 4
    after = model.state_dict()
    assert before.keys() - after.keys() == gone
    assert after.keys() - before.keys() == {f"bert.factor_banks.all.{factor}" for factor in ("U", "core", "V")}
    for name in before.keys() & after.keys():
        assert torch.equal(after[name], before[name]), name
        assert model.get_parameter(name) is kept[name]
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_layer_gives_the_matrix_that_it_stands_for() -> None:
    """Code that looks at `weight` finds what a Linear would hold."""
    for name in ("bert", "gpt2"):
        model = pico(name, dtype=torch.float64)
        n = tenfold.plan(model, "II-1").groups[0].n
        weights = {site.path: site_matrix(model, site) for site in tenfold.plan(model, "II-1").factored}
        compressed(model, f"IV-{n}-32")
        for path, layer in factored_layers(model).items():
            torch.testing.assert_close(layer.matrix(), weights[path], rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(layer.weight, weights[path].T, rtol=1e-10, atol=1e-10)


def test_a_model_in_half_precision_is_compressed_in_full_and_stored_in_half() -> None:
    exact, half = pico("bert"), pico("bert", dtype=torch.bfloat16)
    for model in (exact, half):
        compressed(model, "III-8")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    for name, layer in factored_layers(exact).items():
        assert distance(factored_layers(half)[name].matrix().detach().float(), layer.matrix().detach()) < 0.03


# Starts


def batches() -> list[Any]:
    return batches_of(tokenizer(), CORPUS, tokens=1024, length=32)


def test_random_factors_follow_the_seed_and_the_size_of_the_weights() -> None:
    def drawn(seed: int, method: str = "IV-4-8") -> dict[str, Tensor]:
        model = pico("bert")
        compress_(model, tenfold.plan(model, method), init="random", seed=seed)
        return model.state_dict()

    state = torch.get_rng_state()
    first = drawn(0)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, drawn(0)[name]) for name, value in first.items())
    assert all(not torch.equal(value, drawn(1)[name]) for name, value in first.items() if "factor_banks" in name)
    for method in LOW:
        model = pico("bert")
        weights = {site.path: site_matrix(model, site) for site in tenfold.plan(model, "II-1").factored}
        compress_(model, tenfold.plan(model, method), init="random")
        ratios = [layer.matrix().std() / weights[path].std() for path, layer in factored_layers(model).items()]
        assert 0.7 < torch.stack(ratios).mean() < 1.4, method


@pytest.mark.parametrize("method", LOW)
def test_each_start_is_better_than_the_one_before(method: str) -> None:
    """In weights: hosvd beats random, hooi hosvd. In outputs: activation beats hooi. The report says so."""
    model = pico("bert", dtype=torch.float64)
    plan = tenfold.plan(model, method)
    seen = tenfold.calibrate(model, plan, batches())
    fits = {}
    for init in INITS[1:]:
        network = copy.deepcopy(model)
        [fits[init]] = compress_(network, plan, init=init, calibration=seen).fits
        assert fits[init].init == init
        lost = total = 0.0
        for site in plan.factored:
            w = site_matrix(model, site)
            error = float((factored_layers(network)[site.path].matrix().detach() - w).square().sum())
            assert fits[init].sites[site.path][0] == pytest.approx(error / float(w.square().sum()), rel=1e-6)
            lost += error
            total += float(w.square().sum())
        assert fits[init].weight_error == pytest.approx(lost / total, rel=1e-6)
    outputs = {init: fit.output_error or 0.0 for init, fit in fits.items()}
    assert fits["hooi"].weight_error <= fits["hosvd"].weight_error * (1 + 1e-9) < fits["random"].weight_error
    assert 0 < outputs["activation"] < outputs["hooi"]
    assert outputs["activation"] < outputs["hosvd"]


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert", "opt"])
def test_an_activation_start_keeps_more_of_the_hidden_states(name: str) -> None:
    model, text = pico(name), batches()
    plan = tenfold.plan(model, "II-8")
    errors = {}
    for init in ("hosvd", "activation"):
        network = copy.deepcopy(model)
        compress_(network, plan, init=init, batches=text)
        errors[init] = hidden_error(network, model, text)
    assert errors["activation"] < errors["hosvd"]


@pytest.mark.parametrize("config", [T5, BART], ids=["t5", "bart"])
def test_an_encoder_with_a_decoder_goes_the_whole_way(config: Any, tmp_path: Path) -> None:
    """--family auto: no file names them. Both stacks are compressed, seen on text, saved once and loaded again."""
    torch.manual_seed(0)
    model = AutoModelForSeq2SeqLM.from_config(config).eval()
    arguments = inputs(pico("bert")) | {"decoder_input_ids": torch.arange(5, 8).repeat(3, 1)}
    before, network, plan = (
        output(model, arguments, whole=True),
        copy.deepcopy(model),
        tenfold.plan(model, "III-8", family="auto"),
    )
    compress_(network, plan, batches=batches())
    assert {path.split(".")[0] for path in factored_layers(network.base_model)} == {"encoder", "decoder"}
    assert parameters(network) == plan.kept("model")
    after = output(network, arguments, whole=True)
    assert distance(after, before) > 1e-3
    network.save_pretrained(tmp_path)
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    assert torch.equal(output(loaded, arguments, whole=True), after)
    torch.testing.assert_close(output(tenfold.to_dense(loaded), arguments, whole=True), after, rtol=1e-4, atol=1e-5)
    exact = copy.deepcopy(model).double()
    compress_(exact, tenfold.plan(exact, "II-32", family="auto"), batches=batches())
    torch.testing.assert_close(output(exact, arguments, whole=True).float(), before, rtol=1e-3, atol=1e-4)


def hidden_error(network: PreTrainedModel, model: PreTrainedModel, text: list[Any]) -> float:
    pairs = [(output(network, batch), output(model, batch)) for batch in text]
    return float(sum((a - b).square().sum() for a, b in pairs) / sum(b.square().sum() for _, b in pairs))


def test_auto_takes_activations_where_there_is_text() -> None:
    model = pico("bert")
    plan = tenfold.plan(model, "III-8")
    assert {fit.init for fit in compress_(copy.deepcopy(model), plan).fits} == {"hosvd"}
    assert {fit.init for fit in compress_(model, plan, batches=batches()).fits} == {"activation"}


def test_calibration_once_serves_many_plans() -> None:
    model, text = pico("bert", dtype=torch.float64), batches()
    seen = tenfold.calibrate(model, tenfold.plan(model, "II-4"), text)
    for method in ("II-8", "III-8"):
        one, other = copy.deepcopy(model), copy.deepcopy(model)
        compress_(one, tenfold.plan(model, method), calibration=seen)
        compress_(other, tenfold.plan(model, method), batches=text)
        assert all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


def test_mean_outputs_on_the_text_are_kept_exactly() -> None:
    """The inputs are those of the dense model, so each layer is fed the same: its bias takes up the mean of the error."""
    model, text = pico("bert", dtype=torch.float64), batches()
    network, plan = copy.deepcopy(model), tenfold.plan(model, "III-8")
    compress_(network, plan, init="activation", batches=text)
    seen = site_inputs(model, plan, text)
    for site in plan.factored:
        dense, factored = model.get_submodule(site.path), network.get_submodule(site.path)
        with torch.no_grad():
            torch.testing.assert_close(
                factored(seen[site.path]).mean(0), dense(seen[site.path]).mean(0), rtol=1e-11, atol=1e-11
            )
            assert distance(factored(seen[site.path]), dense(seen[site.path])) > 0.01


def site_inputs(model: PreTrainedModel, plan: Plan, text: list[Any]) -> dict[str, Tensor]:
    seen: dict[str, list[Tensor]] = {site.path: [] for site in plan.factored}
    handles = [
        model.get_submodule(path).register_forward_pre_hook(lambda _, x, rows=rows: rows.append(x[0].flatten(0, 1)))
        for path, rows in seen.items()
    ]
    for batch in text:
        output(model, batch)
    for handle in handles:
        handle.remove()
    return {path: torch.cat(rows) for path, rows in seen.items()}


@pytest.mark.parametrize("method", ["II-8", "II-alpha-8", "III-8", "IV-4-8", "III-8+II-2", "ALBERT"])
def test_recollecting_fits_what_a_tile_owns_to_what_it_reads_now(method: str) -> None:
    """Seen on Q, K and V of the last layer: what they read is not changed by fitting themselves. A tile of ALBERT owns nothing.

    That the hidden states come closer too is common, not certain: the error of the inputs is no part of the fit.
    """
    model, text = pico("bert", dtype=torch.float64), batches()
    plan = tenfold.plan(model, method)
    first, again = copy.deepcopy(model), copy.deepcopy(model)
    compress_(first, plan, init="activation", batches=text)
    compress_(again, plan, init="activation", batches=text, recollect=True)
    sites = [site for site in plan.factored if site.layer == 1 and site.role in ("attn.q", "attn.k", "attn.v")]
    assert len(sites) == 3
    reads = site_inputs(again, plan, text)
    for site in sites:
        x, dense = reads[site.path], model.get_submodule(site.path)
        one, other = first.get_submodule(site.path), again.get_submodule(site.path)
        with torch.no_grad():
            torch.testing.assert_close(other(x).mean(0), dense(x).mean(0), rtol=1e-11, atol=1e-11)
            lost = [(m(x) - dense(x) - (m(x) - dense(x)).mean(0)).square().sum() for m in (one, other)]
            assert torch.equal(other.matrix(), one.matrix()) == (method == "ALBERT")
        # A thousandth: inputs that the text never showed are given a small weight.
        assert lost[1] <= lost[0] * 1.001


@pytest.mark.parametrize("method", LOW)
def test_recollecting_works_in_half_precision(method: str) -> None:
    exact, half = pico("bert"), pico("bert", dtype=torch.bfloat16)
    for model in (exact, half):
        compress_(model, tenfold.plan(model, method), batches=batches()[:1], recollect=True)
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    for name, layer in factored_layers(exact).items():
        assert distance(factored_layers(half)[name].matrix().detach().float(), layer.matrix().detach()) < 0.3


def test_recollecting_private_factors_keeps_more_of_the_hidden_states_than_weights_alone() -> None:
    model, text = pico("bert", dtype=torch.float64), batches()
    plan = tenfold.plan(model, "II-8")
    networks = [copy.deepcopy(model) for _ in range(2)]
    for network, recollect in zip(networks, (False, True), strict=True):
        compress_(network, plan, init="hosvd", batches=text, recollect=recollect)
    before, after = (network.factor_banks.all.A for network in networks)
    assert (before - after).abs().amax((1, 2)).min() > 1e-3, "every tile is fitted again"
    assert hidden_error(networks[1], model, text) < hidden_error(networks[0], model, text)


# Refusals


def test_a_model_is_compressed_once() -> None:
    model, plan = compressed(pico("bert"), "III-8")
    with pytest.raises(PlanError, match=r"compressed once.*dense export"):
        compress_(model, plan)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_weight_that_is_not_finite_is_named(value: float) -> None:
    model = pico("bert")
    with torch.no_grad():
        model.encoder.layer[1].output.dense.weight[3, 4] = value
    before = set(model.state_dict())
    with pytest.raises(PlanError, match=r"finite.*encoder\.layer\.1\.output\.dense"):
        compressed(model, "III-8")
    assert set(model.state_dict()) == before


def test_what_needs_text_says_so_before_anything_changes() -> None:
    model = pico("bert")
    before, plan = set(model.state_dict()), tenfold.plan(model, "III-8")
    with pytest.raises(PlanError, match=r"activation needs text.*--text FILE"):
        compress_(model, plan, init="activation")
    with pytest.raises(PlanError, match=r"recollect needs text.*--text FILE"):
        compress_(model, plan, recollect=True)
    with pytest.raises(PlanError, match='one of auto, random, hosvd, hooi, activation, got "svd"'):
        compress_(model, plan, init="svd")
    assert set(model.state_dict()) == before
