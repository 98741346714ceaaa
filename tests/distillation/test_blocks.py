"""Blocks of families with and without a data file, and what is refused: layers, scores, heads, wrappers."""

import pytest
import torch
from pico import PICO, inputs, pico
from torch import nn
from transformers import PreTrainedModel

from tenfold.distillation import Trace, Tracer, Wanted, head_count, trace
from tenfold.distillation.blocks import SCORED, find_blocks, head_size
from tenfold.distillation.losses import VECTORS
from tenfold.errors import PlanError, TenfoldError

VECTORS_OF_ONE = Wanted(dict.fromkeys(VECTORS, frozenset({1})))
SCORES = Wanted({"scores": frozenset({1})})
HIDDEN = Wanted({"hidden": frozenset({0, 1, 2})})


def seen(model: PreTrainedModel, wanted: Wanted, family: str | None = None) -> Trace:
    with torch.no_grad():
        return trace(model, inputs(model), wanted, family)


def test_no_mask_is_all_real_and_one_of_another_shape_is_refused() -> None:
    model = pico("bert")
    batch = inputs(model)
    assert trace(model, {"input_ids": batch["input_ids"]}, Wanted({})).mask.all()
    with pytest.raises(TenfoldError, match=r"tokens \(3, 9\) are real, got \(3, 1, 1, 9\)"):
        trace(model, batch | {"attention_mask": batch["attention_mask"][:, None, None] > 0}, Wanted({}))


def test_layers_that_are_not_there_are_refused() -> None:
    model = pico("bert")
    with pytest.raises(TenfoldError, match=r"hidden can be had of layers 0 to 2 of this model, got \[3\]"):
        seen(model, Wanted({"hidden": frozenset({1, 3})}))
    with pytest.raises(TenfoldError, match=r"queries can be had of layers 1 to 2 of this model, got \[0\]"):
        seen(model, Wanted({"queries": frozenset({0})}))
    with pytest.raises(TenfoldError, match="no hidden of layer 2: it was not wanted"):
        seen(model, Wanted({"hidden": frozenset({1})})).read("hidden")
    with pytest.raises(TenfoldError, match="no labels: the batch had none"):
        seen(model, Wanted({})).read("labels")


@pytest.mark.parametrize("name", [name for name in PICO if find_blocks(pico(name)).family.name not in SCORED])
def test_scores_that_positions_enter_otherwise_are_refused(name: str) -> None:
    with pytest.raises(TenfoldError, match='take "relations" or "vectors"'):
        seen(pico(name), SCORES)


def test_a_family_without_a_file_has_hidden_states_only() -> None:
    model = pico("bert", dtype=torch.float64)
    found, expected = seen(model, HIDDEN, "auto"), seen(model, HIDDEN)
    for layer in (0, 1, 2):
        torch.testing.assert_close(found.hidden[layer], expected.hidden[layer])
    with pytest.raises(TenfoldError, match=r'knows attn\.q, got "auto".*hidden states or logits'):
        seen(model, VECTORS_OF_ONE, "auto")
    with pytest.raises(PlanError, match='got "brt": did you mean "bert"'):
        seen(model, HIDDEN, "brt")
    with pytest.raises(PlanError, match=r'"gpt2" expects blocks at h, got none there'):
        seen(model, HIDDEN, "gpt2")


def test_models_without_logits_and_wrappers_without_processes_are_refused() -> None:
    with pytest.raises(TenfoldError, match="logits need a model with a head, got BertModel"):
        seen(pico("bert"), Wanted({}, logits=True))
    with pytest.raises(TenfoldError, match="BertForQuestionAnswering gives no logits"):
        seen(pico("bert", "question_answering"), Wanted({}, logits=True))
    with pytest.raises(TenfoldError, match=r"DataParallel.*torchrun"):
        head_count(nn.DataParallel(pico("bert")))
    with pytest.raises(TenfoldError, match="got Linear"):
        head_count(nn.Linear(2, 2))


def test_hooks_that_do_not_run_are_noticed() -> None:
    model = pico("bert")
    for kept, message in ((0, "stack 0"), (-2, "hidden 0")):
        tracer = Tracer(model, HIDDEN)
        for handle in tracer._handles[:kept] or tracer._handles:
            handle.remove()
        with pytest.raises(TenfoldError, match=f"got none for {message}: make the Tracer before torch.compile"):
            tracer(inputs(model))
        tracer.remove()


def test_heads() -> None:
    for name in PICO:
        assert (head_count(pico(name)), head_size(pico(name))) == (4, 8)
    assert head_size(pico("llama", head_dim=16)) == 16
    queries = seen(pico("llama", head_dim=16, num_key_value_heads=2), VECTORS_OF_ONE)
    assert queries.queries[1].shape == (3, 4, 9, 16) and queries.keys[1].shape == (3, 2, 9, 16)


@pytest.mark.parametrize("name", PICO)
def test_attention_is_causal_where_the_model_is(name: str) -> None:
    causal = PICO[name]["model_type"] in ("gpt2", "gpt_neox", "llama", "opt", "qwen2")
    assert find_blocks(pico(name)).causal is causal
    assert find_blocks(pico(name), "auto").causal is False
