"""Runs and their originals as points: what each costs and how good it is, on axes that they share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from tenfold.reporting.collect import DENSE, Run, form_of
from tenfold.reporting.facts import (
    COST,
    DISK,
    FLOPS,
    SIZE,
    Axis,
    Fact,
    average_axis,
    costs,
    lost_axis,
    own_agreement,
    parameters_axis,
    qualities,
    score_axis,
)
from tenfold.reporting.records import TEACHER, Look, Prediction, Results

ORIGINAL_FORM = "original"


@dataclass(frozen=True)
class Point:
    """One model; `form` is "original" for one that others were made from. What it was not measured in is not in `values`."""

    name: str
    form: str
    method: str
    values: dict[Axis, float] = field(hash=False)


def points(runs: Sequence[Run]) -> list[Point]:
    """Originals first, each once, then every run, each after what it was while it was taught (where agreement.json tells)."""
    originals: dict[str, Point] = {}
    made: list[Point] = []
    for run in runs:
        if run.results is not None:
            made += _table(run.name, run.results)
            continue
        name = original_name(run)
        if run.look is not None:
            facts = [fact for each in run.look.predictions[:1] for fact in _predicted(each)]
            made += _predictions(run.name, run.look)
        else:
            facts = [*costs(run), *qualities(run)]
            made += [*_before(run, facts), Point(run.name, run.form, run.method, _given((f.axis, f.own) for f in facts))]
        known = originals.setdefault(name, Point(name, ORIGINAL_FORM, "the original", {}))
        originals[name] = replace(known, values={**known.values, **_new(known, _given((f.axis, f.original) for f in facts))})
    made = [_with(point, originals) for point in made]
    held = {point.name for point in made if point.form == DENSE}
    return [*(point for name, point in originals.items() if point.values and name not in held), *made]


def axes(found: Iterable[Point], kind: str) -> list[Axis]:
    """Those of one kind on which some point lies, in the order of their first appearance."""
    return [axis for axis in dict.fromkeys(axis for point in found for axis in point.values) if axis.kind == kind]


def original_name(run: Run) -> str:
    """The last part of what was typed: a path would not fit."""
    name = run.original or (run.measurement.original.name if run.measurement else None)
    return PurePath(name).name or name if name else "original"


def _table(run: str, results: Results) -> Iterator[Point]:
    """The models of a table: its teacher is what the others were made from."""
    for row in results.rows:
        values: dict[Axis, float | None] = {SIZE: row.parameters, DISK: row.bytes}
        if len(results.tasks) > 1:
            values[average_axis("scored")] = row.average
        for task, splits in row.scores.items():
            for split, cell in splits.items():
                metrics = results.tasks[task].metrics if task in results.tasks else (*cell.mean,)
                values |= {score_axis(task, split, each, each == metrics[0]): cell.mean.get(each) for each in metrics}
        form = ORIGINAL_FORM if row.role == TEACHER else form_of(row.method)
        yield Point(f"{run}: {row.name}", form, row.method, _given(values.items()))


def _predictions(run: str, look: Look) -> Iterator[Point]:
    for each in look.predictions:
        values = _given((fact.axis, fact.own) for fact in _predicted(each))
        yield Point(f"{run}: {each.method} {each.tile}, {each.size}", form_of(each.method), each.method, values)


def _predicted(each: Prediction) -> Iterator[Fact]:
    for scope, count in reversed(each.counts.parameters.items()):
        yield Fact(parameters_axis(scope), count.before, count.after)
    yield Fact(FLOPS, each.counts.flops.before, each.counts.flops.after)
    for what, lost in (("weights", each.weight_error), ("outputs", each.output_error)):
        if lost is not None:
            yield Fact(lost_axis(what), 0.0, 100 * lost)


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


def _with(point: Point, originals: dict[str, Point]) -> Point:
    """A dense run that others were made from is one point, with what they know of it."""
    if point.form != DENSE or point.name not in originals:
        return point
    return replace(point, values={**originals[point.name].values, **point.values})


def _new(known: Point, values: dict[Axis, float]) -> dict[Axis, float]:
    """Of a model that two runs name, the first run's numbers stand."""
    return {axis: value for axis, value in values.items() if axis not in known.values}


def _given(values: Iterable[tuple[Axis, float | None]]) -> dict[Axis, float]:
    return {axis: value for axis, value in values if value is not None}
