"""Runs and their originals as points: what each costs and how good it is, on axes that they share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final, Literal

from tenfold.measurement.record import COMPRESSED, TIMED, Cell, Measurement
from tenfold.planning.plan import MATRICES, MODEL, PAPER
from tenfold.reporting.collect import Run
from tenfold.reporting.records import Alike

COST: Final = "cost"
QUALITY: Final = "quality"
ORIGINAL_FORM = "original"
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


@dataclass(frozen=True)
class Point:
    """One model; `form` is "original" for one that others were made from. What it was not measured in is not in `values`."""

    name: str
    form: str
    method: str
    values: dict[Axis, float] = field(hash=False)


@dataclass(frozen=True)
class Fact:
    axis: Axis
    original: float | None
    own: float | None


def points(runs: Sequence[Run]) -> list[Point]:
    """Originals first, each once, then every run, each after what it was while it was taught (where agreement.json tells)."""
    originals: dict[str, Point] = {}
    made = []
    for run in runs:
        facts = [*costs(run), *qualities(run)]
        made += [*_before(run, facts), Point(run.name, run.form, run.method, _given((f.axis, f.own) for f in facts))]
        name = original_name(run)
        known = originals.setdefault(name, Point(name, ORIGINAL_FORM, "the original", {}))
        originals[name] = replace(known, values={**known.values, **_new(known, _given((f.axis, f.original) for f in facts))})
    return [*(point for point in originals.values() if point.values), *made]


def axes(found: Iterable[Point], kind: str) -> list[Axis]:
    """Those of one kind on which some point lies, in the order of their first appearance."""
    return [axis for axis in dict.fromkeys(axis for point in found for axis in point.values) if axis.kind == kind]


def original_name(run: Run) -> str:
    """The last part of what was typed: a path would not fit."""
    name = run.original or (run.measurement.original.name if run.measurement else None)
    return PurePath(name).name or name if name else "original"


def costs(run: Run) -> Iterator[Fact]:
    for scope, count in reversed(run.parameters.items()):
        axis = Axis(f"parameters:{scope}", f"parameters ({LABELS[scope]})", COST, headline=scope != PAPER)
        yield Fact(axis, count.before, count.after)
    if run.disk is not None:
        yield Fact(Axis("disk", "weights on disk", COST, "B"), run.disk.before, run.disk.after)
    if run.flops is not None:
        yield Fact(Axis("flops", "FLOPs of 128 tokens", COST, "FLOP"), run.flops.before, run.flops.after)
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
        axis = Axis(f"score:average:{name}", f"average of tasks ({name})", QUALITY, "", "higher")
        yield Fact(axis, average.teacher.mean if average.teacher else None, average.mean)
    for task, entry in (run.scores.tasks if run.scores else {}).items():
        for split, found in entry.splits.items():
            for metric in entry.metrics:
                label, first = f"{task} ({split}): {metric}", metric == entry.metrics[0]
                axis = Axis(f"score:{task}:{split}:{metric}", label, QUALITY, "", "higher", first)
                yield Fact(axis, found.teacher.scores.get(metric) if found.teacher else None, found.mean.get(metric))
    own = own_agreement(run)
    for key, label in ALIKE.items() if run.agreement else ():
        yield Fact(Axis(f"alike:{key}", label, QUALITY, "", "higher", key != "rank_correlation"), 1.0, getattr(own, key, None))
    if not run.taught:
        for what, lost in lost_shares(run).items():
            axis = Axis(f"lost:{what}", f"lost of the {what} by compressing", QUALITY, "%")
            yield Fact(axis, 0.0, 100 * lost)


def own_agreement(run: Run) -> Alike | None:
    """The last row, unless a task stage or fine-tuning came after it: those look at scores instead."""
    last = run.history[-1] if run.history else {}
    on_task = last.get("verb") == "finetune" or last.get("settings", {}).get("stage") == "task"
    return run.agreement.rows[-1] if run.agreement and run.agreement.rows and not on_task else None


def lost_shares(run: Run) -> dict[str, float]:
    """Over groups, by their number of parameters."""
    sizes = {group.name: group.dense for group in run.plan.groups} if run.plan else {}
    fits = [fit for fit in run.fits if fit.group in sizes]
    total = sum(sizes[fit.group] for fit in fits)
    found = {"weights": sum(sizes[fit.group] * fit.weight_error for fit in fits) / total} if fits else {}
    outputs = [sizes[fit.group] * fit.output_error for fit in fits if fit.output_error is not None]
    return {**found, "outputs": sum(outputs) / total} if outputs and len(outputs) == len(fits) else found


def speed_range(measurement: Measurement) -> tuple[float, float] | None:
    """The least and the most that the fastest path gains over the original's fastest, over all cells; above 1 is faster."""
    best = [[each.estimate for each in cell.speedups if each.best] for cell in measurement.cells]
    found = [max(estimates) for estimates in best if estimates]
    return (min(found), max(found)) if found else None


def _before(run: Run, facts: Sequence[Fact]) -> list[Point]:
    """The models on the way: as large as the result, and as alike as agreement.json says."""
    rows = run.agreement.rows if run.agreement else ()
    kept = {fact.axis: fact.own for fact in facts if fact.axis.kind == COST}
    found = []
    for row in rows[:-1] if own_agreement(run) else rows:
        alike = {
            fact.axis: getattr(row, fact.axis.key.removeprefix("alike:")) for fact in facts if fact.axis.key[:6] == "alike:"
        }
        found.append(Point(f"{run.name} ({row.name})", run.form, run.method, _given({**kept, **alike}.items())))
    return found


def _new(known: Point, values: dict[Axis, float]) -> dict[Axis, float]:
    """Of a model that two runs name, the first run's numbers stand."""
    return {axis: value for axis, value in values.items() if axis not in known.values}


def _given(values: Iterable[tuple[Axis, float | None]]) -> dict[Axis, float]:
    return {axis: value for axis, value in values if value is not None}
