"""README.md of a model folder, in the hub's format: metadata in YAML, then what it is, how to load it and what was measured."""

import json
from collections.abc import Iterator
from pathlib import Path

from tenfold._version import __version__
from tenfold.errors import OutputError
from tenfold.reporting import units
from tenfold.reporting.collect import Run, collect
from tenfold.reporting.markdown import fence, table, text
from tenfold.reporting.metadata import head, metadata
from tenfold.reporting.sections.making import commands
from tenfold.reporting.sections.plan import size_rows
from tenfold.reporting.sections.speed import machine, place
from tenfold.reporting.story import lead, missing
from tenfold.reporting.writing import write_whole

CARD = "README.md"
MARK = "<!-- Written by tenfold report, which replaces it. Without this line it is yours and stays. -->"


def write_card(folder: Path, force: bool = False, base_model: str | None = None) -> Path:
    """FOLDER/README.md. One that somebody else wrote is only replaced with `force`."""
    path = folder / CARD
    if not (force or may_write(folder)):
        raise OutputError(f"{path} was not written by tenfold and stays as it is: pass --force to replace it")
    return write_whole(path, card(collect(folder), base_model))


def may_write(folder: Path) -> bool:
    """Whether there is no card, or one of ours."""
    path = folder / CARD
    return not path.exists() or MARK in path.read_text(encoding="utf-8", errors="replace")


def card(run: Run, base_model: str | None = None) -> str:
    parts = [
        f"---\n{metadata(run, base_model)}---",
        MARK,
        f"# {text(run.name)}",
        text(lead(run)),
        "## Load it",
        *_loading(run),
        *_sizes(run),
        *_scores(run),
        *_agreement(run),
        *_speed(run),
        *_making(run),
        *_missing(run),
    ]
    return "\n\n".join(parts) + "\n"


def _loading(run: Run) -> Iterator[str]:
    quoted = json.dumps(run.name)
    if run.onnx:
        yield from _loading_onnx(run, quoted)
        return
    first = "import tenfold  # teaches transformers to read this folder\n" if run.plan else ""
    if run.sentences:
        yield fence(
            f"{first}from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer({quoted})",
            "python",
        )
        return
    kind = head(run)[0]
    yield fence(
        f"{first}from transformers import {kind}, AutoTokenizer\n\n"
        f"model = {kind}.from_pretrained({quoted})\ntokenizer = AutoTokenizer.from_pretrained({quoted})",
        "python",
    )


def _loading_onnx(run: Run, quoted: str) -> Iterator[str]:
    if run.sentences:
        code = f'from sentence_transformers import SentenceTransformer\n\nmodel = SentenceTransformer({quoted}, backend="onnx")'
    else:
        code = (
            "from onnxruntime import InferenceSession\nfrom transformers import AutoTokenizer\n\n"
            f"folder = {quoted}\n"
            'session = InferenceSession(f"{folder}/onnx/model.onnx")\n'
            'batch = AutoTokenizer.from_pretrained(folder)(["A sentence."], return_tensors="np")\n'
            "outputs = session.run(None, {each.name: batch[each.name] for each in session.get_inputs()})"
        )
    yield fence(code, "python")


def _sizes(run: Run) -> Iterator[str]:
    if rows := size_rows(run):
        yield "## Size"
        yield table(("", "original", "here", "kept"), rows, numbers=(1, 2, 3))


def _scores(run: Run) -> Iterator[str]:
    if run.scores is None:
        return
    rows = []
    for task, entry in run.scores.tasks.items():
        for split, found in entry.splits.items():
            for metric in entry.metrics:
                shown = units.score(found.mean[metric], (found.std or {}).get(metric))
                floor, teacher = found.floor, found.teacher
                rows.append(
                    (
                        f"{task} ({split})",
                        metric,
                        shown,
                        units.score(floor.scores[metric]) if floor and metric in floor.scores else None,
                        units.score(teacher.scores[metric]) if teacher and metric in teacher.scores else None,
                        f"{found.rows:,}",
                    )
                )
    yield "## Scores"
    yield "± is the standard deviation over seeds; the floor is what the best answer gets that ignores the text."
    yield table(("task", "metric", "score", "floor", "teacher", "rows"), rows, numbers=(2, 3, 4, 5))
    splits = ((task, split, each) for task, entry in run.scores.tasks.items() for split, each in entry.splits.items())
    if warnings := [f"- {text(f'{task} ({split}): {line}')}" for task, split, each in splits for line in each.warnings]:
        yield "\n".join(warnings)


def _agreement(run: Run) -> Iterator[str]:
    if run.agreement is not None:
        yield "## Agreement with the original"
        yield f"On {run.agreement.sentences} held-out passages; 1 is perfect."
        heads = ("model", "cosine of vectors", "rank correlation of similarities", "nearest neighbours kept")
        numbers = [
            (r.name, f"{r.cosine:.3f}", f"{r.rank_correlation:.3f}", f"{r.neighbours_kept:.3f}") for r in run.agreement.rows
        ]
        yield table(heads, numbers, numbers=(1, 2, 3))


def _speed(run: Run) -> Iterator[str]:
    if run.measurement is None:
        return
    rows = [
        (place(cell), each.path, f"{each.estimate:.2f}", _interval(each.low, each.high))
        for cell in run.measurement.cells
        for each in cell.speedups
        if each.best
    ]
    yield "## Speed"
    yield "Times as fast as the original on its own fastest path, both timed in turns in one process: above 1 is faster."
    yield table(("batch x length", "path", "times as fast", "95% interval"), rows, numbers=(2, 3))
    if run.measurement.crossovers:
        yield "\n".join(f"- {text(line)}" for line in run.measurement.crossovers)
    yield text(machine(run.measurement))


def _interval(low: float | None, high: float | None) -> str | None:
    return None if low is None or high is None else f"{low:.2f} to {high:.2f}"


def _making(run: Run) -> Iterator[str]:
    if made := commands(run):
        yield "## How it was made"
        yield fence("\n".join(made), "bash")
        yield f"With tenfold {__version__}." if not run.history else text(_versions(run))


def _versions(run: Run) -> str:
    found = run.history[-1].versions
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _missing(run: Run) -> Iterator[str]:
    if lines := [f"- {text(each.what)}" for each in missing(run) if each.grave]:
        yield "## What is not known"
        yield "\n".join(lines)
