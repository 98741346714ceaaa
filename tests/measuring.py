"""A measurement that was never measured, and a clock that tells work instead of time."""

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from tenfold.measurement.record import Cell, Counts, Flops, Measurement, Speedup, Throughput, Timing


class Operations(TorchDispatchMode):
    """Counts what torch is asked to do."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def work(call: Callable[[], object]) -> float:
    """A clock that ticks once an operation."""
    with Operations() as seen:
        call()
    return float(seen.count)


def timing(model: Any, path: str, batch: int, seconds: float) -> Timing:
    return Timing(model, path, "timed", "", seconds, 1.2 * seconds, 20, batch / seconds, 1000 * batch, 0.0, 0.1, 0.2)


def cell(batch: int, length: int, ratio: float) -> Cell:
    seconds = 1e-3 * batch * length / 32
    timings = (
        timing("original", "eager", batch, seconds),
        timing("compressed", "eager", batch, seconds / ratio),
        timing("compressed", "onnx", batch, 0.8 * seconds / ratio),
        Timing("original", "onnx", "absent", "it needs onnxruntime"),
        Timing("compressed", "fused", "wrong", "its outputs are 1.0e-02 from the eager path's", difference=0.01),
    )
    verdict: Any = "faster" if ratio > 1 else "slower"
    speedups = (
        Speedup("eager", "eager", True, ratio, ratio - 0.1, ratio + 0.1, 20, verdict),
        Speedup("onnx", "eager", True, 1.25 * ratio, None, None, 20, "no difference shown"),
    )
    return Cell(batch, length, "float32", str(length), batch * length, timings, speedups)


def measurement(cells: tuple[Cell, ...] | None = None) -> Measurement:
    found = cells or tuple(cell(batch, length, 0.5 + batch / 4) for length in (32, 128) for batch in (1, 8, 32))
    return Measurement(
        command=["tenfold", "measure"],
        time="2026-01-31T12:00:00+00:00",
        versions={"tenfold": "0.1"},
        machine={"cpu": "a", "cores": 2, "threads": 1, "device": "cpu", "system": "b", "peak_rss_bytes": 5},
        settings={"batches": [1, 8, 32]},
        seconds=1.5,
        original=Counts("o", None, "BertModel", {"model": 100, "paper": 80, "matrices": 60}, 400, {"float32": 400}),
        compressed=Counts("c", "III-4", "BertModel", {"model": 50, "paper": 30, "matrices": 10}, 200, {"float32": 200}),
        flops=(Flops("original", "eager", 32, 90, 100, 10), Flops("compressed", "eager", 32, 40, 50, 10)),
        cells=found,
        throughput=(Throughput("original", "eager", "32", "float32", 32, 1000.0, 32000),),
        crossovers=("eager, float32: slower than the original (eager) below batch 2 at length 32",),
        notes=("a note",),
    )
