"""Counts by hand, and predictions that equal what torch counts, for every form and family."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import HIDDEN, PICO, pico
from transformers import PreTrainedModel

import tenfold
from tenfold.checkpoints import find
from tenfold.measurement.counting import anatomy, counts, flops, parameters
from tenfold.measurement.paths import EAGER, Subject, prepare
from tenfold.measurement.record import COMPRESSED, ORIGINAL, Flops
from tenfold.measurement.shapes import full, pictures
from tenfold.planning import MATRICES, MODEL, PAPER
from tenfold.runtime import optimize_

METHODS = ["II-6", "II-alpha-6", "III-8", "III-8x6", "IV-4-8", "ALBERT", "III-8+II-2", "IV-SAN-3-8", "III-FFN-8"]
FAMILIES = sorted(set(PICO) - {"deberta_v2", "deberta_v2_split"})


def compressed(model: PreTrainedModel, method: str, **settings: Any) -> PreTrainedModel:
    found = copy.deepcopy(model)
    tenfold.compress_(found, tenfold.plan(found, method, **settings), init="random")
    return found.requires_grad_(False)


def counted(model: Any, length: int = 8) -> Flops:
    shape = pictures([model], 1) if model.main_input_name == "pixel_values" else full([model], 1, length)
    subject = Subject(COMPRESSED, None, model.requires_grad_(False), True, Path())  # type: ignore[arg-type]
    return flops(COMPRESSED, EAGER, prepare(EAGER, subject, shape), anatomy(model), shape)


def test_a_tiny_bert_by_hand() -> None:
    """Two layers of 12 matrices of 32 x 32; a token costs each of them once and every pair of tokens 32 twice a layer."""
    model = pico("bert")
    matrices = 2 * 12 * HIDDEN**2
    assert parameters(model, anatomy(model)) == {MATRICES: matrices, PAPER: 28_640, MODEL: 28_640 + 120 * HIDDEN}
    found, n = counted(model), 8
    assert found == Flops(COMPRESSED, EAGER, n, found.predicted, found.counted, rest=2 * HIDDEN**2)
    assert found.predicted == 2 * (n * matrices + 2 * 2 * n * n * HIDDEN) == found.counted - found.rest


def test_a_tiny_tucker_by_hand() -> None:
    """24 tiles, a bank of 4: x U once a matrix (3 + 1 + 1 + 4), the cores 12 times, then V (3 + 1 + 4 + 1), a layer."""
    model = compressed(pico("bert"), "IV-4-8")
    factors = 4 * 8 * 8 + 24 * 4 + 2 * HIDDEN * 8
    known = anatomy(model)
    assert parameters(model, known) == {MATRICES: factors, PAPER: 28_640 - 24_576 + factors, MODEL: 32_480 - 24_576 + factors}
    n, mixing = 8, 24 * 4 * 8 * 8
    found = counted(model)
    assert found.predicted == 2 * (2 * n * (18 * HIDDEN * 8 + 12 * 8 * 8) + 2 * 2 * n * n * HIDDEN + mixing)
    assert found.agrees


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FAMILIES)
def test_predictions_are_what_torch_counts(name: str, method: str) -> None:
    """Whatever attention runs on: most the fused kernel of the CPU, MPNet its own products. ALBERT saves no FLOP."""
    model = pico(name)
    before, after = counted(model), counted(compressed(model, method))
    assert before.agrees
    assert after.agrees
    assert (after.counted == before.counted) == (method == "ALBERT")
    assert before.rest == after.rest


@pytest.mark.parametrize("way", ["chain", "dense", "plain"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["bert", "llama_gqa", "modernbert"])
def test_predictions_hold_for_folded_constants(name: str, method: str, way: str) -> None:
    model = compressed(pico(name), method)
    before = counted(model)
    optimize_(model, path=way)
    after = counted(model)
    assert after.agrees
    if way == "dense":
        assert after.counted == counted(pico(name)).counted
    elif way == "plain":
        assert after == before
    else:
        assert after.counted <= before.counted


def test_a_tiny_tucker_folded_by_hand() -> None:
    """x U once for Q, K and V, once for O and once for In; M V for these eight tiles; Out's four U M, then one V. No mixing."""
    model = compressed(pico("bert"), "IV-4-8")
    optimize_(model, path="chain")
    found, n = counted(model), 8
    assert found.predicted == 2 * (2 * n * (16 * HIDDEN * 8) + 2 * 2 * n * n * HIDDEN)
    assert found.agrees


@pytest.mark.parametrize(
    ("name", "head", "settings"),
    [
        ("bert", "masked_lm", {}),
        ("bert", "sequence_classification", {"embeddings": 4}),
        ("gpt2", "causal_lm", {"group": "role"}),
        ("vit", "image_classification", {"tile": "whole"}),
        ("bert", None, {"embeddings": 4, "family": "auto"}),
    ],
)
def test_heads_and_factored_tables_are_counted_where_they_belong(name: str, head: str | None, settings: dict[str, Any]) -> None:
    original = pico(name, head)
    plan = tenfold.plan(original, "II-4", **settings)
    model = compressed(original, "II-4", **settings)
    for each in (original, model):
        assert counted(each).agrees
    assert parameters(original, anatomy(original)) == {scope: plan.totals.of(scope) for scope in (MATRICES, PAPER, MODEL)}  # type: ignore[union-attr]
    assert parameters(model, anatomy(model)) == {scope: plan.kept(scope) for scope in (MATRICES, PAPER, MODEL)}


@pytest.mark.parametrize("name", ["deberta_v2", "deberta_v2_split"])
def test_relative_positions_are_counted_and_not_predicted(name: str) -> None:
    found = counted(pico(name))
    assert found.predicted is None
    assert found.agrees is None
    assert found.counted > counted(pico("bert")).counted


def test_a_longer_sequence_costs_more_than_its_share() -> None:
    model = pico("bert")
    short, long = counted(model, 8), counted(model, 32)
    assert long.counted - long.rest > 4 * (short.counted - short.rest)


def test_bytes_are_those_of_the_files_and_of_the_weights(tmp_path: Path) -> None:
    model = compressed(pico("bert"), "III-8")
    model.save_pretrained(tmp_path / "c")
    found = counts(find(str(tmp_path / "c"), weights=True), model.to(torch.bfloat16), anatomy(model))
    assert found.disk_bytes == (tmp_path / "c" / "model.safetensors").stat().st_size
    numbers = sum(p.numel() for p in model.parameters())
    buffers = sum(b.nbytes for b in model.buffers())
    assert found.memory_bytes == {"bfloat16": 2 * numbers + buffers}
    assert (found.method, found.cls) == ("III-8", "BertModel")
    assert ORIGINAL not in found.name
