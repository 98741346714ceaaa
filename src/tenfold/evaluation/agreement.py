"""Whether two models place sentences alike: no labels needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize


@dataclass(frozen=True)
class Agreement:
    """1 is perfect in all three; two unrelated models score about 0, 0 and k / (n - 1)."""

    cosine: float
    rank_correlation: float
    neighbours_kept: float


@torch.no_grad()
def embed(model: Any, tokenizer: Any, texts: Sequence[str], batch: int = 32, length: int = 128) -> Tensor:
    """Sentence vectors (n, d): the mean of the last hidden states over real tokens."""
    vectors = []
    for start in range(0, len(texts), batch):
        inputs = tokenizer(
            list(texts[start : start + batch]), padding=True, truncation=True, max_length=length, return_tensors="pt"
        )
        inputs = inputs.to(model.device)
        hidden = model.base_model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][:, :, None].to(hidden.dtype)
        vectors.append((hidden * mask).sum(1) / mask.sum(1))
    return torch.cat(vectors).float()


def agreement(ours: Tensor, theirs: Tensor, k: int = 5) -> Agreement:
    """Mean cosine of each sentence's two vectors; Spearman correlation of all pairwise similarities; share of each
    sentence's k nearest neighbours that stay among the k nearest."""
    a, b = _similarities(ours), _similarities(theirs)
    upper = torch.triu_indices(len(a), len(a), offset=1).unbind(0)
    near_a, near_b = (x.fill_diagonal_(-torch.inf).topk(k).indices for x in (a.clone(), b.clone()))
    kept = (near_a[:, :, None] == near_b[:, None, :]).any(-1).float().mean()
    return Agreement(float(cosine_similarity(ours, theirs).mean()), _spearman(a[upper], b[upper]), float(kept))


def _similarities(vectors: Tensor) -> Tensor:
    unit = normalize(vectors.double())
    return unit @ unit.T


def _spearman(a: Tensor, b: Tensor) -> float:
    ranks = torch.stack([a, b]).argsort(1).argsort(1).double()
    return float(torch.corrcoef(ranks)[0, 1])
