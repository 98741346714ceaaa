"""What was measured while models learnt, as lines: a round of teaching each."""

from collections.abc import Sequence
from dataclasses import dataclass

from tenfold.reporting.collect import Run
from tenfold.reporting.records import Done

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
            if entry.curve:
                name = f"{run.name}: {round_name(entry)}" if len(runs) > 1 else round_name(entry)
                rows = tuple(with_tokens(row, entry) for row in entry.curve)
                found.setdefault(f"{entry.time} {rows}", Curve(name, rows))
    return list(found.values())


def measures(found: Sequence[Curve]) -> list[str]:
    """The names of what was measured, the loss first."""
    names = dict.fromkeys(name for curve in found for row in curve.rows for name in row if name not in NOT_MEASURED)
    return sorted(names, key=lambda name: name != "loss")


def round_name(entry: Done) -> str:
    """`general stage`, `task stage (rte)`, `fine-tuning (sst2)`."""
    task = task_name(entry)
    what = "fine-tuning" if entry.verb == "finetune" else f"{entry.settings.get('stage', 'a')} stage"
    return f"{what} ({task})" if task else what


def task_name(entry: Done) -> str | None:
    """As GLUE calls it, or the file that its rows came from."""
    spec = entry.settings.get("task") or entry.task
    if not isinstance(spec, dict):
        return spec
    return next((str(spec[key]) for key in ("task", "name", "train") if spec.get(key)), None)


def with_tokens(row: Row, entry: Done) -> Row:
    """A step's share of all the tokens that the round saw."""
    step = row.get("step")
    return {**row, "tokens": step * entry.tokens / entry.steps} if entry.steps and entry.tokens and step is not None else row
