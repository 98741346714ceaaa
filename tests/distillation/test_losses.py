"""Every loss against its formula written out with loops, and what must hold of each: padding, splits, precision, gradients."""

from math import log
from typing import Any

import pytest
import torch
from loss_references import (
    LENGTHS,
    MASK,
    REFERENCES,
    B,
    C,
    H,
    T,
    binary,
    data,
    random,
    ref_hidden,
    ref_probabilities,
    ref_soft,
    relations,
    softmax,
    squares,
    tokens,
)
from torch import Tensor

from tenfold.distillation import LOSSES, Part, Spread, pair_mask, pool
from tenfold.distillation.losses import MULTI_LABEL, REGRESSION, relation_kl, score_mse, soft_labels, vector_mse
from tenfold.errors import TenfoldError

NAMES = sorted(LOSSES)
MINIMA = {"soft_labels", "multi_soft_labels", "hard_labels"}
"""Losses that are not 0 at best."""


def loss(name: str, student: Tensor, teacher: Tensor, mask: Tensor = MASK, **options: Any) -> Part:
    return LOSSES[name].function(student, teacher, mask, **options)


def padded(name: str, x: Tensor, left: int, right: int) -> Tensor:
    """Columns of NaN around what is there, wherever the tensor has tokens."""
    reads = LOSSES[name].reads[0]
    if x.dim() < 3:
        return x
    spaces = {"scores": (left, right, left, right)}.get(reads, (0, 0, left, right))
    return torch.nn.functional.pad(x, spaces, value=float("nan"))


@pytest.mark.parametrize("left", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_the_formula(name: str, left: int) -> None:
    """With padding on the left too."""
    s, t = data(name)
    mask = torch.nn.functional.pad(MASK, (left, 0))
    part = loss(name, padded(name, s, left, 0), padded(name, t, left, 0), mask)
    total, count = REFERENCES[name](s, t, MASK)
    assert float(part.total) == pytest.approx(total, rel=1e-12)
    assert int(part.count) == count
    assert float(part.mean) == pytest.approx(total / count, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_best_student_is_the_teacher(name: str) -> None:
    s, t = data(name)
    if name == "hard_labels":
        best = 50 * torch.nn.functional.one_hot(t.clamp(min=0), C).double()
        assert float(loss(name, best, t).mean) == pytest.approx(0, abs=1e-15)
        return
    least = float(loss(name, t, t).mean)
    assert float(loss(name, s, t).mean) > least + 1e-3
    if name not in MINIMA:
        assert least == pytest.approx(0, abs=1e-15)
    else:
        student = t.clone().requires_grad_()
        loss(name, student, t).mean.backward()
        assert student.grad is not None and student.grad.abs().max() < 1e-15


@pytest.mark.parametrize(("left", "right"), [(0, 3), (2, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_nothing(name: str, left: int, right: int) -> None:
    s, t = data(name)
    mask = torch.nn.functional.pad(MASK, (left, right))
    whole, wide = loss(name, s, t), loss(name, padded(name, s, left, right), padded(name, t, left, right), mask)
    torch.testing.assert_close(wide.total, whole.total, rtol=1e-14, atol=1e-14)
    assert wide.count == whole.count


@pytest.mark.parametrize("name", NAMES)
def test_the_pieces_of_a_batch_add_up(name: str) -> None:
    s, t = data(name)
    first, second = loss(name, s[:1], t[:1], MASK[:1]), loss(name, s[1:], t[1:], MASK[1:])
    torch.testing.assert_close((first + second).mean, loss(name, s, t).mean, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_finite_zero_at_padding_and_none_reach_the_teacher(name: str) -> None:
    s, t = data(name)
    s = padded(name, s, 0, 2).requires_grad_()
    t = padded(name, t, 0, 2)
    t = t.requires_grad_() if t.is_floating_point() else t
    loss(name, s, t, torch.nn.functional.pad(MASK, (0, 2))).mean.backward()
    assert t.grad is None
    assert s.grad is not None and s.grad.isfinite().all() and s.grad.abs().max() > 1e-3
    if LOSSES[name].reads[0] in ("hidden", "embedding", "last_hidden"):
        assert not s.grad[torch.nn.functional.pad(~MASK, (0, 2), value=True)].any()


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_is_computed_in_float32(name: str) -> None:
    s, t = data(name)
    s = s.bfloat16()
    t = t.bfloat16() if t.is_floating_point() else t
    expected = loss(name, s.float(), t.float() if t.is_floating_point() else t)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        part = loss(name, s, t)
    assert part.total.dtype == torch.float32
    torch.testing.assert_close(part.total, expected.total, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["soft_labels", "logit_kl"])
def test_the_temperature_enters_squared(name: str) -> None:
    s, t = data(name)
    total, _ = ref_soft(s, t, MASK, 2.5, entropy=name == "logit_kl")
    assert float(loss(name, s, t, temperature=2.5).total) == pytest.approx(total, rel=1e-12)


def test_a_high_temperature_matches_logits() -> None:
    """Hinton et al.: T^2 times the gradient tends to that of the squared difference of centred logits, / (2 C)."""
    s, t = random(B, C).requires_grad_(), random(B, C, seed=1)
    soft = torch.autograd.grad(soft_labels(s, t, MASK, 1e4).total, s)[0]
    centred = ((s - s.mean(-1, keepdim=True)) - (t - t.mean(-1, keepdim=True))) / C
    torch.testing.assert_close(soft, centred.detach(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", [name for name in NAMES if LOSSES[name].scaled])
def test_a_scale_divides(name: str) -> None:
    s, t = data(name)
    torch.testing.assert_close(loss(name, s, t, scale=4.0).total, loss(name, s, t).total / 4)


def test_relations_take_unequal_widths_heads_and_any_number_of_relation_heads() -> None:
    s, t = random(B, 1, T, 6), random(B, 4, T, 3, seed=1)
    for heads in (1, 2, 3):
        total, count = ref_probabilities(relations(s, heads), relations(t, heads), MASK)
        part = relation_kl(s, t, MASK, heads=heads)
        assert float(part.total) == pytest.approx(total, rel=1e-12)
        assert int(part.count) == count
    with pytest.raises(TenfoldError, match="must divide the width of both models, got 4 for a width of 6"):
        relation_kl(s, t, MASK)


def test_a_mask_of_pairs_leaves_out_later_keys() -> None:
    s, t = data("scores")
    causal = pair_mask(MASK, causal=True)
    assert int(causal.sum()) == sum(n * (n + 1) // 2 for n in LENGTHS)
    garbage = s.masked_fill(~causal[:, None], float("nan"))
    for name in ("scores", "probabilities", "probabilities_mse"):
        part = loss(name, garbage, t, causal)
        torch.testing.assert_close(part.total, loss(name, s, t, causal).total)
        assert part.total != loss(name, s, t).total
    total = sum(float(s[b, h, q, k] - t[b, h, q, k]) ** 2 / H for b, q, k in causal.nonzero().tolist() for h in range(H))
    assert float(score_mse(s, t, causal).total) == pytest.approx(total, rel=1e-12)


def test_vectors_may_be_cut_into_other_heads() -> None:
    s, t = random(B, 2, T, 6), random(B, 4, T, 3, seed=1)
    flat = [x.transpose(1, 2).reshape(B, T, 12) for x in (s, t)]
    assert float(vector_mse(s, t, MASK).total) == pytest.approx(ref_hidden(flat[0], flat[1], MASK)[0], rel=1e-12)


def test_hard_labels_of_every_problem() -> None:
    logits = random(B, C)
    values = random(B, C, seed=1)
    part = loss("hard_labels", logits, values, problem=REGRESSION)
    assert float(part.total) == pytest.approx(sum(squares(logits[b], values[b]) / C for b in range(B)), rel=1e-12)
    assert int(loss("hard_labels", logits[:, :1], values[:, 0], problem=REGRESSION).count) == B
    marks = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]])
    total = sum(binary(float(logits[b, c]), float(marks[b, c])) / C for b in range(B) for c in range(C))
    assert float(loss("hard_labels", logits, marks, problem=MULTI_LABEL).total) == pytest.approx(total, rel=1e-12)
    with pytest.raises(TenfoldError, match='got "regresion": did you mean "regression"'):
        loss("hard_labels", logits, marks, problem="regresion")


def test_hard_labels_of_tokens_and_of_next_tokens() -> None:
    logits = random(B, T, C)
    labels = torch.tensor([[0, 1, 2, -100, 1], [2, 2, 2, 2, 2], [1, 1, 1, 1, 1]])

    def cross(b: int, t: int, label: int) -> float:
        return -log(softmax(logits[b, t].tolist())[label])

    kept = [(b, t) for b, t in tokens(MASK) if labels[b, t] != -100]
    part = loss("hard_labels", logits, labels)
    assert float(part.total) == pytest.approx(sum(cross(b, t, int(labels[b, t])) for b, t in kept), rel=1e-12)
    assert int(part.count) == len(kept)
    later = [(b, t) for b, t in kept if t]
    part = loss("hard_labels", logits, labels, shift=True)
    assert float(part.total) == pytest.approx(sum(cross(b, t - 1, int(labels[b, t])) for b, t in later), rel=1e-12)
    assert int(part.count) == len(later)


def test_a_batch_without_real_items_is_zero_and_not_nan() -> None:
    for name in NAMES:
        s, t = data(name)
        if t.dim() > 2:
            assert float(loss(name, s, t, torch.zeros_like(MASK)).mean) == 0
    assert float(loss("hard_labels", random(B, C), torch.full((B,), -100)).mean) == 0


def test_spread_is_the_variance_of_all_real_tokens_however_they_come() -> None:
    hidden = random(B, T, 8) + 1e6
    hidden[~MASK] = float("nan")
    expected = float((hidden[MASK] - hidden[MASK].mean(0)).square().mean())
    for sizes in ([3], [1, 2], [2, 1]):
        spread = Spread()
        for piece, mask in zip(hidden.split(sizes), MASK.split(sizes), strict=True):
            spread.add(piece, mask)
        spread.add(hidden, torch.zeros_like(MASK))
        assert spread.value == pytest.approx(expected, rel=1e-8)
    mean = hidden[MASK].mean(0).expand(B, T, 8)
    assert float(loss("hidden", mean, hidden, scale=expected).mean) == pytest.approx(1, rel=1e-8)
    with pytest.raises(TenfoldError, match="two tokens that differ"):
        _ = Spread().value


def test_pooling() -> None:
    hidden, left = random(B, T, 8), torch.arange(T) >= T - torch.tensor(LENGTHS)[:, None]
    torch.testing.assert_close(pool(hidden, left, "cls"), hidden[torch.arange(B), T - torch.tensor(LENGTHS)])
    torch.testing.assert_close(pool(hidden, MASK)[1], hidden[1, :3].mean(0))
    assert not pool(hidden, torch.zeros_like(MASK)).any()
    with pytest.raises(TenfoldError, match='got "max"'):
        pool(hidden, MASK, "max")


def test_what_cannot_be_compared_is_refused() -> None:
    wide, narrow = random(B, T, 8), random(B, T, 6)
    for name in ("hidden", "hidden_cosine", "embedding", "patient", "sentence"):
        with pytest.raises(TenfoldError, match=r"\(3, 5, 6\) from the student and \(3, 5, 8\).*projection"):
            loss(name, narrow, wide)
    with pytest.raises(TenfoldError, match="classes"):
        loss("soft_labels", random(B, 2), random(B, 3))
    for name in ("scores", "probabilities", "probabilities_mse"):
        with pytest.raises(TenfoldError, match="got 2 and 4 heads: take relations"):
            loss(name, random(B, 2, T, T), random(B, 4, T, T))
