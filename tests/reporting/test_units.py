"""Numbers as text."""

import math

import pytest

from tenfold.reporting import units


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (0.012345, "0.0123"), (1.2345, "1.23"), (23.04, "23.0"), (1234.5, "1,234"), (-0.5, "-0.500"), (math.nan, "nan")],
)
def test_three_significant_digits(value: float, shown: str) -> None:
    assert units.digits(value) == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (22_713_216, "", "22.7M"),
        (45_400_000, "B", "45.4 MB"),
        (22_347_251_712, "FLOP", "22.3 GFLOP"),
        (999, "", "999"),
        (1000, "", "1.00k"),
        (3.14159, "", "3.14"),
        (0, "B", "0 B"),
    ],
)
def test_prefixes(value: float, unit: str, shown: str) -> None:
    assert units.prefixed(value, unit) == shown


def test_shares_and_parts() -> None:
    assert units.share(0.140625) == "0.141 (1/7.1)"
    assert units.share(1.2) == "1.200"
    assert units.part(0.140625) == "1/7.1"
    assert units.part(0.598) == "60%"


def test_times() -> None:
    assert units.seconds(0.0123) == "12.3 ms"
    assert units.seconds(2.5) == "2.50 s"
    assert [units.duration(value) for value in (2.5, 296.4, 9000)] == ["2.5 s", "5 min", "2.5 h"]
    assert units.moment("2026-02-03T05:05:06+01:00") == "2026-02-03 04:05 UTC"
    assert units.moment("yesterday") == "yesterday"


def test_scores_and_commands() -> None:
    assert units.score(61.74) == "61.7"
    assert units.score(61.74, 0.42) == "61.7 ± 0.4"
    assert units.shell(["tenfold", "compress", "a b"]) == "tenfold compress 'a b'"
