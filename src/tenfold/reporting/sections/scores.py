"""What a model scores on tasks, with the spread over seeds, the floor, and the models that it is held against."""

from collections.abc import Iterator

from tenfold.reporting import units
from tenfold.reporting.html import Child, Html, absent, bullets, join, table, tag
from tenfold.reporting.records import Against, Agreement, Scores, Split

AGAINST = ("task", "against", "metric", "its score", "retention", "difference (95% interval)", "p")


def scores(record: Scores | None, command: str | None) -> Html:
    if record is None:
        return absent("Not scored on a task", command)
    parts = [_tasks(record)]
    if averages := [*_averages(record)]:
        parts.append(table(("average", "score", "teacher", "retention", "of"), averages, numbers=(1, 2, 3)))
    if others := [*_others(record)]:
        caption = "Against other models on the same rows (paired bootstrap)"
        parts.append(table(AGAINST, others, caption=caption, numbers=(3, 4, 5, 6)))
    if seeds := [*_seeds(record)]:
        parts.append(table(("task", "metric", "seed by seed"), seeds))
    if warnings := [f"{task} ({split}): {text}" for task, split, each in _splits(record) for text in each.warnings]:
        parts.append(bullets(warnings, class_="warn"))
    return join(parts, "\n")


def agreement(record: Agreement) -> Html:
    rows = [(row.name, f"{row.cosine:.3f}", f"{row.rank_correlation:.3f}", f"{row.neighbours_kept:.3f}") for row in record.rows]
    return table(
        ("model", "cosine of vectors", "rank correlation of similarities", "nearest neighbours kept"),
        rows,
        caption=f"Against {record.original} on {record.sentences} held-out passages; 1 is perfect",
        numbers=(1, 2, 3),
    )


def _splits(record: Scores) -> Iterator[tuple[str, str, Split]]:
    for task, entry in record.tasks.items():
        for split, each in entry.splits.items():
            yield task, split, each


def _tasks(record: Scores) -> Html:
    rows: list[tuple[Child, ...]] = []
    for task, split, each in _splits(record):
        for k, metric in enumerate(record.tasks[task].metrics):
            std = each.std.get(metric) if each.std else None
            floor = each.floor.scores.get(metric) if each.floor else None
            teacher = each.teacher
            rows.append(
                (
                    f"{task} ({split})",
                    metric,
                    units.score(each.mean[metric], std),
                    meter(each.mean[metric], std, floor),
                    None if floor is None else units.score(floor),
                    None if teacher is None or metric not in teacher.scores else units.score(teacher.scores[metric]),
                    _percent(teacher.retention) if teacher and k == 0 else None,
                    f"{each.rows:,}",
                )
            )
    return table(
        ("task", "metric", "score", "0 to 100", "floor", "teacher", "retention", "rows"),
        rows,
        caption="± is the standard deviation over seeds; the floor is what the best answer gets that ignores the text",
        numbers=(2, 4, 5, 6, 7),
    )


def _averages(record: Scores) -> Iterator[tuple[Child, ...]]:
    for name, each in record.averages.items():
        teacher = each.teacher
        theirs = None if teacher is None or teacher.mean is None else units.score(teacher.mean)
        yield name, units.score(each.mean), theirs, _percent(teacher.retention) if teacher else None, each.title


def meter(mean: float, std: float | None, floor: float | None) -> Html:
    """A bar from 0 to 100 with a tick at the floor and the spread as a line."""
    label = f"{mean:.1f} of 100" + (f", floor {floor:.1f}" if floor is not None else "")
    marks = [tag("rect", class_="track", width=100, height=10), tag("rect", class_="fill", width=_within(mean), height=10)]
    if floor is not None:
        marks.append(tag("line", class_="floor", x1=_within(floor), x2=_within(floor), y1=0, y2=10))
    if std is not None:
        marks.append(tag("line", class_="spread", x1=_within(mean - std), x2=_within(mean + std), y1=5, y2=5))
    return tag("svg", *marks, class_="meter", viewBox="0 0 100 10", preserveAspectRatio="none", role="img", aria_label=label)


def _within(value: float) -> float:
    return round(min(100.0, max(0.0, value)), 2)


def _percent(ratio: float | None) -> str | None:
    return None if ratio is None else f"{100 * ratio:.1f}%"


def _others(record: Scores) -> Iterator[tuple[Child, ...]]:
    for task, split, each in _splits(record):
        metric = record.tasks[task].metrics[0]
        for other in each.against:
            yield (
                f"{task} ({split})",
                other.name if other.name == other.role else f"{other.role}: {other.name}",
                metric,
                units.score(other.scores[metric]) if metric in other.scores else None,
                _percent(other.retention),
                _difference(other),
                None if other.p is None else f"{other.p:.3f}",
            )


def _difference(other: Against) -> str | None:
    if other.difference is None:
        return None
    interval = "" if other.low is None or other.high is None else f" ({other.low:+.1f} to {other.high:+.1f})"
    return f"{other.difference:+.1f}{interval}"


def _seeds(record: Scores) -> Iterator[tuple[Child, ...]]:
    for task, split, each in _splits(record):
        for metric in record.tasks[task].metrics if len(each.seeds) > 1 else ():
            values = (f"{seed.folder} {units.score(seed.scores[metric])}" for seed in each.seeds if metric in seed.scores)
            yield f"{task} ({split})", metric, ", ".join(values)
