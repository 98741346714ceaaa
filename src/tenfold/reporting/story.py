"""What was done to a model, in words; and what is not known of it yet, with the command that would tell."""

from dataclasses import dataclass
from pathlib import PurePath

from tenfold.reporting import units
from tenfold.reporting.collect import Count, Run
from tenfold.reporting.facts import own_agreement, speed_range
from tenfold.reporting.points import original_name
from tenfold.reporting.records import Done
from tenfold.reporting.teaching import task_name
from tenfold.tasks.saving import TASK


@dataclass(frozen=True)
class Missing:
    """`command`: None where no single one brings it."""

    what: str
    command: str | None
    grave: bool = True
    """Whether somebody who is to use the model should know."""


@dataclass(frozen=True)
class Headline:
    """A number to show large, and what it is to be seen against."""

    name: str
    value: str
    against: str = ""


def lead(run: Run) -> str:
    """One sentence: where it comes from and what was done to it."""
    steps = [phrase(entry) for entry in run.history]
    if run.plan and not run.entries("compress"):
        steps.insert(0, f"its matrices written as {run.method}")
    if run.results is not None:
        steps = [f"{len(run.results.rows)} models on {', '.join(run.results.tasks)}, by tenfold {run.results.verb}"]
    if run.look is not None:
        steps = ["what could be compressed, by tenfold explore"]
    return f"{original_name(run)}: {', then '.join(steps)}." if steps else f"{original_name(run)}."


def phrase(entry: Done) -> str:
    teacher = PurePath(entry.teacher or "a teacher").name
    if entry.verb == "compress":
        return f"its matrices written as {entry.method}{_kept(entry)}"
    if entry.verb == "distill" and entry.settings.get("stage") == "task":
        return f"taught {task_name(entry) or 'a task'} by {teacher}"
    if entry.verb == "distill":
        return f"taught by {teacher} on {units.prefixed(entry.tokens or 0.0)} tokens of text"
    if entry.verb == "finetune":
        return f"fine-tuned on {task_name(entry) or 'a task'}"
    if entry.verb == "trim":
        return f"cut to {len(entry.layers)} of its {entry.depth} layers"
    if entry.verb == "export":
        return "multiplied out" if entry.to == "dense" else "written as ONNX"
    return entry.verb


def _kept(entry: Done) -> str:
    matrices = entry.parameters.get("matrices")
    return f" ({units.part(matrices.after / matrices.before)} of them kept)" if matrices and matrices.before else ""


def headlines(run: Run) -> list[Headline]:
    """The handful of numbers that one asks for first."""
    found = []
    if run.parameters:
        scope = [*run.parameters][-1]
        found.append(_count("Parameters", run.parameters[scope], ""))
    if run.disk:
        found.append(_count("On disk", run.disk, "B"))
    if run.flops:
        found.append(_count("FLOPs of 128 tokens", run.flops, "FLOP"))
    if run.measurement and (speeds := speed_range(run.measurement)):
        low, high = (f"{speed:.2f}" for speed in speeds)
        value = f"{low}×" if low == high else f"{low}–{high}×"
        found.append(Headline("Measured speed", value, "the original's, by batch and length"))
    found += _quality(run)
    return found


def _count(name: str, count: Count, unit: str) -> Headline:
    against = f"{units.part(count.ratio)} of {units.prefixed(count.before, unit)}" if count.ratio and count.before else ""
    return Headline(name, units.prefixed(count.after, unit), against)


def _quality(run: Run) -> list[Headline]:
    found = []
    splits = [
        (task, split, entry.metrics[0], each)
        for task, entry in (run.scores.tasks if run.scores else {}).items()
        for split, each in entry.splits.items()
    ]
    if len(splits) == 1:
        task, split, metric, each = splits[0]
        std = each.std.get(metric) if each.std else None
        floor = f"a constant answer gets {units.score(each.floor.scores[metric])}" if each.floor else ""
        found.append(Headline(f"{task} ({split}): {metric}", units.score(each.mean[metric], std), floor))
    if retained := _retained(run):
        found.append(
            Headline("Retention", f"{100 * retained:.1f}%", "of its teacher's score" if len(splits) == 1 else "mean of tasks")
        )
    if own := own_agreement(run):
        found.append(Headline("Cosine with the original", f"{own.cosine:.3f}", "of vectors of held-out sentences"))
    return found


def _retained(run: Run) -> float | None:
    """What is kept of the teacher's score: of the average over tasks where there is one."""
    if run.scores is None:
        return None
    means = [each.teacher.retention for each in run.scores.averages.values() if each.teacher]
    splits = [split.teacher for entry in run.scores.tasks.values() for split in entry.splits.values()]
    found = [each for each in (*reversed(means), *(each.retention for each in splits if each)) if each is not None]
    return found[0] if found else None


def missing(run: Run) -> list[Missing]:
    """What the folder does not hold, most wanted first. Nothing more can be found from an ONNX file alone."""
    folder, original = str(run.folder), run.original or "ORIGINAL"
    found: list[Missing] = []
    if run.results is not None or run.look is not None or run.onnx:
        return found
    if run.scores is None:
        found.append(Missing("No scores on a task", _scoring(run)))
    if run.measurement is None:
        found.append(Missing("No measured speed", f"tenfold measure {units.shell([folder, '--against', original])}"))
    if run.plan and not run.taught:
        words = units.shell([folder, f"{folder}-taught", "--teacher", original])
        found.append(Missing("Not taught since it was compressed", f"tenfold distill {words} --text wiki.txt"))
    if run.plan and run.analysis is None:
        found.append(
            Missing(
                "No analysis of its factors", f"tenfold analyze {units.shell([folder, '--original', original])}", grave=False
            )
        )
    return found


def _scoring(run: Run) -> str:
    """A folder that was made for a task needs no more words."""
    words = units.shell([str(run.folder)])
    return (
        f"tenfold evaluate {words}"
        if (run.folder / TASK).is_file()
        else f"tenfold finetune {words} {units.shell([f'{run.folder}-tuned'])} --task sst2"
    )
