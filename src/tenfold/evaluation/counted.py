"""A metric on many resamples of the same rows at once, out of how often each holds every row.

m rows (or sorts of rows), C classes, B resamples. counts: (B, m); answers and truth: (m,), for several labels (m, C). The
values are those of scikit-learn and scipy on the resampled rows, 0 to 100, and 0 for a correlation with a constant.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenfold.tasks.task import Task

Array = NDArray[Any]

_ROUNDING = 1e-12


def counted(name: str, task: Task, said: Array, true: Array, counts: Array) -> Array:
    """(B,)"""
    weights = counts.astype(np.float64)
    if name in ("pearson", "spearman"):
        sides = [_ranks(values, weights) if name == "spearman" else values[None] - values.mean() for values in (said, true)]
        return 100 * _correlation(sides[0], sides[1], weights)
    if name in ("accuracy", "exact"):
        right = said == true if said.ndim == 1 else (said == true).all(1)
        return 100 * (weights @ right) / weights.sum(1)
    if name == "matthews":
        return 100 * _matthews(said, true, weights, len(task.labels))
    classes = np.arange(len(task.labels))
    held, given = (values if values.ndim == 2 else values[:, None] == classes for values in (true, said))
    return 100 * _f1(name, weights @ (held & given), weights @ held + weights @ given, several=said.ndim == 2)


def _f1(name: str, hits: Array, both: Array, several: bool) -> Array:
    """2 hits / (answered + true), (B, C) -> (B,). f1: of class 1. f1_macro: the mean over classes that occur, or all labels."""
    if name == "f1":
        hits, both = hits[:, 1], both[:, 1]
    elif name == "f1_micro":
        hits, both = hits.sum(1), both.sum(1)
    found = np.divide(2 * hits, both, out=np.zeros_like(both), where=both > 0)
    if name != "f1_macro":
        return found
    return found.mean(1) if several else found.sum(1) / (both > 0).sum(1)


def _matthews(said: Array, true: Array, weights: Array, classes: int) -> Array:
    """(c s - sum_k p_k t_k) / sqrt((s^2 - sum p^2) (s^2 - sum t^2)): c of s rows right, p_k answered, t_k true."""
    each = np.arange(classes)
    answered, held = (weights @ (values[:, None] == each) for values in (said, true))
    total, right = weights.sum(1), weights @ (said == true)
    above = right * total - (answered * held).sum(1)
    below = (total**2 - (answered**2).sum(1)) * (total**2 - (held**2).sum(1))
    return np.divide(above, np.sqrt(below), out=np.zeros_like(above), where=below > 0)


def _ranks(values: Array, weights: Array) -> Array:
    """(B, m): rows below a row and half of those that tie with it (a row drawn twice ties with itself), less half of all."""
    kinds, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(kinds)))
    each = np.add.reduceat(weights[:, order], starts, axis=1)
    middle = each.cumsum(1) - each / 2 - weights.sum(1, keepdims=True) / 2
    return middle[:, place]


def _correlation(x: Array, y: Array, weights: Array) -> Array:
    """cov / sqrt(var var); a variance within rounding of 0 is one. x, y: (B, m) or (1, m), of about mean 0 over the rows."""
    total = weights.sum(1)
    wx, wy = weights * x, weights * y
    mean_x, mean_y = wx.sum(1) / total, wy.sum(1) / total
    xx, yy, xy = (_summed(a, b) / total for a, b in ((wx, x), (wy, y), (wx, y)))
    var_x, var_y = xx - mean_x**2, yy - mean_y**2
    varies = (var_x > _ROUNDING * xx) & (var_y > _ROUNDING * yy)
    below = np.sqrt(np.where(varies, var_x * var_y, 1.0))
    return np.where(varies, (xy - mean_x * mean_y) / below, 0.0)


def _summed(a: Array, b: Array) -> Array:
    return np.einsum("bm,bm->b", a, np.broadcast_to(b, a.shape))
