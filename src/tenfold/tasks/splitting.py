"""A part of train, drawn by seed: stratified, and no text on both sides."""

from collections import Counter, defaultdict
from collections.abc import Hashable

import numpy as np

from tenfold.tasks.duplicates import normalised
from tenfold.tasks.task import Label, Rows, Task

BINS = 10
"""A scale is stratified by tenths of its rows."""

RARE = 10
"""Sets of labels that fewer rows have make one stratum together."""


def split(rows: Rows, task: Task, share: float, seed: int) -> tuple[Rows, Rows]:
    """(rest, drawn), both in the order of `rows`. Each stratum gives `share` of its texts; one of a single text gives none.

    Rows whose texts are equal but for case and spaces go to the same side.
    """
    strata: dict[Hashable, dict[tuple[str, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    where: dict[tuple[str, ...], Hashable] = {}
    kinds = _strata(rows, task)
    for i, texts in enumerate(rows.texts):
        key = normalised(texts)
        strata[where.setdefault(key, kinds[i])][key].append(i)
    draw, drawn = np.random.default_rng(seed), []
    for stratum in sorted(strata, key=str):
        groups = list(strata[stratum].values())
        many = min(max(round(share * len(groups)), 1), len(groups) - 1)
        drawn += [i for g in draw.permutation(len(groups))[:many] for i in groups[g]]
    chosen = set(drawn)
    return rows.take([i for i in range(len(rows)) if i not in chosen]), rows.take(sorted(chosen))


def at_most(rows: Rows, limit: int | None, seed: int) -> Rows:
    if limit is None or limit >= len(rows):
        return rows
    return rows.take(sorted(np.random.default_rng(seed).permutation(len(rows))[:limit].tolist()))


def _strata(rows: Rows, task: Task) -> list[Label]:
    if task.kind == "classification":
        return list(rows.labels)
    if task.kind == "multi_label":
        counts = Counter(rows.labels)
        return [held if counts[held] >= RARE else None for held in rows.labels]
    values = np.asarray(rows.labels, np.float64)
    edges = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1])
    return [int(b) for b in np.searchsorted(edges, values)]
