"""Averages over GLUE's tasks: those of the paper, each where all its tasks were scored, and the plain one.

The main table (on the test sets) takes one metric a task and counts MNLI's two splits as two scores: its "all" column is the
mean of eight numbers, and its three subsets are the tasks that ALBERT, Noach and Goldberg, and LadaBERT report. The second
table takes the mean of a task's metrics, and of MNLI's two splits, before it averages over seven tasks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tenfold.evaluation.members import plain
from tenfold.records import Record

Part = tuple[str, str, str]
"""Task, split, metric."""

SST2, QNLI, RTE = ((("sst2", "dev", "accuracy"),), (("qnli", "dev", "accuracy"),), (("rte", "dev", "accuracy"),))
MNLI_M, MNLI_MM = (("mnli", "matched", "accuracy"),), (("mnli", "mismatched", "accuracy"),)
MRPC, QQP, STSB = (("mrpc", "dev", "f1"),), (("qqp", "dev", "f1"),), (("stsb", "dev", "spearman"),)


@dataclass(frozen=True)
class Average:
    """title: what it is, in words. scores: each the mean of its parts; the average is the mean of scores."""

    title: str
    scores: tuple[tuple[Part, ...], ...]


AVERAGES = {
    "all": Average(
        "the paper's main table, all seven tasks (MNLI-m and MNLI-mm count as two scores)",
        (SST2, MNLI_M, MNLI_MM, MRPC, QNLI, QQP, RTE, STSB),
    ),
    "spade": Average("the paper's ♠, ALBERT's tasks: SST-2, MNLI-m", (SST2, MNLI_M)),
    "heart": Average("the paper's ♥, Noach and Goldberg's tasks: SST-2, QNLI, RTE", (SST2, QNLI, RTE)),
    "club": Average("the paper's ♣, LadaBERT's tasks: SST-2, MNLI-m, MNLI-mm, QNLI, QQP", (SST2, MNLI_M, MNLI_MM, QNLI, QQP)),
    "non_standard": Average(
        "the paper's second table: seven tasks, the mean of a task's metrics and of MNLI's splits",
        (
            SST2,
            MNLI_M + MNLI_MM,
            (*MRPC, ("mrpc", "dev", "accuracy")),
            QNLI,
            (*QQP, ("qqp", "dev", "accuracy")),
            RTE,
            (*STSB, ("stsb", "dev", "pearson")),
        ),
    ),
}

SCORED = "scored"
TITLE = "the first metric of every task that was scored here, MNLI's the mean of its splits"

Table = Mapping[Part, float]


def average(name: str, table: Table) -> float | None:
    """None where a score that it takes is not there."""
    chosen = AVERAGES[name].scores
    if any(part not in table for parts in chosen for part in parts):
        return None
    return fmean(fmean(table[part] for part in parts) for parts in chosen)


def averages(tasks: Mapping[str, Record], rivals: Sequence[tuple[str, str]]) -> Record:
    """By name: title, mean, and against each rival (role, name) its mean and the retention. tasks: as in scores.json."""
    ours, theirs = _table(tasks, None), [_table(tasks, k) for k in range(len(rivals))]
    means = {name: (each.title, [average(name, table) for table in (ours, *theirs)]) for name, each in AVERAGES.items()}
    if len(tasks) > 1:
        means[SCORED] = TITLE, [_scored(tasks, table) for table in (ours, *theirs)]
    return {
        name: {
            "title": title,
            "mean": mean,
            "against": [
                {"role": role, "name": rival, "mean": other, "retention": retention(mean, other)}
                for (role, rival), other in zip(rivals, others, strict=True)
            ],
        }
        for name, (title, (mean, *others)) in means.items()
        if mean is not None
    }


def retention(ours: float, theirs: float | None) -> float | None:
    """What is kept of the other's score; None where that is nothing or less."""
    return ours / theirs if theirs is not None and theirs > 0 else None


def _table(tasks: Mapping[str, Record], rival: int | None) -> dict[Part, float]:
    """Ours, or those of the k-th rival. A task is known by its plain name: sst2 for SST-2."""
    return {
        (plain(name), split, metric): value
        for name, entry in tasks.items()
        for split, found in entry["splits"].items()
        for metric, value in (found["mean"] if rival is None else found["against"][rival]["scores"]).items()
    }


def _scored(tasks: Mapping[str, Record], table: Table) -> float:
    return fmean(
        fmean(table[plain(name), split, entry["metrics"][0]] for split in entry["splits"]) for name, entry in tasks.items()
    )
