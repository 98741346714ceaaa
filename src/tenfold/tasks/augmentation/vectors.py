"""Nearest neighbours among word vectors.

q: queries, n: words of the table, d: dimensions, k: neighbours.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from tenfold.tasks.augmentation.words import others

_QUERIES = 128
"""At a time: their products with 400,000 words take 200 MB."""

_MARGIN = 16
"""More than asked for in single precision, so that rounding cannot push a true neighbour out."""

_SLACK = 8
"""Neighbours that may be the word itself in another case."""


@torch.no_grad()
def nearest(queries: Tensor, table: Tensor, k: int) -> Tensor:
    """(q, d), (n, d) -> (q, k): rows of the table by cosine, highest first, the earlier row where two are equal.

    Found in single precision, ranked in double: the outcome does not depend on how many queries were asked at once.
    """
    unit = normalize(table.float(), dim=-1)
    found = []
    for part in queries.split(_QUERIES):
        near = (normalize(part.float(), dim=-1) @ unit.T).topk(min(k + _MARGIN, len(table))).indices.sort().values
        exact = (normalize(table[near].double(), dim=-1) * normalize(part.double(), dim=-1)[:, None]).sum(-1)
        order = exact.sort(descending=True, stable=True).indices[:, :k]
        found.append(near.gather(1, order))
    return torch.cat(found) if found else torch.empty(0, min(k, len(table)), dtype=torch.long)


def neighbours(
    words: Sequence[str], queries: Tensor, names: Sequence[str], table: Tensor, k: int
) -> dict[str, tuple[str, ...]]:
    """For each word (its vector a row of `queries`) the k nearest names that are not the word itself in another case."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = nearest(queries.to(device), table.to(device), k + _SLACK).tolist()
    return {word: others(word, [names[i] for i in row], k) for word, row in zip(words, rows, strict=True)}
