"""Contenders in turns, on clocks whose truth is planted."""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

import pytest
import torch

from tenfold.measurement.rounds import MOST, Enough, compared
from tenfold.measurement.settings import Settings
from tenfold.measurement.statistics import Ratio
from tenfold.measurement.timing import interleave, wall, warm_up

ORIGINAL, COMPRESSED = ("original", "eager"), ("compressed", "eager")


class World:
    """A machine on which a call takes its planted seconds times noise; `at(call number)` is what else slows it."""

    def __init__(self, seed: int, noise: float = 0.05, at: Callable[[int], float] = lambda _: 1.0) -> None:
        self.draw, self.noise, self.at, self.calls, self.seconds = Random(seed), noise, at, 0, 0.0

    def clock(self, call: Callable[[], object]) -> float:
        planted = call()
        assert isinstance(planted, float)
        found = planted * self.draw.lognormvariate(0, self.noise) * self.at(self.calls)
        self.calls += 1
        self.seconds += found
        return found

    def race(self, original: float, compressed: float, settings: Settings, draw: Random | None = None) -> Ratio:
        enough = Enough(settings, lambda: self.seconds)
        calls: Mapping[tuple[str, str], Callable[[], object]] = {ORIGINAL: lambda: original, COMPRESSED: lambda: compressed}
        times = interleave(calls, self.clock, enough, draw or Random(1))  # type: ignore[arg-type]
        return compared(times)["eager", "eager"]  # type: ignore[arg-type]


class InOrder(Random):
    """What a loop without a random order would do."""

    def shuffle(self, x: object) -> None:
        pass


def test_a_planted_factor_of_two_is_found() -> None:
    found = World(0).race(2.0, 1.0, Settings(interval=0.02, max_seconds=1e9))
    assert found.low < 2 < found.high
    assert found.width <= 0.02
    assert found.verdict == "faster"


def test_a_machine_that_slows_down_slows_both() -> None:
    """To a tenth of its speed: each time alone says nothing, the ratio is as sharp as before."""
    found = World(0, at=lambda call: 1 + call / 20).race(2.0, 1.0, Settings(repeats=100))
    assert found.low < 2 < found.high
    assert found.width < 0.04


def test_who_comes_first_in_a_round_does_not_matter() -> None:
    """The first of two takes 30% longer. In a fixed order that would be the outcome; in a random one it is noise."""

    def first(call: int) -> float:
        return 1.3 if call % 2 == 0 else 1.0

    fixed = World(0, at=first).race(1.0, 1.0, Settings(repeats=200), InOrder())
    assert fixed.low > 1.2
    drawn = World(0, at=first).race(1.0, 1.0, Settings(repeats=200))
    assert drawn.low < 1 < drawn.high


def test_a_model_against_itself_is_as_fast_as_itself() -> None:
    """In at least 90 of 100 runs that stop by themselves, for an interval of 95% that is looked at several times."""
    inside = 0
    for seed in range(100):
        found = World(seed, noise=0.04).race(1.0, 1.0, Settings(interval=0.05, max_seconds=1e9), Random(seed))
        inside += found.low <= 1 <= found.high
    assert inside >= 90


def test_a_cell_ends_by_rounds_by_width_or_by_time() -> None:
    assert World(0).race(2.0, 1.0, Settings(repeats=7)).rounds == 7
    assert World(0, noise=0.001).race(2.0, 1.0, Settings()).rounds == 6
    slow = World(0, noise=1.0).race(20.0, 10.0, Settings(max_seconds=100))
    assert slow.rounds < 6
    assert slow.high == float("inf")
    assert World(0, noise=3.0).race(2.0, 1.0, Settings(max_seconds=1e9)).rounds == MOST


def test_with_nobody_to_time_there_are_no_rounds() -> None:
    assert interleave({}, wall, Enough(Settings()), Random(0)) == {}
    assert compared({}) == {}


def test_every_round_has_every_contender_once_in_changing_order() -> None:
    seen: list[str] = []
    calls = {name: partial(seen.append, name) for name in "abc"}
    times = interleave(calls, wall, lambda times: len(times["a"]) == 50, Random(0))
    rounds = [tuple(seen[k : k + 3]) for k in range(0, 150, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) == 6
    assert {name: len(found) for name, found in times.items()} == {"a": 50, "b": 50, "c": 50}


def test_warming_up_is_one_round() -> None:
    seen: list[str] = []
    warm_up({name: partial(seen.append, name) for name in "ab"}, wall, Random(0))
    assert sorted(seen) == ["a", "b"]


def test_the_wall_clock_takes_the_time_of_the_call() -> None:
    x = torch.randn(600, 600)
    few, many = wall(lambda: x @ x), wall(lambda: [x @ x for _ in range(40)])
    assert 0 < few < many


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_the_clock_of_a_gpu_waits_for_it() -> None:
    from tenfold.measurement.timing import cuda

    x = torch.randn(4096, 4096, device="cuda")
    cuda(lambda: x @ x)
    few, many = cuda(lambda: x @ x), cuda(lambda: [x @ x for _ in range(40)])
    assert 10 * few < many
