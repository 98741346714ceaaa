"""One batch x length x precision: every path of both models checked, warmed up and timed in turns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from random import Random
from time import perf_counter

import torch
from torch import Tensor

from tenfold.checkpoints import first_line
from tenfold.compression import Progress
from tenfold.measurement.memory import peak_bytes, weights_bytes
from tenfold.measurement.paths import COMPILED, EAGER, Absent, Ready, Subject, output, prepare
from tenfold.measurement.record import ABSENT, COMPRESSED, ORIGINAL, TIMED, WRONG, Cell, Role, Speedup, Timing
from tenfold.measurement.settings import Settings
from tenfold.measurement.shapes import Shape
from tenfold.measurement.statistics import FEWEST, Ratio, latency, ratio
from tenfold.measurement.timing import Call, Clock, interleave, warm_up

MOST = 1000
"""Rounds after which a cell ends: its interval takes the square of their number to work out."""
GROWTH = 1.15
"""Intervals are looked at after so many times more rounds than before: looking often would make them too hopeful."""

TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""How far outputs may be from the eager path's. In bfloat16 the eager path is itself 1 to 3% from exact arithmetic."""

Key = tuple[Role, str]
Times = Mapping[Key, list[float]]


@dataclass(frozen=True)
class Contender:
    """A path that gives the right outputs, and what is known of it before it is timed."""

    call: Call
    timing: Timing


def cell(subjects: Mapping[Role, Subject], shape: Shape, settings: Settings, clock: Clock, draw: Random, say: Progress) -> Cell:
    """All of one cell."""
    model = subjects[ORIGINAL].model
    shape, name = shape.to(model.device, model.dtype), f"batch {shape.batch}, length {shape.label}"
    if COMPILED in settings.paths:
        torch.compiler.reset()  # code for other shapes would count against the compiler's limit
    contenders: dict[Key, Contender] = {}
    others: list[Timing] = []
    for role, subject in subjects.items():
        expected = _expected(subject, shape)
        for path in settings.paths:
            say(f"{name}: {path} path of the {role} model")
            found = _contender(role, path, subject, shape, expected)
            if isinstance(found, Contender):
                contenders[role, path] = found
            else:
                others.append(found)
    say(f"{name}: timing")
    calls = {key: contender.call for key, contender in contenders.items()}
    warm_up(calls, clock, draw)
    times = interleave(calls, clock, Enough(settings), draw)
    timings = [_timed(contender.timing, times[key], shape.batch) for key, contender in contenders.items()]
    return Cell(
        shape.batch, shape.length, str(model.dtype).removeprefix("torch."), shape.label, shape.tokens,
        (*timings, *others), speedups(times),
    )  # fmt: skip


class Enough:
    """Whether a cell has its rounds: asked before each."""

    def __init__(self, settings: Settings, now: Callable[[], float] = perf_counter) -> None:
        self.settings, self.now, self.started, self.next = settings, now, now(), FEWEST

    def __call__(self, times: Times) -> bool:
        if not times:
            return True
        rounds = min(map(len, times.values()))
        if self.settings.repeats is not None:
            return rounds >= self.settings.repeats
        if rounds and (rounds >= MOST or self.now() - self.started >= self.settings.max_seconds):
            return True
        if rounds < self.next:
            return False
        self.next = max(rounds + 1, int(rounds * GROWTH))
        return all(found.width <= self.settings.interval for found in compared(times).values())


def compared(times: Times) -> dict[tuple[str, str], Ratio]:
    """(path of the compressed model, path of the original) -> the original's time over the compressed model's.

    With the same path, where the original has it, and with the original's fastest one.
    """
    original = {path: seconds for (role, path), seconds in times.items() if role == ORIGINAL}
    ours = {path: seconds for (role, path), seconds in times.items() if role == COMPRESSED}
    if not original:
        return {}
    pairs = [(path, against) for path in ours for against in dict.fromkeys((path, fastest(times))) if against in original]
    return {(path, against): ratio(original[against], ours[path]) for path, against in pairs}


def fastest(times: Times) -> str:
    """The original's path with the smallest median."""
    original = {path: latency(seconds).median for (role, path), seconds in times.items() if role == ORIGINAL}
    return min(original, key=lambda path: original[path])


def speedups(times: Times) -> tuple[Speedup, ...]:
    return tuple(
        _speedup(path, against, against == fastest(times), found) for (path, against), found in compared(times).items()
    )


def _speedup(path: str, against: str, best: bool, found: Ratio) -> Speedup:
    low, high = (found.low, found.high) if isfinite(found.high) else (None, None)
    return Speedup(path, against, best, found.estimate, low, high, found.rounds, found.verdict)


def _expected(subject: Subject, shape: Shape) -> Tensor | None:
    """What the eager path gives; None where it does not run."""
    try:
        return output(prepare(EAGER, subject, shape).run(shape.inputs))
    except Exception:  # _contender runs it again and says why
        return None


def _contender(role: Role, path: str, subject: Subject, shape: Shape, expected: Tensor | None) -> Contender | Timing:
    """Ready to be timed, or why not. The first call compiles and warms up."""
    timing = Timing(role, path, ABSENT)
    device = subject.model.device
    try:
        ready = prepare(path, subject, shape)
        start = perf_counter()
        found = output(ready.run(shape.inputs)).cpu()
        timing = replace(timing, prepare_seconds=ready.seconds, first_seconds=perf_counter() - start, how=ready.how)
        error = None if expected is None else difference(found, expected.cpu(), shape)
        tolerance = TOLERANCE[subject.model.dtype]
        if error is None or not error <= tolerance:
            return replace(timing, state=WRONG, difference=_finite(error), why=_why(error, tolerance))
        peak = _peak(ready, shape, device)
    except Absent as why:
        return replace(timing, why=str(why))
    except Exception as failure:  # out of memory, no compiler, no kernel for a precision: whatever a run may meet
        return replace(timing, why=first_line(failure))
    run, inputs = ready.run, shape.inputs
    return Contender(lambda: run(inputs), replace(timing, state=TIMED, peak_bytes=peak, difference=error))


def difference(found: Tensor, expected: Tensor, shape: Shape) -> float:
    """|found - expected| / |expected| over real tokens; infinity for another shape, NaN where a number is."""
    if found.shape != expected.shape:
        return float("inf")
    mask = shape.inputs.get("attention_mask")
    a, b = found.double(), expected.double()
    if mask is not None and a.shape[:2] == mask.shape:
        real = mask.cpu().bool()
        a, b = a[real], b[real]
    return float((a - b).norm() / b.norm())


def _why(error: float | None, tolerance: float) -> str:
    if error is None:
        return "there is no eager path to hold its outputs against"
    if not isfinite(error):
        return "its outputs are not numbers, or of another shape than the eager path's"
    return f"its outputs are {error:.1e} from the eager path's, and {tolerance:.0e} is allowed"


def _finite(error: float | None) -> float | None:
    return error if error is not None and isfinite(error) else None


def _peak(ready: Ready, shape: Shape, device: torch.device) -> int | None:
    if ready.model is None:
        return None
    return weights_bytes(ready.model) + peak_bytes(lambda: ready.run(shape.inputs), device)


def _timed(timing: Timing, seconds: list[float], batch: int) -> Timing:
    found = latency(seconds)
    return replace(timing, median=found.median, p95=found.p95, calls=found.calls, throughput=batch / found.median)
