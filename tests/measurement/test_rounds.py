"""One cell: what is right is timed, what is not is said, and the original's fastest path is the one to beat."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from pico import pico

import tenfold
from tenfold.measurement import paths
from tenfold.measurement.paths import Absent, Subject
from tenfold.measurement.record import COMPRESSED, ORIGINAL, Cell, Role
from tenfold.measurement.rounds import cell, compared, difference
from tenfold.measurement.settings import Settings
from tenfold.measurement.shapes import full, spread
from tenfold.measurement.timing import Call, wall

ROWS = [[7] * length for length in (4, 6, 9)]
SETTINGS = Settings(repeats=6, paths=("eager", "fused"))


class Named:
    """Stands for a Source: what a path asks of it."""

    def __init__(self, compressed: bool) -> None:
        self.compressed, self.name = compressed, "m"


def subjects(dtype: torch.dtype = torch.float32, method: str = "III-8") -> dict[Role, Subject]:
    small = pico("bert")
    tenfold.compress_(small, tenfold.plan(small, method), init="random")
    models: dict[Role, Any] = {ORIGINAL: pico("bert"), COMPRESSED: small}
    return {
        role: Subject(role, Named(role == COMPRESSED), model.to(dtype).requires_grad_(False), True, Path())  # type: ignore[arg-type]
        for role, model in models.items()
    }


def measured(settings: Settings = SETTINGS, **kw: Any) -> Cell:
    found = subjects(**kw)
    return cell(found, spread(ROWS, 3, pad=0), settings, wall, Random(0), lambda _: None)


def instead(monkeypatch: pytest.MonkeyPatch, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The fused path gives what the eager one gives, changed."""

    def path(subject: Subject, shape: Any) -> Any:  # noqa: ARG001
        def run(inputs: Any) -> Any:
            with torch.inference_mode():
                return (change(subject.model(**inputs)[0].clone()),)

        return run, subject.model

    monkeypatch.setitem(paths.PATHS, "fused", path)


def test_both_models_are_timed_and_held_against_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, lambda out: out * (1 + 1e-5))
    found = measured()
    assert (found.batch, found.length, found.label, found.tokens, found.dtype) == (3, 9, "text", 19, "float32")
    assert {(t.model, t.path): t.state for t in found.timings} == {
        (role, path): "timed" for role in (ORIGINAL, COMPRESSED) for path in ("eager", "fused")
    }
    for timing in found.timings:
        assert timing.calls == 6
        assert timing.median is not None
        assert timing.p95 is not None
        assert timing.first_seconds is not None
        assert timing.peak_bytes is not None
        assert 0 < timing.median <= timing.p95
        assert timing.throughput == 3 / timing.median
    eager, fused = found.timing(COMPRESSED, "eager"), found.timing(COMPRESSED, "fused")
    assert eager is not None and fused is not None
    assert eager.difference == 0
    assert fused.difference == pytest.approx(1e-5, rel=0.1)
    assert [(ratio.path, ratio.rounds) for ratio in found.speedups if ratio.best] == [("eager", 6), ("fused", 6)]


def test_wrong_outputs_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, lambda out: out * 1.01)
    found = measured()
    wrong = found.timing(COMPRESSED, "fused")
    assert wrong is not None
    assert (wrong.state, wrong.median, wrong.calls) == ("wrong", None, 0)
    assert wrong.difference == pytest.approx(0.01, rel=1e-3)
    assert wrong.why == "its outputs are 1.0e-02 from the eager path's, and 1e-03 is allowed"
    assert {ratio.path for ratio in found.speedups} == {"eager"}


def test_what_stands_on_padding_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(out: torch.Tensor) -> torch.Tensor:
        for row, length in enumerate(map(len, ROWS)):
            out[row, length:] = 1e9
        return out

    instead(monkeypatch, spoil)
    assert all(timing.state == "timed" for timing in measured().timings)


@pytest.mark.parametrize("change", [lambda out: out * float("nan"), lambda out: out[:, :-1]])
def test_no_numbers_and_other_shapes_are_wrong(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    instead(monkeypatch, change)
    wrong = measured().timing(COMPRESSED, "fused")
    assert wrong is not None
    assert (wrong.state, wrong.difference) == ("wrong", None)
    assert wrong.why == "its outputs are not numbers, or of another shape than the eager path's"


def test_a_path_that_is_not_there_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> Any:
        raise Absent("there is none")

    def broken(subject: Subject, shape: Any) -> Any:  # noqa: ARG001
        return partial(getattr, subject.model), subject.model

    monkeypatch.setitem(paths.PATHS, "fused", gone)
    monkeypatch.setitem(paths.PATHS, "onnx", broken)
    found = measured(Settings(repeats=6, paths=("eager", "fused", "onnx")))
    fused, onnx = found.timing(ORIGINAL, "fused"), found.timing(ORIGINAL, "onnx")
    assert fused is not None and onnx is not None
    assert (fused.state, fused.why) == ("absent", "there is none")
    assert onnx.state == "absent"
    assert onnx.why == "attribute name must be string, not 'dict'"
    assert {ratio.path for ratio in found.speedups} == {"eager"}


def test_a_compiler_that_is_missing_leaves_the_path_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "BACKEND", "no_such_backend")
    found = measured(Settings(repeats=6, paths=("compiled",)))
    assert [timing.state for timing in found.timings] == ["absent", "absent"]
    assert "no_such_backend" in found.timings[0].why
    assert found.speedups == ()


def test_compiled_and_folded_models_give_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With dynamo alone: the code that it would have compiled is run as it is."""
    monkeypatch.setattr(paths, "BACKEND", "eager")
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    found = measured(Settings(repeats=6, paths=("compiled", "fused")))
    states = {(t.model, t.path): t.state for t in found.timings}
    assert states == {
        (ORIGINAL, "compiled"): "timed", (COMPRESSED, "compiled"): "timed", (COMPRESSED, "fused"): "timed",
        (ORIGINAL, "fused"): "timed",
    }  # fmt: skip
    for timing in found.timings:
        assert timing.state == "absent" or timing.difference is not None
        assert timing.difference is None or timing.difference < 1e-5
        assert (timing.how == "dense blocks") == ((timing.model, timing.path) == (ORIGINAL, "fused"))


def test_half_precision_is_held_to_its_own_eager_path() -> None:
    found = measured(Settings(repeats=6), dtype=torch.bfloat16)
    assert found.dtype == "bfloat16"
    assert all(timing.state == "timed" for timing in found.timings)


def test_the_fastest_path_of_the_original_is_the_one_to_beat() -> None:
    def times(**medians: float) -> dict[Any, list[float]]:
        return {tuple(name.split("_")): [median] * 6 for name, median in medians.items()}

    found = compared(times(original_eager=3.0, original_compiled=2.0, compressed_eager=1.5, compressed_fused=1.0))
    estimates = {pair: ratio.estimate for pair, ratio in found.items()}
    assert estimates == pytest.approx({("eager", "eager"): 2.0, ("eager", "compiled"): 2 / 1.5, ("fused", "compiled"): 2.0})


def test_the_clock_times_the_call_of_the_path() -> None:
    """Its time is the number of calls of a linear layer: the factors of a tensor train cost the clock nothing more."""
    models = subjects()
    calls = dict.fromkeys(models, 0)
    for role, subject in models.items():
        subject.model.encoder.layer[0].register_forward_hook(lambda *_, role=role: calls.update({role: calls[role] + 1}))

    def clock(call: Call) -> float:
        before = sum(calls.values())
        call()
        return float(sum(calls.values()) - before)

    found = cell(models, full([models[ORIGINAL].model], 2, 8), Settings(repeats=9), clock, Random(0), lambda _: None)
    assert [(timing.median, timing.calls) for timing in found.timings] == [(1.0, 9), (1.0, 9)]
    assert calls[ORIGINAL] == calls[COMPRESSED] == 13, "reference, first call, peak, warm-up, and nine rounds"


def test_the_difference_is_relative_and_over_real_tokens() -> None:
    shape = spread(ROWS, 3, pad=0)
    a = torch.ones(3, 9, 2)
    b = a.clone()
    b[0, 4:] = 5
    assert difference(b, a, shape) == 0
    b[2, 0, 0] = 2
    assert difference(b, a, shape) == pytest.approx((1 / 38) ** 0.5)
    assert difference(torch.ones(3, 4) * 1.5, torch.ones(3, 4), shape) == pytest.approx(0.5)
