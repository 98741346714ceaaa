"""run: a whole recipe, from a model to a small one with its report."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tenfold.cli.common import (
    Force,
    Fresh,
    Json,
    Method,
    Of,
    Seed,
    Set,
    To,
    app,
    assignments,
    err_console,
    mb,
    out_console,
    print_json,
    progress,
    share,
)  # fmt: skip
from tenfold.cli.tasking import DataDir, Dev, LabelColumn, TaskName, TextColumn, Train, task_settings
from tenfold.errors import TenfoldError

if TYPE_CHECKING:
    from tenfold.workflow import Ran

EVERY = 15.0
"""Seconds between two lines of a run whose output is not a terminal."""


@app.command()
def run(
    paths: Annotated[list[Path], typer.Argument(metavar="[RECIPE] OUT", help="A recipe (YAML), and the folder to make.")],
    model: Annotated[str | None, typer.Option(help="The model to compress: a folder or a hub name.")] = None,
    method: Method = None,
    to: To = None,
    of: Of = None,
    text: Annotated[
        list[str] | None, typer.Option(help="For the general stage: files, folders, globs or datasets:NAME.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="How many tokens of it the student sees (default 20 million).")] = None,
    task: TaskName = None,
    data_dir: DataDir = None,
    train: Train = None,
    dev: Dev = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    augment: Annotated[bool, typer.Option("--augment", help="Train on changed copies of the rows too.")] = False,
    teacher: Annotated[str | None, typer.Option(help="A model that answers the task; default: --model, fine-tuned.")] = None,
    set_: Set = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep OUT.run with the models of every step.")] = False,
    fresh: Fresh = False,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compress, teach on text, teach on a task, score, measure and report. A killed run goes on where it was.

    Example: tenfold run --model bert-base-uncased --to 1/10 --text wiki.txt --train reviews.csv small
    """
    file, out = recipe_and_out(paths)
    given: dict[str, Any] = {
        "model": model, "teacher": teacher, "compress.method": method, "compress.to": to, "compress.of": of,
        "general.text": text or None, "general.tokens": tokens, "task.augment": {} if augment else None,
    }  # fmt: skip
    rows = task_settings(task, data_dir, train, dev, text_column, label_column) or {}
    given |= {f"data.{key}": value for key, value in rows.items()}
    overrides = {**assignments(set_), **{key: value for key, value in given.items() if value is not None}}
    one_of(overrides, method, to, task, train)
    from tenfold.workflow import load_flow, run_flow

    flow = load_flow(file, overrides)
    flow = flow if seed is None else flow.seeded(seed)
    with telling(as_json) as say:
        result = run_flow(flow, out, force, fresh, keep, say)
    if as_json:
        print_json(result.to_dict())
    else:
        print_run(result)


def recipe_and_out(paths: list[Path]) -> tuple[Path | None, Path]:
    """The last path is OUT; a recipe may come before it."""
    if len(paths) > 2:
        raise TenfoldError(
            f"run takes a recipe and the folder to make, got {len(paths)} paths: quote globs, and leave out {paths[2]}"
        )
    *files, out = paths
    if not files and out.suffix in (".yaml", ".yml"):
        raise TenfoldError(f"run takes a recipe and the folder to make, got {out} alone: tenfold run {out} OUT")
    return (files[0] if files else None), out


def one_of(overrides: dict[str, Any], method: str | None, to: str | None, task: str | None, train: str | None) -> None:
    """An option takes the place of what the recipe has of its kind: a size that of a method, own rows that of a task's."""
    for given, other in ((method, "compress.to"), (to, "compress.method"), (task, "data.train"), (train, "data.task")):
        if given is not None:
            overrides.setdefault(other, None)


@contextmanager
def telling(quiet: bool) -> Iterator[Callable[[str], None]]:
    """The line of `progress`; where nobody looks at a terminal, plain lines now and then, so that a log shows how far it is."""
    with progress(quiet) as say:
        if quiet or err_console.is_terminal:
            yield say
            return
        last, step = 0.0, ""

        def tell(text: str) -> None:
            nonlocal last, step
            now, of = time.monotonic(), text.partition(":")[0]
            if now - last >= EVERY or of != step:
                last, step = now, of
                out_console.print(text, highlight=False, markup=False)

        yield tell


def print_run(result: "Ran") -> None:
    _print_sizes(result)
    if result.agreement is not None:
        _print_agreement(result.agreement)
    if result.scores is not None:
        _print_scores(result.scores)
    if result.measurement is not None:
        _print_speed(result.measurement)
    for note in result.notes:
        out_console.print(f"note: {note}")
    steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in result.seconds.items())
    out_console.print(f"steps: {steps}")
    if result.report is not None:
        out_console.print(f"{result.out}/README.md says all of this; open {result.report} in a browser for more")


def _print_sizes(result: "Ran") -> None:
    made = result.compression
    table = Table(title=f"{result.out.name}: {made['method']}", title_justify="left")
    for column in ("", "original", "compressed", "kept"):
        table.add_column(column, justify="right" if column else "left")
    for scope, of in made["parameters"].items():
        table.add_row(f"parameters: {scope}", f"{of['before']:,}", f"{of['after']:,}", share(of["ratio"]))
    before, after, ratio = (made["flops"][key] for key in ("before", "after", "ratio"))
    table.add_row(f"FLOPs of {made['flops']['length']} tokens", f"{before / 1e9:.2f} G", f"{after / 1e9:.2f} G", share(ratio))
    table.add_row(
        "weight files", mb(result.bytes_before), mb(result.bytes_after), share(result.bytes_after / result.bytes_before)
    )
    out_console.print(table)


def _print_agreement(record: Any) -> None:
    title = f"agreement with the original on {record['sentences']} held-out passages (1 is perfect)"
    table = Table(title=title, title_justify="left")
    for column in ("model", "cosine of vectors", "rank correlation of similarities", "5 nearest neighbours kept"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in record["rows"]:
        numbers = (row["cosine"], row["rank_correlation"], row["neighbours_kept"])
        table.add_row(row["name"], *(f"{number:.3f}" for number in numbers))
    out_console.print(table)


def _print_speed(record: Any) -> None:
    """Against the original's fastest path: the honest number."""
    table = Table(title="times as fast as the original's fastest path on this machine (95% interval)", title_justify="left")
    for column in ("batch", "length", "precision", "path", "speed-up", "interval"):
        table.add_column(column, justify="left" if column in ("path", "precision") else "right")
    for cell in record["cells"]:
        for ratio in (each for each in cell["speedups"] if each["best"]):
            interval = "-" if ratio["low"] is None else f"{ratio['low']:.2f} to {ratio['high']:.2f}"
            table.add_row(str(cell["batch"]), cell["label"], cell["dtype"], ratio["path"], f"{ratio['estimate']:.2f}", interval)
    out_console.print(table)


def _print_scores(record: Any) -> None:
    table = Table(title="scores (the floor is what a constant answer gets)", title_justify="left")
    for column in ("task", "split", "metric", "score", "floor", "teacher", "kept"):
        table.add_column(column, justify="left" if column in ("task", "split", "metric") else "right")
    for task, entry in record["tasks"].items():
        for split, found in entry["splits"].items():
            against = next((each for each in found["against"] if each["role"] == "teacher"), None)
            for metric in entry["metrics"]:
                first = against is not None and metric == entry["metrics"][0] and against["retention"] is not None
                table.add_row(
                    task, split, metric, f"{found['mean'][metric]:.1f}", f"{found['floor']['scores'][metric]:.1f}",
                    "" if against is None else f"{against['scores'][metric]:.1f}",
                    f"{against['retention']:.1%}" if first and against is not None else "",
                )  # fmt: skip
    out_console.print(table)
