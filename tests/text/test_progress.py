"""What is said while text is read."""

import pytest

from tenfold.text import progress
from tenfold.text.progress import Meter, duration


def test_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    now, said = 100.0, list[str]()
    monkeypatch.setattr(progress, "monotonic", lambda: now)
    meter = Meter(said.append, size=1000, limit=None)
    meter.update(1, 1)
    now += 30
    meter.update(250, 2_000_000)
    meter.update(260, 2_100_000)
    now += 60
    meter.update(1000, 8_000_000)
    meter.end(8_000_001, 64_000)
    assert said == [
        "tokenising: 2.0 M tokens, 25%, about 1 min 30 s left",
        "tokenising: 8.0 M tokens, 100%, about 0 s left",
        "tokenised 8,000,001 tokens into 64,000 rows in 1 min 30 s",
    ]


@pytest.mark.parametrize(
    ("size", "limit", "line"),
    [(0, None, ""), (0, 4_000_000, ", 50%, about 2 s left"), (10**9, 4_000_000, ", 50%, about 2 s left")],
)
def test_a_limit_and_an_unknown_size(monkeypatch: pytest.MonkeyPatch, size: int, limit: int | None, line: str) -> None:
    now, said = 0.0, list[str]()
    monkeypatch.setattr(progress, "monotonic", lambda: now)
    meter = Meter(said.append, size, limit)
    now = 2.0
    meter.update(0, 2_000_000)
    assert said == [f"tokenising: 2.0 M tokens{line}"]


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.6, 61, 3600, 7325)] == ["0 s", "1 min 0 s", "1 min 1 s", "1 h 0 min", "2 h 2 min"]
