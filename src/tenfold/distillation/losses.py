"""What a student may be asked to copy. Every loss is a pure function of (student, teacher, mask) and returns a `Part`: a sum
over real items and their number. Padding never enters, and the parts of the pieces of a batch add up to that of the whole.

Letters: b rows, t tokens, D features, h heads of e features (D = h e), R relation heads, C classes. Hidden states are
(b, t, D), vectors (queries, keys, values) (b, h, t, e), scores (b, h, t, t), logits (b, C) or (b, t, C). A mask is true where
things are real: tokens (b, t), or pairs of a query and a key (b, t, t) where not every query sees every key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from math import sqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from tenfold.distillation.parts import Part, masked_log_softmax, merge_heads, pair_mask, pool, precise, real
from tenfold.errors import TenfoldError, nearest

IGNORED = -100
PROBLEMS = REGRESSION, SINGLE_LABEL, MULTI_LABEL = "regression", "single_label_classification", "multi_label_classification"


@precise
def hidden_mse(student: Tensor, teacher: Tensor, mask: Tensor, scale: float | Tensor = 1.0) -> Part:
    """|s - t|^2 / D / scale over real tokens: TinyBERT (1909.10351), and the last-layer term of the paper.

    With `scale` the teacher's variance at that layer (`Spread`), 1 is what predicting the mean would give, at every layer.
    The scale comes from outside: the variance of one batch would change when that batch is split.
    """
    return Part(_difference(student, teacher, mask).square().mean(-1).sum() / scale, mask.sum())


@precise
def hidden_cosine(student: Tensor, teacher: Tensor, mask: Tensor) -> Part:
    """1 - cos(s, t) over real tokens: DistilBERT (1910.01108)."""
    _same(student, teacher)
    cosine = F.cosine_similarity(real(student, mask), real(teacher, mask), dim=-1)
    return Part((1 - cosine).masked_fill(~mask, 0).sum(), mask.sum())


@precise
def vector_mse(student: Tensor, teacher: Tensor, mask: Tensor, scale: float | Tensor = 1.0) -> Part:
    """The same as `hidden_mse` for queries, keys or values, all heads side by side (so h may differ where D does not)."""
    difference = _difference(merge_heads(student), merge_heads(teacher), mask)
    return Part(difference.square().mean(-1).sum() / scale, mask.sum())


@precise
def score_mse(student: Tensor, teacher: Tensor, mask: Tensor) -> Part:
    """(s - t)^2 of scores before the softmax, mean over heads, over real pairs: TinyBERT and the paper's code."""
    _same_heads(student, teacher)
    keep = pair_mask(mask)
    difference = (student - teacher).masked_fill(~keep[:, None], 0)
    return Part(difference.square().mean(1).sum(), keep.sum())


@precise
def probability_kl(student: Tensor, teacher: Tensor, mask: Tensor) -> Part:
    """KL(softmax t || softmax s) over real keys, mean over heads, over real queries: MiniLM (2002.10957).

    It reads scores, as `probability_mse` does.
    """
    _same_heads(student, teacher)
    return _kl_of_rows(student, teacher, pair_mask(mask))


@precise
def probability_mse(student: Tensor, teacher: Tensor, mask: Tensor) -> Part:
    """(softmax s - softmax t)^2, mean over heads, over real pairs: the text of the paper."""
    _same_heads(student, teacher)
    keep = pair_mask(mask)
    difference = masked_log_softmax(student, keep[:, None]).exp() - masked_log_softmax(teacher, keep[:, None]).exp()
    return Part(difference.masked_fill(~keep[:, None], 0).square().mean(1).sum(), keep.sum())


@precise
def relation_kl(student: Tensor, teacher: Tensor, mask: Tensor, heads: int | None = None) -> Part:
    """KL(softmax(T T'/sqrt(D_T/R)) || softmax(S S'/sqrt(D_S/R))), mean over R heads, over real queries: MiniLMv2 (2012.15828).

    T and S are queries, keys or values, cut into R = `heads` relation heads (their A_r); by default as many as the teacher
    has. Neither widths nor numbers of heads need to be equal.
    """
    count = heads or teacher.shape[1]
    keep = pair_mask(mask)
    tokens = keep.diagonal(dim1=1, dim2=2)
    return _kl_of_rows(_relations(student, count, tokens), _relations(teacher, count, tokens), keep)


@precise
def soft_labels(student: Tensor, teacher: Tensor, mask: Tensor, temperature: float = 1.0) -> Part:
    """-T^2 sum_c softmax(t/T)_c log softmax(s/T)_c: Hinton et al. (1503.02531). Over rows, or real tokens of (b, t, C)."""
    s, t, keep = _logits(student, teacher, mask)
    cross = -((t / temperature).softmax(-1) * (s / temperature).log_softmax(-1)).sum(-1)
    return Part(temperature**2 * cross.masked_fill(~keep, 0).sum(), keep.sum())


@precise
def logit_kl(student: Tensor, teacher: Tensor, mask: Tensor, temperature: float = 1.0) -> Part:
    """T^2 KL(softmax(t/T) || softmax(s/T)): `soft_labels` less the teacher's entropy, so 0 at best, with the same gradient."""
    s, t, keep = _logits(student, teacher, mask)
    log_s, log_t = (s / temperature).log_softmax(-1), (t / temperature).log_softmax(-1)
    divergence = (log_t.exp() * (log_t - log_s)).sum(-1)
    return Part(temperature**2 * divergence.masked_fill(~keep, 0).sum(), keep.sum())


@precise
def logit_mse(student: Tensor, teacher: Tensor, mask: Tensor) -> Part:
    """|s - t|^2 / C: regression (STS-B), and Ba and Caruana (1312.6184) for classes."""
    s, t, keep = _logits(student, teacher, mask)
    return Part((s - t).square().mean(-1).sum(), keep.sum())


@precise
def multi_soft_labels(student: Tensor, teacher: Tensor, mask: Tensor, temperature: float = 1.0) -> Part:
    """T^2 times the binary cross-entropy of sigmoid(s/T) with sigmoid(t/T), mean over C: labels that may hold together."""
    s, t, keep = _logits(student, teacher, mask)
    cross = _binary(s / temperature, (t / temperature).sigmoid()).mean(-1)
    return Part(temperature**2 * cross.masked_fill(~keep, 0).sum(), keep.sum())


@precise
def hard_labels(logits: Tensor, labels: Tensor, mask: Tensor, problem: str = SINGLE_LABEL, shift: bool = False) -> Part:
    """The task's own loss, by transformers' `problem_type`: cross-entropy, MSE or (mean over C) binary cross-entropy.

    Labels of -100 (of classes) and NaN (of numbers) do not count: rows that only the teacher labels. `shift`: position k
    answers for the label of k + 1, as causal language models do.
    """
    if problem not in PROBLEMS:
        raise TenfoldError(f'the problem type must exist, got "{problem}": {nearest(problem, PROBLEMS)}')
    if problem != SINGLE_LABEL:
        labels = labels.to(logits.dtype).reshape(logits.shape)
        keep = labelled(labels)
        labels = labels.nan_to_num()
        error = (logits - labels).square() if problem == REGRESSION else _binary(logits, labels)
        return Part(error.mean(-1).masked_fill(~keep, 0).sum(), keep.sum())
    labels = labels.masked_fill(~mask, IGNORED) if labels.dim() == 2 else labels
    logits, labels = (logits[:, :-1], labels[:, 1:]) if shift else (logits, labels)
    keep = labels != IGNORED
    logits = logits.masked_fill(~keep[..., None], 0)
    total = F.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return Part(total, keep.sum())


@precise
def patient(student: Tensor, teacher: Tensor, mask: Tensor) -> Part:
    """|s/|s| - t/|t||^2 of the first real token's hidden states, over rows: PKD (1908.09355)."""
    _same(student, teacher)
    s, t = pool(student, mask, "cls"), pool(teacher, mask, "cls")
    distance = (F.normalize(s, dim=-1) - F.normalize(t, dim=-1)).square().sum(-1)
    return Part(distance.sum(), mask.any(1).sum())


@precise
def sentence_cosine(student: Tensor, teacher: Tensor, mask: Tensor, pooling: str = "mean") -> Part:
    """1 - cos(s, t) of sentence vectors pooled from hidden states, over rows."""
    _same(student, teacher)
    cosine = F.cosine_similarity(pool(student, mask, pooling), pool(teacher, mask, pooling), dim=-1)
    return Part((1 - cosine).masked_fill(~mask.any(1), 0).sum(), mask.any(1).sum())


def labelled(labels: Tensor) -> Tensor:
    """Which rows have a label of their own: numbers (b, C) or (b,) that are not NaN, classes (b,) that are not -100."""
    if labels.is_floating_point():
        return ~labels.reshape(len(labels), -1).isnan().any(-1)
    return labels != IGNORED


def _relations(vectors: Tensor, heads: int, tokens: Tensor) -> Tensor:
    merged = real(merge_heads(vectors), tokens)
    if merged.shape[-1] % heads:
        raise TenfoldError(
            f"relation heads must divide the width of both models, got {heads} for a width of {merged.shape[-1]}: give another"
        )
    split = merged.unflatten(-1, (heads, -1)).transpose(1, 2)
    return split @ split.transpose(-1, -2) / sqrt(split.shape[-1])


def _binary(logits: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="none")


def _kl_of_rows(student: Tensor, teacher: Tensor, keep: Tensor) -> Part:
    """KL of the softmax of each row of (b, h, t, t), mean over heads, over rows with a key."""
    log_s, log_t = masked_log_softmax(student, keep[:, None]), masked_log_softmax(teacher, keep[:, None])
    divergence = (log_t.exp() * (log_t - log_s)).masked_fill(~keep[:, None], 0).sum(-1).mean(1)
    return Part(divergence.sum(), keep.any(-1).sum())


def _difference(student: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
    _same(student, teacher)
    return real(student - teacher, mask)


def _logits(student: Tensor, teacher: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both, zero where not real, and which items are: every row of (b, C), the mask's tokens of (b, t, C)."""
    _same(student, teacher)
    keep = mask if student.dim() == 3 else torch.ones_like(student[..., 0], dtype=torch.bool)
    return real(student, keep), real(teacher, keep), keep


def _same(student: Tensor, teacher: Tensor) -> None:
    if student.shape != teacher.shape:
        raise TenfoldError(
            f"this loss compares tensors of one shape, got {tuple(student.shape)} from the student and {tuple(teacher.shape)} "
            "from the teacher: hidden states of another width need a projection, logits the same classes in both models"
        )


def _same_heads(student: Tensor, teacher: Tensor) -> None:
    if student.shape[1] != teacher.shape[1]:
        raise TenfoldError(
            f"attention maps are compared head by head, got {student.shape[1]} and {teacher.shape[1]} heads: take relations"
        )


@dataclass(frozen=True)
class Loss:
    """A loss and the fields of a trace that it reads; of several fields it takes the mean.

    per_layer: between pairs of layers that a map names; else once for the whole model.
    projects: it compares features one by one, so that models of unequal widths need a learnt projection.
    scaled: its function takes a `scale`.
    """

    function: Callable[..., Part]
    reads: tuple[str, ...]
    per_layer: bool = False
    projects: bool = False
    scaled: bool = False


HIDDEN, EMBEDDING, LAST_HIDDEN = "hidden", "embedding", "last_hidden"
SCORES, LOGITS, LABELS = "scores", "logits", "labels"
VECTORS = ("queries", "keys", "values")

LOSSES: dict[str, Loss] = {
    "hidden": Loss(hidden_mse, (HIDDEN,), per_layer=True, projects=True, scaled=True),
    "hidden_cosine": Loss(hidden_cosine, (HIDDEN,), per_layer=True, projects=True),
    "embedding": Loss(hidden_mse, (EMBEDDING,), projects=True, scaled=True),
    "patient": Loss(patient, (HIDDEN,), per_layer=True, projects=True),
    "sentence": Loss(sentence_cosine, (LAST_HIDDEN,), projects=True),
    "scores": Loss(score_mse, (SCORES,), per_layer=True),
    "probabilities": Loss(probability_kl, (SCORES,), per_layer=True),
    "probabilities_mse": Loss(probability_mse, (SCORES,), per_layer=True),
    "relations": Loss(relation_kl, VECTORS, per_layer=True),
    "vectors": Loss(vector_mse, VECTORS, per_layer=True, projects=True, scaled=True),
    "soft_labels": Loss(soft_labels, (LOGITS,)),
    "multi_soft_labels": Loss(multi_soft_labels, (LOGITS,)),
    "logit_kl": Loss(logit_kl, (LOGITS,)),
    "logit_mse": Loss(logit_mse, (LOGITS,)),
    "hard_labels": Loss(hard_labels, (LABELS,)),
}


def loss_named(name: str) -> Loss:
    if name not in LOSSES:
        raise TenfoldError(f'a loss must be one that exists, got "{name}": {nearest(name, LOSSES)}')
    return LOSSES[name]


def takes(name: str, option: str) -> bool:
    """Does this loss's function have such an argument?"""
    return option in signature(loss_named(name).function).parameters
