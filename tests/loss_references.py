"""What the losses of tenfold.distillation should give: data, and every formula written out with loops over single numbers."""

from collections.abc import Callable
from math import exp, log, sqrt
from typing import Any

import torch
from torch import Tensor

from tenfold.distillation import LOSSES

B, T, H, E, C = 3, 5, 2, 4, 3
LENGTHS = (5, 3, 1)
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]

Reference = Callable[[Tensor, Tensor, Tensor], tuple[float, int]]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def data(name: str) -> tuple[Tensor, Tensor]:
    """(student, teacher) of the shape that the loss reads, half of the logits' losses on tokens and half on rows."""
    reads = LOSSES[name].reads[0]
    if reads == "labels":
        return random(B, C), torch.tensor([2, -100, 0])
    if reads == "logits":
        shape: tuple[int, ...] = (B, C) if "mse" in name else (B, T, C)
    else:
        shape = {"scores": (B, H, T, T), "queries": (B, H, T, E)}.get(reads, (B, T, H * E))
    return random(*shape), random(*shape, seed=1)


def over(count: int, value: Callable[[int], float]) -> float:
    return sum(value(k) for k in range(count))


def tokens(mask: Tensor) -> list[tuple[int, int]]:
    return [(b, t) for b in range(len(mask)) for t in range(mask.shape[1]) if mask[b, t]]


def softmax(row: list[float]) -> list[float]:
    return [exp(x) / sum(map(exp, row)) for x in row]


def dot(x: Tensor, y: Tensor) -> float:
    return over(len(x), lambda k: float(x[k]) * float(y[k]))


def cosine(x: Tensor, y: Tensor) -> float:
    return dot(x, y) / sqrt(dot(x, x) * dot(y, y))


def squares(x: Tensor, y: Tensor) -> float:
    return over(len(x), lambda k: float(x[k] - y[k]) ** 2)


def ref_hidden(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    return sum(squares(s[i], t[i]) / len(s[i]) for i in tokens(mask)), len(tokens(mask))


def ref_cosine(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    return sum(1 - cosine(s[i], t[i]) for i in tokens(mask)), len(tokens(mask))


def ref_vectors(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    total = sum(squares(s[b, h, i], t[b, h, i]) / (H * E) for b, i in tokens(mask) for h in range(H))
    return total, len(tokens(mask))


def ref_scores(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    pairs = [(b, q, k) for b, q in tokens(mask) for k in range(mask.shape[1]) if mask[b, k]]
    return sum(float(s[b, h, q, k] - t[b, h, q, k]) ** 2 / H for b, q, k in pairs for h in range(H)), len(pairs)


def probabilities(scores: Tensor, mask: Tensor, b: int, h: int, q: int) -> list[float]:
    return softmax([float(scores[b, h, q, k]) for k in range(mask.shape[1]) if mask[b, k]])


def ref_probabilities(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    total = 0.0
    for b, q in tokens(mask):
        for h in range(s.shape[1]):
            pairs = zip(probabilities(t, mask, b, h, q), probabilities(s, mask, b, h, q), strict=True)
            total += sum(p * (log(p) - log(r)) for p, r in pairs) / s.shape[1]
    return total, len(tokens(mask))


def ref_probabilities_mse(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    total, count = 0.0, 0
    for b, q in tokens(mask):
        count += int(mask[b].sum())
        for h in range(H):
            pairs = zip(probabilities(t, mask, b, h, q), probabilities(s, mask, b, h, q), strict=True)
            total += sum((p - r) ** 2 for p, r in pairs) / H
    return total, count


def relations(x: Tensor, heads: int) -> Tensor:
    """(b, R, t, t) of vectors (b, h, t, e), entry by entry."""
    b, h, t, e = x.shape
    flat = [[[float(x[i, j // e, k, j % e]) for j in range(h * e)] for k in range(t)] for i in range(b)]
    size = h * e // heads
    rows = torch.empty(b, heads, t, t, dtype=x.dtype)
    for i, r, q, k in torch.cartesian_prod(*map(torch.arange, rows.shape)).tolist():
        parts = (flat[i][q][r * size : (r + 1) * size], flat[i][k][r * size : (r + 1) * size])
        rows[i, r, q, k] = sum(a * c for a, c in zip(*parts, strict=True)) / sqrt(size)
    return rows


def ref_relations(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    return ref_probabilities(relations(s, t.shape[1]), relations(t, t.shape[1]), mask)


def rows_of(logits: Tensor, mask: Tensor) -> list[Any]:
    return tokens(mask) if logits.dim() == 3 else list(range(len(logits)))


def ref_soft(s: Tensor, t: Tensor, mask: Tensor, temperature: float = 1.0, entropy: bool = False) -> tuple[float, int]:
    total = 0.0
    for i in rows_of(s, mask):
        p, r = softmax((t[i] / temperature).tolist()), softmax((s[i] / temperature).tolist())
        total += temperature**2 * sum(a * ((log(a) if entropy else 0) - log(b)) for a, b in zip(p, r, strict=True))
    return total, len(rows_of(s, mask))


def ref_logit_mse(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    return sum(squares(s[i], t[i]) / C for i in rows_of(s, mask)), len(rows_of(s, mask))


def binary(logit: float, target: float) -> float:
    p = 1 / (1 + exp(-logit))
    return -target * log(p) - (1 - target) * log(1 - p)


def ref_multi(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    total = sum(binary(float(s[i][c]), 1 / (1 + exp(-float(t[i][c])))) / C for i in rows_of(s, mask) for c in range(C))
    return total, len(rows_of(s, mask))


def ref_hard(s: Tensor, labels: Tensor, mask: Tensor) -> tuple[float, int]:  # noqa: ARG001
    kept = [b for b in range(len(s)) if labels[b] != -100]
    return sum(-log(softmax(s[b].tolist())[int(labels[b])]) for b in kept), len(kept)


def ref_patient(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    total = 0.0
    for b in range(len(s)):
        x, y = s[b, int(mask[b].nonzero()[0])], t[b, int(mask[b].nonzero()[0])]
        total += squares(x / sqrt(dot(x, x)), y / sqrt(dot(y, y)))
    return total, len(s)


def ref_sentence(s: Tensor, t: Tensor, mask: Tensor) -> tuple[float, int]:
    def mean(x: Tensor, b: int) -> Tensor:
        return torch.stack([x[i] for i in tokens(mask) if i[0] == b]).mean(0)

    return over(len(s), lambda b: 1 - cosine(mean(s, b), mean(t, b))), len(s)


REFERENCES: dict[str, Reference] = {
    "hidden": ref_hidden,
    "hidden_cosine": ref_cosine,
    "embedding": ref_hidden,
    "patient": ref_patient,
    "sentence": ref_sentence,
    "scores": ref_scores,
    "probabilities": ref_probabilities,
    "probabilities_mse": ref_probabilities_mse,
    "relations": ref_relations,
    "vectors": ref_vectors,
    "soft_labels": ref_soft,
    "multi_soft_labels": ref_multi,
    "logit_kl": lambda s, t, mask: ref_soft(s, t, mask, entropy=True),
    "logit_mse": ref_logit_mse,
    "hard_labels": ref_hard,
}
