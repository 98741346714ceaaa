"""Where the compressed model is slower, in words, and the batch that answers most."""

from collections.abc import Sequence

import pytest

from tenfold.measurement.record import Cell, Speedup, Timing
from tenfold.measurement.summary import crossovers, throughputs


def cell(batch: int, ratio: float, label: str = "32", sure: bool = True, path: str = "eager") -> Cell:
    verdict = ("faster" if ratio > 1 else "slower") if sure else "no difference shown"
    found = Speedup(path, "compiled", True, ratio, ratio - 0.01, ratio + 0.01, 20, verdict)  # type: ignore[arg-type]
    same = Speedup(path, "eager", False, 3.0, 2.9, 3.1, 20, "faster")
    return Cell(batch, 32, "float32", label, 32 * batch, (), (same, found))


@pytest.mark.parametrize(
    ("ratios", "where"),
    [
        ([(1, 0.5), (16, 2.0)], "below batch 4 at length 32"),
        ([(1, 0.9), (2, 0.99), (8, 1.2)], "below batch 3 at length 32"),
        ([(4, 2.0), (1, 1.5), (16, 0.5)], "above batch 8 at length 32"),
        ([(1, 0.5), (8, 0.9)], "at every batch measured at length 32"),
        ([(8, 0.5)], "at batch 8 at length 32"),
        ([(1, 0.5), (4, 1.5), (8, 0.5)], "at batch 1, 8 at length 32"),
    ],
)
def test_a_line_says_where_it_is_slower_than_the_fastest_path(ratios: Sequence[tuple[int, float]], where: str) -> None:
    (line,) = crossovers([cell(batch, ratio) for batch, ratio in ratios])
    assert line == f"eager, float32: slower than the original (compiled) {where}"


def test_what_is_not_shown_is_not_said() -> None:
    assert crossovers([cell(1, 0.98, sure=False), cell(8, 1.5)]) == ()
    (line,) = crossovers([cell(1, 0.5), cell(8, 0.98, sure=False)])
    assert line.endswith("below batch 8 at length 32")
    (line,) = crossovers([cell(1, 0.98, sure=False), cell(8, 0.5)])
    assert line.endswith("above batch 1 at length 32")


def test_each_length_and_path_has_a_line_of_its_own() -> None:
    lines = crossovers([cell(1, 0.5), cell(1, 0.5, label="text"), cell(1, 0.5, path="fused"), cell(1, 1.5, label="64")])
    assert [line.split(": ")[0] for line in lines] == ["eager, float32", "eager, float32", "fused, float32"]
    assert lines[1].endswith("at batch 1 (text)")


def test_the_best_throughput_is_within_the_memory_limit() -> None:
    def timed(batch: int, seconds: float, peak: int | None, path: str = "eager") -> Cell:
        found = Timing("original", path, "timed", "", seconds, seconds, 9, batch / seconds, peak)
        wrong = Timing("compressed", path, "wrong", "its outputs are not numbers")
        return Cell(batch, 32, "float32", "32", 32 * batch, (found, wrong), ())

    cells = [timed(1, 1.0, 100), timed(8, 2.0, 800), timed(32, 4.0, 3200), timed(8, 1.0, None, "onnx")]
    eager, onnx = throughputs(cells, None)
    assert (eager.batch, eager.sequences_per_second, eager.peak_bytes) == (32, 8.0, 3200)
    assert (onnx.path, onnx.sequences_per_second) == ("onnx", 8.0)
    (best,) = throughputs(cells, 1000)
    assert (best.path, best.batch) == ("eager", 8)
    assert throughputs(cells, 10) == ()
