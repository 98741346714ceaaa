"""results.json as a table to read: a row for each model, a column for each dev set, the floors last."""

from collections.abc import Iterator

from tenfold.records import Record

CONSTANT = "!"
"""Behind the score of a model that answers one thing to all rows; `warnings` say which."""


def columns(record: Record) -> tuple[str, ...]:
    return "model", "form", "parameters", "kept", *(_head(*each) for each in _splits(record)), "average", "retention"


def rows(record: Record) -> list[tuple[str, ...]]:
    found = [_row(record, row) for row in record["rows"]]
    floors = [f"{about['splits'][split]['floor'][metric]:.1f}" for _, split, metric, about in _splits(record)]
    return [*found, ("floor", "", "", "", *floors, "", "")]


GAPS = ("model", "against", "task", "split", "theirs", "retention", "difference", "95% interval", "p")


def gaps(record: Record) -> list[tuple[str, ...]]:
    """Student against teacher and rivals, cells against the teacher: on the same rows, in points of the first metric."""
    theirs = {row["name"]: row["scores"] for row in record["rows"]}
    return [
        (row["name"], each["name"], task, split, f"{theirs[each['name']][task][split]['mean'][metric]:.1f}", *_gap(each))
        for row in record["rows"]
        if row["role"] in ("student", "cell")
        for task, split, metric, _ in _splits(record)
        for each in row["scores"][task][split]["against"]
        if each["name"] in theirs
    ]


def _gap(each: Record) -> tuple[str, ...]:
    kept = "-" if each["retention"] is None else f"{each['retention']:.1%}"
    return kept, f"{each['difference']:+.1f}", f"{each['low']:+.1f} to {each['high']:+.1f}", f"{each['p']:.4f}"


def _row(record: Record, row: Record) -> tuple[str, ...]:
    scores = [_score(row["scores"][task][split], metric) for task, split, metric, _ in _splits(record)]
    kept = "-" if row["retention"] is None else f"{row['retention']:.1%}"
    size = f"{row['parameters'] / 1e6:.2f}M"
    return row["name"], row["method"], size, f"{row['kept']:.3f}", *scores, f"{row['average']:.1f}", kept


def _score(found: Record, metric: str) -> str:
    spread = f" ± {found['std'][metric]:.1f}" if found["std"] else ""
    return f"{found['mean'][metric]:.1f}{spread}{CONSTANT if found['constant'] else ''}"


def _splits(record: Record) -> Iterator[tuple[str, str, str, Record]]:
    """(task, split, first metric, what is known of the task)"""
    for task, about in record["tasks"].items():
        for split in about["splits"]:
            yield task, split, about["metrics"][0], about


def _head(task: str, split: str, metric: str, about: Record) -> str:
    return f"{task} {metric}" if len(about["splits"]) == 1 else f"{task} {split} {metric}"
