"""What was measured while models learnt, as lines: a round of teaching each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenfold.records import HISTORY
from tenfold.reporting.collect import Run
from tenfold.reporting.records import check

VERBS = ("distill", "finetune")
NOT_MEASURED = {"step", "epoch", "tokens", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time"}
SCORES = {"score", "accuracy", "f1", "f1_macro", "f1_micro", "exact", "matthews", "pearson", "spearman"}
"""Of all that is measured, these are better when they are higher."""

Row = dict[str, float | None]


@dataclass(frozen=True)
class Curve:
    name: str
    rows: tuple[Row, ...]


def curves(runs: Sequence[Run]) -> list[Curve]:
    """With the run's name in front where there are several; a round that two runs went through is there once."""
    found: dict[str, Curve] = {}
    for run in runs:
        for entry in run.entries(*VERBS):
            rows = check(entry.get("curve", ()), tuple[Row, ...], run.folder / HISTORY)
            if rows:
                name = f"{run.name}: {round_name(entry)}" if len(runs) > 1 else round_name(entry)
                found.setdefault(f"{entry.get('time')} {rows}", Curve(name, tuple(with_tokens(row, entry) for row in rows)))
    return list(found.values())


def measures(found: Sequence[Curve]) -> list[str]:
    """The names of what was measured, the loss first."""
    names = dict.fromkeys(name for curve in found for row in curve.rows for name in row if name not in NOT_MEASURED)
    return sorted(names, key=lambda name: name != "loss")


def round_name(entry: dict[str, Any]) -> str:
    """`general stage`, `task stage (rte)`, `fine-tuning (sst2)`."""
    settings = entry.get("settings") or {}
    task = task_name(entry)
    what = "fine-tuning" if entry["verb"] == "finetune" else f"{settings.get('stage', 'a')} stage"
    return f"{what} ({task})" if task else what


def task_name(entry: dict[str, Any]) -> str | None:
    """As GLUE calls it, or the file that its rows came from."""
    spec = (entry.get("settings") or {}).get("task") or entry.get("spec") or entry.get("task") or {}
    if isinstance(spec, str):
        return spec
    return spec.get("task") or spec.get("name") or spec.get("train")


def with_tokens(row: Row, entry: dict[str, Any]) -> Row:
    """A step's share of all the tokens that the round saw."""
    steps, tokens, step = entry.get("steps"), entry.get("tokens"), row.get("step")
    return {**row, "tokens": step * tokens / steps} if steps and tokens and step is not None else row
