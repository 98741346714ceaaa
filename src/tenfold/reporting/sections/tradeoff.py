"""Cost against quality: the chart's data and the table of its points."""

from collections.abc import Sequence
from typing import Any

from tenfold.reporting import units
from tenfold.reporting.collect import Run
from tenfold.reporting.facts import COST, QUALITY, Axis, speed_range
from tenfold.reporting.html import Html, absent, join, table, tag
from tenfold.reporting.points import Point, axes

SPEED = "times as fast"


def tradeoff(points: Sequence[Point], runs: Sequence[Run]) -> Html:
    figure = tag(
        "figure",
        tag("noscript", tag("p", "The chart needs JavaScript; its numbers are in the table below.")),
        tag("figcaption", "One mark a model. The dashed line joins those that no other beats in both."),
        id="pareto",
        class_="chart",
    )
    heads, rows = overview(points, runs)
    numbers = table(
        heads,
        rows,
        caption="The same as numbers. An empty cell was not measured.",
        numbers=range(2, len(heads)),
        attributes=[{"data_form": point.form, "id": f"point-{k}"} for k, point in enumerate(points)],
        class_="wide",
    )
    nothing = absent("No chart: no model here has a score or an agreement with its original")
    return join([figure if axes(points, QUALITY) else nothing, numbers], "\n")


def overview(points: Sequence[Point], runs: Sequence[Run]) -> tuple[list[str], list[list[str | None]]]:
    """For people: sizes, the range of measured speeds, the headline qualities. The other axes are in charts and in the CSV."""
    costs, qualities = ([axis for axis in axes(points, kind) if axis.headline] for kind in (COST, QUALITY))
    speeds = {run.name: _range(run) for run in runs}
    timed = [SPEED] if any(speeds.values()) else []
    heads = ["model", "method", *(axis.label for axis in costs), *timed, *(axis.label for axis in qualities)]
    rows = [
        [
            point.name,
            point.method,
            *(_cell(axis, point) for axis in costs),
            *(speeds.get(point.name) for _ in timed),
            *(_cell(axis, point) for axis in qualities),
        ]
        for point in points
    ]
    return heads, rows


def _range(run: Run) -> str | None:
    found = speed_range(run.measurement) if run.measurement else None
    return f"{found[0]:.2f} to {found[1]:.2f}" if found else None


def _cell(axis: Axis, point: Point) -> str | None:
    return show(axis, point.values[axis]) if axis in point.values else None


def chart_data(points: Sequence[Point]) -> dict[str, Any]:
    """What pareto.js draws."""
    return {
        "points": [
            {
                "id": k,
                "run": point.name,
                "form": point.form,
                "values": {axis.key: value for axis, value in point.values.items()},
                "details": [["method", point.method]],
            }
            for k, point in enumerate(points)
        ],
        "axes": {"x": [_axis(axis) for axis in axes(points, COST)], "y": [_axis(axis) for axis in axes(points, QUALITY)]},
    }


def show(axis: Axis, value: float) -> str:
    """A number as its axis has it: 23.0M, 45.4 MB, 12.3 ms, 0.774."""
    if axis.key.startswith("alike:"):
        return f"{value:.3f}"
    if axis.unit == "%" or axis.key.startswith("score:"):
        return f"{value:.1f}{axis.unit}"
    if axis.unit == "ms":
        return f"{units.digits(value)} ms"
    return units.prefixed(value, axis.unit)


def _axis(axis: Axis) -> dict[str, str]:
    return {"key": axis.key, "label": axis.label, "unit": axis.unit, "better": axis.better}
