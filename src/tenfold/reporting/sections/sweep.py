"""A table of models that one command made: glue's rivals, ablate's cells."""

from collections.abc import Iterator

from tenfold.reporting import units
from tenfold.reporting.html import Child, Html, bullets, join, table, tag
from tenfold.reporting.records import Cell, Results, Row


def sweep(results: Results | None) -> Html | None:
    """None where the folder holds no table."""
    if results is None:
        return None
    places = [(task, split) for task, about in results.tasks.items() for split in about.splits]
    heads = [
        "model",
        "what it is",
        "method",
        "parameters",
        "kept",
        *(f"{t} ({s}): {results.tasks[t].metrics[0]}" for t, s in places),
    ]
    several = ["average", "retention"] if len(results.tasks) > 1 else []
    floors: list[Child] = [
        "the floor",
        "an answer that ignores the text",
        *[None] * 3,
        *(_floor(results, *place) for place in places),
    ]
    rows = [[*floors, *[None] * len(several)], *(_cells(results, row, places, bool(several)) for row in results.rows)]
    parts: list[Child] = [
        table(
            [*heads, *several],
            rows,
            caption="± is the standard deviation over seeds",
            numbers=range(3, len(heads) + 2),
            class_="wide",
        )
    ]
    if loud := [*_constant(results), *results.warnings]:
        parts.append(bullets(loud, class_="warn"))
    if results.notes:
        parts.append(bullets(results.notes))
    if results.command:
        parts.append(tag("pre", tag("code", units.shell(results.command)), tabindex=0))
    return join(parts, "\n")


def _cells(results: Results, row: Row, places: list[tuple[str, str]], several: bool) -> list[Child]:
    size = None if row.parameters is None else units.prefixed(row.parameters)
    kept = None if row.kept is None else units.part(row.kept)
    scores = [_score(row.scores.get(task, {}).get(split), results.tasks[task].metrics[0]) for task, split in places]
    average = None if row.average is None else units.score(row.average)
    retention = None if row.retention is None else f"{100 * row.retention:.1f}%"
    return [row.name, row.title, row.method, size, kept, *scores, *([average, retention] if several else [])]


def _score(cell: Cell | None, metric: str) -> str | None:
    return None if cell is None or metric not in cell.mean else units.score(cell.mean[metric], (cell.std or {}).get(metric))


def _floor(results: Results, task: str, split: str) -> str | None:
    about = results.tasks[task]
    floor = about.splits[split].floor.get(about.metrics[0])
    return None if floor is None else units.score(floor)


def _constant(results: Results) -> Iterator[str]:
    for row in results.rows:
        for task, splits in row.scores.items():
            for split, cell in splits.items():
                for text in cell.constant:
                    yield f"{row.name}, {task} ({split}): {text}"
