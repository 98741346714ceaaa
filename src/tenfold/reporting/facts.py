"""The numbers that a run and its original have, each on an axis that it shares with other runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tenfold.measurement.record import COMPRESSED, TIMED, Cell, Measurement
from tenfold.planning.plan import MATRICES, MODEL, PAPER
from tenfold.reporting.collect import Run
from tenfold.reporting.records import Alike

COST: Final = "cost"
QUALITY: Final = "quality"
LABELS = {MODEL: "all", PAPER: "without word table", MATRICES: "matrices"}
ALIKE = {
    "cosine": "cosine of sentence vectors",
    "rank_correlation": "rank correlation of similarities",
    "neighbours_kept": "nearest neighbours kept",
}


@dataclass(frozen=True)
class Axis:
    """One number that models have. `unit` stands behind it with a prefix: B, FLOP, ms; `headline`: for a short table."""

    key: str
    label: str
    kind: Literal["cost", "quality"]
    unit: str = ""
    better: Literal["lower", "higher"] = "lower"
    headline: bool = True


def parameters_axis(scope: str) -> Axis:
    return Axis(f"parameters:{scope}", f"parameters ({LABELS[scope]})", COST, headline=scope != PAPER)


SIZE = parameters_axis(MODEL)
DISK = Axis("disk", "weights on disk", COST, "B")
FLOPS = Axis("flops", "FLOPs of 128 tokens", COST, "FLOP")


@dataclass(frozen=True)
class Fact:
    axis: Axis
    original: float | None
    own: float | None


def score_axis(task: str, split: str, metric: str, headline: bool) -> Axis:
    return Axis(f"score:{task}:{split}:{metric}", f"{task} ({split}): {metric}", QUALITY, "", "higher", headline)


def average_axis(name: str) -> Axis:
    return Axis(f"score:average:{name}", f"average of tasks ({name})", QUALITY, "", "higher")


def lost_axis(what: str) -> Axis:
    return Axis(f"lost:{what}", f"lost of the {what} by compressing", QUALITY, "%")


def costs(run: Run) -> Iterator[Fact]:
    for scope, count in reversed(run.parameters.items()):
        yield Fact(parameters_axis(scope), count.before, count.after)
    if run.disk is not None:
        yield Fact(DISK, run.disk.before, run.disk.after)
    if run.flops is not None:
        yield Fact(FLOPS, run.flops.before, run.flops.after)
    if run.measurement is not None:
        yield from _times(run.measurement)


def _times(measurement: Measurement) -> Iterator[Fact]:
    for cell in measurement.cells:
        for timing in cell.timings:
            if timing.model != COMPRESSED or timing.state != TIMED or timing.median is None:
                continue
            other, place = cell.timing("original", timing.path), f"{timing.path}, {place_of(cell)}"
            before = None if other is None or other.median is None else 1e3 * other.median
            yield Fact(
                Axis(f"time:{place}", f"time of a call ({place})", COST, "ms", headline=False), before, 1e3 * timing.median
            )
            best = cell.speedup(timing.path, best=True)
            if best is not None:
                label = f"time over the original's best ({place})"
                yield Fact(Axis(f"relative:{place}", label, COST, headline=False), 1.0, 1 / best.estimate)


def place_of(cell: Cell) -> str:
    """`8 x 128, float32`."""
    return f"{cell.batch} x {cell.label}, {cell.dtype}"


def qualities(run: Run) -> Iterator[Fact]:
    for name, average in (run.scores.averages if run.scores else {}).items():
        axis = average_axis(name)
        yield Fact(axis, average.teacher.mean if average.teacher else None, average.mean)
    for task, entry in (run.scores.tasks if run.scores else {}).items():
        for split, found in entry.splits.items():
            for metric in entry.metrics:
                axis = score_axis(task, split, metric, metric == entry.metrics[0])
                yield Fact(axis, found.teacher.scores.get(metric) if found.teacher else None, found.mean.get(metric))
    own = own_agreement(run)
    for key, label in ALIKE.items() if run.agreement else ():
        yield Fact(Axis(f"alike:{key}", label, QUALITY, "", "higher", key != "rank_correlation"), 1.0, getattr(own, key, None))
    if not run.taught:
        for what, lost in lost_shares(run).items():
            yield Fact(lost_axis(what), 0.0, 100 * lost)


def own_agreement(run: Run) -> Alike | None:
    """The last row, unless a task stage or fine-tuning came after it: those look at scores instead."""
    last = run.last or run.compression
    on_task = last.verb == "finetune" or last.settings.get("stage") == "task"
    return run.agreement.rows[-1] if run.agreement and run.agreement.rows and not on_task else None


def lost_shares(run: Run) -> dict[str, float]:
    """Over groups, by their number of parameters."""
    sizes = {group.name: group.dense for group in run.plan.groups} if run.plan else {}
    fits = [fit for fit in run.compression.fits if fit.group in sizes]
    total = sum(sizes[fit.group] for fit in fits)
    found = {"weights": sum(sizes[fit.group] * fit.weight_error for fit in fits) / total} if fits else {}
    outputs = [sizes[fit.group] * fit.output_error for fit in fits if fit.output_error is not None]
    return {**found, "outputs": sum(outputs) / total} if outputs and len(outputs) == len(fits) else found


def speed_range(measurement: Measurement) -> tuple[float, float] | None:
    """The least and the most that the fastest path gains over the original's fastest, over all cells; above 1 is faster."""
    best = [[each.estimate for each in cell.speedups if each.best] for cell in measurement.cells]
    found = [max(estimates) for estimates in best if estimates]
    return (min(found), max(found)) if found else None
