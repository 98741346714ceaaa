"""Maps of layers, projections between widths, losses by name between two traces, vocabularies."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from pico import PICO, inputs, pico, tokenizer
from torch import Tensor

import tenfold
from tenfold.distillation import (
    LOSSES,
    Trace,
    Wanted,
    compare,
    layer_map,
    measure_scales,
    projections,
    same_vocabulary,
    trace,
)
from tenfold.distillation.losses import VECTORS, hidden_mse, relation_kl, score_mse, soft_labels, vector_mse
from tenfold.distillation.parts import Spread
from tenfold.errors import TenfoldError

NARROW: dict[str, Any] = {"hidden_size": 16, "num_attention_heads": 2}


def traced(model: Any, losses: Mapping[str, Any], batch: Mapping[str, Tensor] | None = None) -> Trace:
    return trace(model, inputs(model) if batch is None else batch, Wanted.of(losses))


@pytest.mark.parametrize(
    ("student", "teacher", "choice", "pairs"),
    [
        (3, 3, None, {1: 1, 2: 2, 3: 3}),
        (6, 12, "uniform", {k: 2 * k for k in range(1, 7)}),
        (4, 6, "uniform", {1: 2, 2: 3, 3: 5, 4: 6}),
        (3, 3, "uniform", {1: 1, 2: 2, 3: 3}),
        (4, 12, "top", {1: 9, 2: 10, 3: 11, 4: 12}),
        (6, 12, "last", {6: 12}),
        (12, 6, "last", {12: 6}),
        (4, 12, "every-2", {1: 2, 2: 4, 3: 6, 4: 8}),
        (4, 12, "every-3", {1: 3, 2: 6, 3: 9, 4: 12}),
        (4, 12, {0: 0, 2: 5, -1: -1}, {0: 0, 2: 5, 4: 12}),
    ],
)
def test_maps(student: int, teacher: int, choice: Any, pairs: dict[int, int]) -> None:
    assert layer_map(student, teacher, choice) == pairs


@pytest.mark.parametrize("student", range(1, 13))
@pytest.mark.parametrize("teacher", range(1, 13))
def test_uniform_rises_to_the_last_layer(student: int, teacher: int) -> None:
    if student <= teacher:
        pairs = layer_map(student, teacher, "uniform")
        assert list(pairs) == list(range(1, student + 1))
        assert sorted(set(pairs.values())) == list(pairs.values()) and pairs[student] == teacher and pairs[1] >= 1


@pytest.mark.parametrize(
    ("student", "teacher", "choice", "message"),
    [
        (3, 6, None, r"got 3 layers of the student and 6 of the teacher and none: give last, top, uniform, every-K"),
        (6, 3, "uniform", "uniform needs a teacher at least as deep"),
        (6, 3, "top", "top needs a teacher at least as deep"),
        (4, 6, "every-2", "every-2 pairs layer k with 2 k, got 4 layers of the student and 6"),
        (4, 6, "every-0", 'got "every-0"'),
        (4, 6, "every-x", 'got "every-x"'),
        (4, 6, "unifrm", 'a map of layers must be last.*got "unifrm"'),
        (4, 6, {5: 1}, r"layers 0 to 4 of the student with 0 to 6 of the teacher, got \{5: 1\}"),
        (4, 6, {1: 7}, "0 to 6"),
        (4, 6, {}, r"got \{\}"),
    ],
)
def test_maps_that_cannot_be(student: int, teacher: int, choice: Any, message: str) -> None:
    with pytest.raises(TenfoldError, match=message):
        layer_map(student, teacher, choice)


def applicable(name: str) -> dict[str, list[int]]:
    """Every loss that a family can have, with the layers that it compares."""
    scores = name not in ("deberta_v2", "deberta_v2_split", "gpt_neox", "llama", "llama_gqa", "modernbert", "qwen2")
    kept = [name for name in LOSSES if scores or LOSSES[name].reads != ("scores",)]
    return {name: [1, 2] if LOSSES[name].per_layer else [] for name in kept}


@pytest.mark.parametrize("name", PICO)
def test_every_loss_trains_a_factored_student_of_every_family(name: str) -> None:
    """With padding, down to the factors, and not the teacher."""
    head = "image_classification" if name == "vit" else "sequence_classification"
    student, teacher = (pico(name, head, num_labels=3).requires_grad_(k == 0) for k in (0, 1))
    tenfold.compress_(student, tenfold.plan(student, "II-8"), init="hosvd")
    batch = inputs(teacher) | {"labels": torch.tensor([0, 2, 1])}
    losses = applicable(name)
    with torch.no_grad():
        target = traced(teacher, losses, batch)
    for loss, layers in losses.items():
        student.zero_grad()
        found = traced(student, {loss: layers}, batch)
        for layer in layers or [-1]:
            part = compare(loss, found, target, (layer, layer))
            assert part.mean.isfinite()
        part.mean.backward()
        grads = [p.grad for p in student.base_model.parameters() if p.grad is not None]
        assert all(g.isfinite().all() for g in grads)
        if loss != "embedding":
            banks = [p.grad for p in student.base_model.factor_banks.parameters()]
            assert any(g is not None and g.abs().max() > 0 for g in banks), loss
    assert all(p.grad is None for p in teacher.parameters())


def test_a_loss_by_name_is_its_function_on_what_it_reads() -> None:
    student, teacher = (pico("gpt2", "sequence_classification", torch.float64, seed=seed) for seed in (0, 1))
    losses = {"hidden": [1, 2], "embedding": [], "relations": [1, 2], "vectors": [2], "scores": [2], "soft_labels": []}
    s, t = traced(student, losses), traced(teacher, losses)

    def equal(name: str, expected: Any, layers: tuple[int, int] = (-1, -1), **options: Any) -> None:
        torch.testing.assert_close(compare(name, s, t, layers, **options).mean, expected.mean)

    equal("hidden", hidden_mse(s.hidden[1], t.hidden[2], s.mask), (1, 2))
    equal("embedding", hidden_mse(s.hidden[0], t.hidden[0], s.mask))
    three = [relation_kl(getattr(s, what)[1], getattr(t, what)[2], s.mask, 2) for what in VECTORS]
    equal("relations", three[0] + three[1] + three[2], (1, 2), heads=2)
    equal("scores", score_mse(s.scores[2], t.scores[2], s.pairs))
    assert s.logits is not None and t.logits is not None
    equal("soft_labels", soft_labels(s.logits, t.logits, s.mask, 2.0), temperature=2.0)


def test_scales_are_the_teachers_variances() -> None:
    teacher = pico("bert", dtype=torch.float64)
    losses = {"hidden": [1, 2], "vectors": [2], "embedding": []}
    traces = [traced(teacher, losses, inputs(teacher, seed=seed)) for seed in (1, 2)]
    scales = measure_scales(traces)
    assert scales.keys() == {("hidden", k) for k in (0, 1, 2)} | {(what, 2) for what in VECTORS}
    spread = Spread()
    for t in traces:
        spread.add(t.hidden[1], t.mask)
    assert scales["hidden", 1] == pytest.approx(spread.value)
    student = traced(pico("bert", dtype=torch.float64, seed=1), losses, inputs(teacher, seed=1))
    for name, layers, key in (("hidden", (1, 1), ("hidden", 1)), ("embedding", (-1, -1), ("hidden", 0))):
        plain, scaled = compare(name, student, traces[0], layers), compare(name, student, traces[0], layers, scales=scales)
        torch.testing.assert_close(scaled.mean, plain.mean / scales[key])
    parts = [vector_mse(student.read(what), traces[0].read(what), student.mask, scales[what, 2]).mean for what in VECTORS]
    torch.testing.assert_close(compare("vectors", student, traces[0], scales=scales).mean, torch.stack(parts).mean())


def test_padding_and_splits_change_no_loss_end_to_end() -> None:
    student, teacher = (pico("bert", "sequence_classification", torch.float64, seed=seed) for seed in (0, 1))
    losses = applicable("bert")
    batch = inputs(teacher) | {"labels": torch.tensor([0, 1, 1])}
    wide = {k: torch.nn.functional.pad(v, (0, 4)) if v.dim() > 1 else v for k, v in batch.items()}
    halves = [{k: v[rows] for k, v in batch.items()} for rows in (slice(0, 1), slice(1, 3))]
    for name in losses:
        whole, padded, first, second = (
            compare(name, traced(student, losses, b), traced(teacher, losses, b)) for b in (batch, wide, *halves)
        )
        assert whole.count == padded.count == first.count + second.count
        torch.testing.assert_close(padded.total, whole.total)
        torch.testing.assert_close((first + second).total, whole.total)


def test_a_narrow_shallow_student_learns_projections() -> None:
    teacher = pico("bert", dtype=torch.float64)
    student = pico("roberta", dtype=torch.float64, layers=1, **NARROW)
    losses = {"hidden": [1], "embedding": [], "patient": [1], "sentence": [], "hidden_cosine": [1], "vectors": [1]}
    batch = inputs(teacher)
    s, t = traced(student, losses, batch), traced(teacher, losses, batch)
    made = projections(s, t, losses).double()
    assert {name for name, _ in made.linears.items()} == {f"to_{what}" for what in ("hidden", "embedding", *VECTORS)}
    for name in losses:
        made.zero_grad()
        compare(name, s, t, (1, 1), projections=made).mean.backward(retain_graph=True)
        used = {"embedding": ["embedding"], "vectors": list(VECTORS)}.get(name, ["hidden"])
        for what in used:
            grad: Tensor | None = made.linears[f"to_{what}"].weight.grad  # type: ignore[assignment]
            assert grad is not None and grad.shape == (32, 16) and grad.abs().max() > 0
    both = traced(student, {"relations": [1]}, batch), traced(teacher, {"relations": [2]}, batch)
    assert compare("relations", *both, (1, 2), heads=4).mean > 0
    with pytest.raises(TenfoldError, match=r"got hidden 16 and 32 .*relations and logits"):
        projections(s, t, ["hidden", "sentence"], allowed=False)
    with pytest.raises(TenfoldError, match="need a projection"):
        compare("hidden", s, t, (1, 1))


def test_equal_widths_make_no_projection() -> None:
    model = pico("bert")
    s = traced(model, {"hidden": [1], "vectors": [1]})
    made = projections(s, s, ["hidden", "vectors", "relations", "soft_labels"], allowed=False)
    assert not list(made.parameters())
    assert made("hidden", s.hidden[1]) is s.hidden[1]
    with pytest.raises(TenfoldError, match="got one without queries"):
        projections(traced(model, {"hidden": [1]}), s, ["vectors"])


def test_vocabularies() -> None:
    student, teacher = tokenizer(), tokenizer()
    same_vocabulary(student, teacher)
    same_vocabulary(pico("bert").config, pico("roberta"))
    with pytest.raises(TenfoldError, match="got vocabularies of 120 and 99"):
        same_vocabulary(pico("bert"), pico("bert", vocab_size=99).config)
    teacher.add_tokens(["another"])
    with pytest.raises(TenfoldError, match=f"got vocabularies of {len(student)} and {len(student) + 1}"):
        same_vocabulary(student, teacher)
    student.add_tokens(["different"])
    with pytest.raises(TenfoldError, match=r'two vocabularies of \d+ in which "another" is absent and'):
        same_vocabulary(student, teacher)
    with pytest.raises(TenfoldError, match="got ViTModel without one"):
        same_vocabulary(pico("vit"), pico("bert"))
