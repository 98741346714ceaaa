"""Several runs side by side: one table, and what it takes to draw and to write it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenfold.errors import TenfoldError, nearest
from tenfold.reporting.collect import Run, collect_all
from tenfold.reporting.facts import COST, QUALITY, Axis
from tenfold.reporting.points import Point, axes, points


@dataclass(frozen=True)
class Comparison:
    """The runs, and their points with those of their originals."""

    runs: tuple[Run, ...]
    points: tuple[Point, ...]

    def axis(self, kind: str, key: str | None) -> Axis | None:
        """By key, or the first that has `key` in its key or label; without one the first. None where no point has any."""
        found = axes(self.points, kind)
        if key is None:
            return found[0] if found else None
        names = {axis: (axis.key, axis.label) for axis in found}
        fitting = [axis for axis in found if key == axis.key] or [axis for axis in found if any(key in n for n in names[axis])]
        if not fitting:
            known = nearest(key, [axis.key for axis in found]) if found else "none was measured"
            raise TenfoldError(f'--{kind} must be what these runs were measured in, got "{key}": {known}')
        return fitting[0]

    def notes(self) -> list[str]:
        """What one should know before one compares these numbers."""
        found = []
        machines = {str([run.measurement.machine.get(k) for k in ("cpu", "device")]) for run in self.runs if run.measurement}
        if len(machines) > 1:
            found.append("speeds were measured on different machines: each is against its own original, times do not compare")
        texts = {(run.agreement.original, run.agreement.sentences) for run in self.runs if run.agreement}
        if len(texts) > 1:
            found.append("agreements were measured against different originals or on different passages")
        if looks := [run.name for run in self.runs if run.look]:
            found.append(f"{', '.join(looks)}: losses are what explore predicts; III, IV and sums may lose less once fitted")
        return found

    def to_dict(self) -> dict[str, Any]:
        folders = {run.name: str(run.folder) for run in self.runs}
        return {
            "axes": [vars(axis) for axis in self.axes],
            "models": [
                {
                    "name": point.name,
                    "folder": folders.get(point.name),
                    "form": point.form,
                    "method": point.method,
                    "values": {axis.key: value for axis, value in point.values.items()},
                }
                for point in self.points
            ],
            "notes": self.notes(),
        }

    @property
    def axes(self) -> list[Axis]:
        return [*axes(self.points, COST), *axes(self.points, QUALITY)]

    def rows(self) -> tuple[list[str], list[list[Any]]]:
        """For a CSV: exact numbers, a column for every axis."""
        heads = ["model", "form", "method", *(axis.key for axis in self.axes)]
        return heads, [[p.name, p.form, p.method, *(p.values.get(axis) for axis in self.axes)] for p in self.points]


def compare(folders: Sequence[Path]) -> Comparison:
    if len(folders) < 2:
        raise TenfoldError(f"compare takes two runs or more, got {len(folders)}: one alone is shown by tenfold report")
    runs = collect_all(folders)
    return Comparison(tuple(runs), tuple(points(runs)))
