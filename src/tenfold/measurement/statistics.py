"""From interleaved timings to a ratio with an interval.

A round gives one time for each contender, taken within moments of each other. What slows a machine (a neighbour, a clock that
drops) slows both sides of a round, so the ratio of a round is steadier than either time. From the log ratios d_1 .. d_n of n
rounds:

estimate  median of the Walsh averages (d_i + d_j) / 2, i <= j            (Hodges and Lehmann 1963)
interval  from the k-th smallest to the k-th largest Walsh average, k the Wilcoxon signed-rank quantile

It is exact for any noise that is symmetric on the log scale, and the difference of two log times with the same kind of noise
is; a t interval on the mean is not, for the time of a call now and then is many times the usual one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, exp, inf, sqrt
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
FEWEST = 6
"""Rounds below which no interval of 95 % exists."""

_EXACT = 60
"""Rounds up to which the distribution is summed up; the normal approximation is within one Walsh average from there."""

FASTER: Final = "faster"
SLOWER: Final = "slower"
OPEN: Final = "no difference shown"
Verdict = Literal["faster", "slower", "no difference shown"]


@dataclass(frozen=True)
class Ratio:
    """Time of one contender over time of another: above 1 the other is faster."""

    estimate: float
    low: float
    high: float
    rounds: int

    @property
    def width(self) -> float:
        """Of the interval, as a share of the estimate."""
        return (self.high - self.low) / self.estimate

    @property
    def verdict(self) -> Verdict:
        """Of the other contender, as far as the interval tells."""
        if self.low > 1:
            return FASTER
        return SLOWER if self.high < 1 else OPEN


@dataclass(frozen=True)
class Latency:
    """Seconds of a call: the median and the 95th percentile over `calls` of them."""

    median: float
    p95: float
    calls: int


def latency(seconds: Sequence[float]) -> Latency:
    median, p95 = np.quantile(seconds, [0.5, 0.95])
    return Latency(float(median), float(p95), len(seconds))


def ratio(numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """numerator / denominator over rounds; element r of both is from round r. Without an interval below FEWEST rounds."""
    logs = np.log(np.asarray(numerators, float)) - np.log(np.asarray(denominators, float))
    n = len(logs)
    upper = np.triu_indices(n)
    walsh = np.sort((logs[upper[0]] + logs[upper[1]]) / 2)
    k = _rank(n, confidence)
    low, high = (walsh[k - 1], walsh[-k]) if k else (-inf, inf)
    return Ratio(exp(float(np.median(walsh))), exp(low), exp(high), n)


@cache
def _rank(n: int, confidence: float) -> int:
    """The largest k with P(signed-rank statistic < k) <= (1 - confidence) / 2; 0 where there is none."""
    tail = (1 - confidence) / 2
    if n > _EXACT:
        mean, deviation = n * (n + 1) / 4, sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(ceil(mean + NormalDist().inv_cdf(tail) * deviation), 0)
    return int(np.searchsorted(np.cumsum(_signed_rank(n)), tail, side="right"))


def _signed_rank(n: int) -> NDArray[np.float64]:
    """P(statistic = t) for t = 0 .. n (n + 1) / 2: each rank is in the sum or not, with even chances."""
    chances = np.ones(1)
    for rank in range(1, n + 1):
        without = np.pad(chances, (0, rank))
        within = np.pad(chances, (rank, 0))
        chances = (without + within) / 2
    return chances
