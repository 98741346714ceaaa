"""The ratio and its interval against scipy's signed-rank test, against its printed table, and by coverage."""

from math import exp, inf, log

import numpy as np
import pytest
from scipy.stats import wilcoxon

from tenfold.measurement.statistics import CONFIDENCE, FASTER, FEWEST, OPEN, SLOWER, Ratio, _rank, latency, ratio


@pytest.mark.parametrize(("n", "critical"), [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52), (25, 89), (30, 137)])
def test_the_rank_is_one_above_the_critical_value_of_the_printed_table(n: int, critical: int) -> None:
    assert _rank(n, CONFIDENCE) == critical + 1


@pytest.mark.parametrize("n", [6, 9, 17, 40])
def test_the_interval_holds_what_the_exact_test_does_not_reject(n: int) -> None:
    draw = np.random.default_rng(n)
    logs = draw.normal(0.2, 0.3, n)
    found = ratio(np.exp(logs).tolist(), [1.0] * n)
    step = 1e-7

    def p(theta: float) -> float:
        return float(wilcoxon(logs - theta, method="exact").pvalue)

    for inside, outside in ((log(found.low) + step, log(found.low) - step), (log(found.high) - step, log(found.high) + step)):
        assert p(inside) > 1 - CONFIDENCE >= p(outside)


def test_the_normal_approximation_is_the_exact_distribution_s_neighbour() -> None:
    draw = np.random.default_rng(3)
    logs = draw.normal(0, 1, 100)
    found = ratio(np.exp(logs).tolist(), [1.0] * 100)
    for end in (found.low, found.high):
        assert wilcoxon(logs - log(end), method="exact").pvalue == pytest.approx(0.05, abs=0.003)


def test_the_estimate_is_the_median_of_all_averages_of_two() -> None:
    logs = [0.1, 0.5, 3.0]
    averages = sorted((a + b) / 2 for k, a in enumerate(logs) for b in logs[k:])
    assert ratio([exp(x) for x in logs], [1, 1, 1]).estimate == pytest.approx(exp((averages[2] + averages[3]) / 2))


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """With noise that now and then makes a call many times as long, as machines do."""
    draw = np.random.default_rng(0)
    noise = draw.standard_t(2, (2, 2000, 12)) * 0.05
    inside = [found.low <= 2 <= found.high for a, b in zip(*noise, strict=True) if (found := ratio(2 * np.exp(a), np.exp(b)))]
    assert 0.94 <= np.mean(inside) <= 0.97


def test_swapping_the_contenders_turns_the_ratio_over() -> None:
    a, b = [3.0, 3.3, 2.9, 3.1, 3.2, 3.0], [1.0, 1.2, 0.9, 1.0, 1.1, 1.05]
    there, back = ratio(a, b), ratio(b, a)
    assert (there.estimate, there.low, there.high) == pytest.approx((1 / back.estimate, 1 / back.high, 1 / back.low))
    assert (there.verdict, back.verdict) == (FASTER, SLOWER)


def test_below_six_rounds_there_is_an_estimate_and_no_interval() -> None:
    found = ratio([2.0] * (FEWEST - 1), [1.0] * (FEWEST - 1))
    assert (found.estimate, found.low, found.high, found.verdict) == (2, 0, inf, OPEN)
    assert found.width == inf
    assert ratio([2.0] * FEWEST, [1.0] * FEWEST) == Ratio(2, 2, 2, FEWEST)


def test_latency_is_the_median_and_the_95th_percentile() -> None:
    found = latency([float(k) for k in range(101)])
    assert (found.median, found.p95, found.calls) == (50, 95, 101)
