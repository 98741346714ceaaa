"""Traces against what transformers itself gives out with eager attention, for every family; wrappers, precision, errors."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import PICO, VOCABULARY, inputs, pico
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel

import tenfold
from tenfold.distillation import Trace, Tracer, Wanted, head_count, trace
from tenfold.distillation.blocks import SCORED, find_blocks
from tenfold.distillation.losses import VECTORS
from tenfold.errors import TenfoldError

LAYERS = frozenset({1, 2})
EVERYTHING = Wanted({"hidden": LAYERS | {0}} | dict.fromkeys(VECTORS, LAYERS))
SCORES = Wanted({"scores": LAYERS})
NAMES = {name: PICO[name]["model_type"].replace("-", "_") for name in PICO}
WITH_SCORES = [name for name, family in NAMES.items() if family in SCORED]
ROTARY = [name for name, family in NAMES.items() if family in ("gpt_neox", "llama", "modernbert", "qwen2")]


def eager(name: str, **kw: Any) -> PreTrainedModel:
    return pico(name, dtype=torch.float64, attn_implementation="eager", **kw)


def seen(model: PreTrainedModel, wanted: Wanted = EVERYTHING) -> Trace:
    with torch.no_grad():
        return trace(model, inputs(model), wanted)


def outputs(model: PreTrainedModel) -> Any:
    with torch.no_grad():
        return model.base_model(**inputs(model), output_hidden_states=True, output_attentions=True)


def close(actual: Tensor, expected: Tensor, mask: Tensor, atol: float = 1e-12) -> None:
    """At real tokens; in padding ModernBERT's eager attention is not a number."""
    torch.testing.assert_close(actual[mask], expected[mask], rtol=0, atol=atol)


@pytest.mark.parametrize("head", [None, "sequence_classification"])
@pytest.mark.parametrize("name", PICO)
def test_hidden_states_are_those_of_transformers_and_the_last_is_the_output(name: str, head: str | None) -> None:
    model = pico(name, "image_classification" if head and name == "vit" else head, torch.float64)
    found, expected = seen(model, Wanted({"hidden": frozenset({0, 1, -1})}, logits=head is not None)), outputs(model)
    assert list(found.hidden) == [0, 1, 2]
    for layer in (0, 1):
        close(found.hidden[layer], expected.hidden_states[layer], found.mask)
    close(found.hidden[2], expected.last_hidden_state, found.mask)
    if head:
        with torch.no_grad():
            torch.testing.assert_close(found.read("logits"), model(**inputs(model)).logits)
    assert found.read("embedding") is found.hidden[0] and found.read("last_hidden") is found.read("hidden", -1)


@pytest.mark.parametrize("name", WITH_SCORES)
def test_the_softmax_of_scores_is_the_attention(name: str) -> None:
    model = eager(name)
    found, expected = seen(model, SCORES), outputs(model).attentions
    for layer in LAYERS:
        check_attention(found, found.scores[layer], expected[layer - 1])


def check_attention(found: Trace, scores: Tensor, expected: Tensor, pairs: Tensor | None = None) -> None:
    """Some families take their softmax in float32."""
    kept = (found.pairs if pairs is None else pairs)[:, None]
    probabilities = scores.masked_fill(~kept, torch.finfo(scores.dtype).min).softmax(-1)
    close(probabilities.transpose(1, 2), expected.transpose(1, 2), found.mask, atol=1e-6)


@pytest.mark.parametrize("switches", [{"scale_attn_weights": False}, {"scale_attn_by_inverse_layer_idx": True}])
def test_gpt2_may_scale_in_other_ways(switches: dict[str, bool]) -> None:
    model = eager("gpt2", **switches)
    found, expected = seen(model, SCORES), outputs(model).attentions
    for layer in LAYERS:
        check_attention(found, found.scores[layer], expected[layer - 1])


@pytest.mark.parametrize("name", ROTARY)
def test_rotated_queries_and_keys_give_the_attention(name: str) -> None:
    """So fused matrices are split right, and grouped heads belong together."""
    model = eager(name)
    kept: list[Any] = []
    for block in find_blocks(model).modules:
        block.register_forward_pre_hook(lambda _m, _a, kw: kept.append(kw["position_embeddings"]), with_kwargs=True)
    found, expected = seen(model), outputs(model).attentions
    for layer in LAYERS:
        rotate = sys.modules[type(model).__module__].apply_rotary_pos_emb
        queries, keys = rotate(found.queries[layer], found.keys[layer], *kept[layer - 1])
        keys = keys.repeat_interleave(queries.shape[1] // keys.shape[1], 1)
        pairs, window = found.pairs, getattr(model.config, "sliding_window", None)
        if name == "modernbert" and layer == 2:
            assert window == 2
            distance = torch.arange(pairs.shape[1])[:, None] - torch.arange(pairs.shape[1])
            pairs = pairs & (distance.abs() <= window)
        check_attention(found, queries @ keys.transpose(-1, -2) * queries.shape[-1] ** -0.5, expected[layer - 1], pairs)


@pytest.mark.parametrize("name", PICO)
def test_attention_times_values_is_what_the_output_matrix_reads(name: str) -> None:
    model = eager(name)
    kept: list[Tensor] = []
    blocks = find_blocks(model)
    for layer in LAYERS:
        blocks.required(layer, "attn.o").register_forward_pre_hook(lambda _m, args: kept.append(args[0]))
    found, expected = seen(model), outputs(model).attentions
    for layer in LAYERS:
        values = found.values[layer].repeat_interleave(head_count(model) // found.values[layer].shape[1], 1)
        read = expected[layer - 1].double().nan_to_num() @ values.nan_to_num()
        close(read.transpose(1, 2).flatten(2), kept[layer - 1], found.mask, atol=1e-6)


@pytest.mark.parametrize("name", ["deberta_v2", "deberta_v2_split"])
def test_deberta_gives_the_queries_of_tokens_not_of_positions(name: str) -> None:
    model = eager(name)
    found = seen(model)
    for layer, block in enumerate(model.encoder.layer, 1):
        for what, matrix in zip(VECTORS, ("query_proj", "key_proj", "value_proj"), strict=True):
            expected = getattr(block.attention.self, matrix)(found.hidden[layer - 1])
            close(found.read(what, layer).transpose(1, 2).flatten(2), expected, found.mask)


@pytest.mark.parametrize("name", PICO)
def test_a_factored_model_gives_what_the_dense_one_with_its_matrices_gives(name: str) -> None:
    model = pico(name, dtype=torch.float64)
    tenfold.compress_(model, tenfold.plan(model, "II-12"), init="hosvd")
    wanted = Wanted(EVERYTHING.layers | (SCORES.layers if name in WITH_SCORES else {}))
    factored, original = seen(model, wanted), seen(pico(name, dtype=torch.float64))
    dense = seen(tenfold.to_dense(model), wanted)
    for what, layers in wanted.layers.items():
        for layer in layers:
            close(factored.read(what, layer).movedim(-2, 1), dense.read(what, layer).movedim(-2, 1), factored.mask)
    assert (factored.hidden[2] - original.hidden[2])[factored.mask].abs().max() > 1e-2


def test_fused_attention_stays_and_no_hook_is_left() -> None:
    model = pico("bert", "sequence_classification")
    before = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    asked: list[Any] = []
    handle = model.bert.register_forward_pre_hook(lambda _m, _a, kw: asked.append(kw), with_kwargs=True)
    seen(model, Wanted(EVERYTHING.layers | SCORES.layers, logits=True))
    handle.remove()
    assert not any(asked[0].get(f"output_{what}") for what in ("attentions", "hidden_states"))
    assert model.config._attn_implementation == "sdpa"
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()) == before


def test_the_head_runs_only_for_logits_and_labels_are_kept_from_it() -> None:
    model = pico("bert", "sequence_classification", num_labels=3)
    batch = inputs(model) | {"labels": torch.tensor([0, 7, 1])}
    ran: list[int] = []
    model.classifier.register_forward_hook(lambda *_: ran.append(1))
    trace(model, batch, EVERYTHING)
    assert not ran
    found = trace(model, batch, Wanted({}, logits=True))
    assert ran and found.read("labels") is batch["labels"] and found.read("logits").shape == (3, 3)


def test_opt_with_a_head_that_calls_its_decoder() -> None:
    model = pico("opt", "causal_lm", torch.float64)
    found, expected = seen(model, Wanted({"hidden": LAYERS}, logits=True)), outputs(model)
    close(found.hidden[2], expected.last_hidden_state, found.mask)
    assert found.read("logits").shape == (*found.mask.shape, VOCABULARY)


def gradients(model: PreTrainedModel, traced: Trace) -> dict[str, Tensor]:
    terms = [*traced.hidden.values(), *traced.queries.values(), *traced.values.values(), *traced.scores.values()]
    torch.stack([(x.square() * x.sin()).sum() for x in terms]).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


NEW = "activation_checkpointing_enable"
"""What transformers 5.17 calls gradient_checkpointing_enable."""
NO_DROPOUT: dict[str, dict[str, Any]] = {
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "opt": {"dropout": 0.0, "attention_dropout": 0.0, "use_cache": False},
}


@pytest.mark.parametrize("name", NO_DROPOUT)
def test_gradient_checkpointing_gives_the_same_gradients(name: str) -> None:
    found = []
    for checkpointed in (False, True):
        model = pico(name, dtype=torch.float64, **NO_DROPOUT[name]).train()
        if checkpointed:
            getattr(model, NEW if hasattr(model, NEW) else "gradient_checkpointing_enable")()
        with Tracer(model, Wanted(EVERYTHING.layers | SCORES.layers)) as tracer:
            found.append(gradients(model, tracer(inputs(model))))
            assert not tracer._seen
    assert found[0].keys() == found[1].keys()
    for key, value in found[0].items():
        torch.testing.assert_close(found[1][key], value)


def same(found: Trace, expected: Trace) -> None:
    for what in ("hidden", *VECTORS, "scores"):
        for layer, tensor in getattr(expected, what).items():
            torch.testing.assert_close(found.read(what, layer), tensor)


def test_a_compiled_model_is_traced_each_time_by_hooks_put_on_before() -> None:
    model = pico("bert", dtype=torch.float64)
    wanted = Wanted(EVERYTHING.layers | SCORES.layers)
    expected = [trace(model, inputs(model, seed=seed), wanted) for seed in (0, 1)]
    with Tracer(model, wanted) as tracer:
        compiled = torch.compile(model, backend="eager")
        for seed in (0, 1):
            same(tracer(inputs(model, seed=seed), through=compiled), expected[seed])


def test_a_model_in_ddp_is_traced_through_it(tmp_path: Path) -> None:
    model = pico("bert", "sequence_classification", torch.float64)
    wanted = Wanted(EVERYTHING.layers, logits=True)
    expected = gradients(model, trace(model, inputs(model), wanted))
    model.zero_grad()
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(model, find_unused_parameters=True)
        assert head_count(wrapped) == 4
        found = gradients(model, trace(wrapped, inputs(model), wanted))
    finally:
        torch.distributed.destroy_process_group()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value)


def test_under_autocast_scores_are_float32() -> None:
    model = pico("mpnet")
    exact = seen(model, SCORES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = seen(model, Wanted(EVERYTHING.layers | SCORES.layers))
    assert found.queries[1].dtype == torch.bfloat16 and found.scores[1].dtype == torch.float32
    torch.testing.assert_close(found.scores[1], exact.scores[1], rtol=0.1, atol=0.1)


def test_what_losses_read() -> None:
    wanted = Wanted.of({"hidden": [1, 2], "relations": [-1], "scores": [2], "embedding": [], "sentence": [], "soft_labels": []})
    assert wanted.layers == {"hidden": {0, 1, 2, -1}, "scores": {2}} | {what: {-1} for what in VECTORS}
    assert wanted.logits
    assert not Wanted.of({"hidden": [1]}).logits
    assert Wanted.of({"hard_labels": []}) == Wanted({}, logits=True)
    with pytest.raises(TenfoldError, match='got "hiden": did you mean "hidden"'):
        Wanted.of({"hiden": [1]})
