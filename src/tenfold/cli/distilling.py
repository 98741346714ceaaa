"""distill: teach a small model to answer as a large one does."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tenfold.cli.common import Force, Fresh, Json, Seed, app, assignments, out_console, print_json, progress
from tenfold.cli.tasking import DataDir, Dev, Kind, LabelColumn, TaskName, TextColumn, Train, task_settings


@app.command()
def distill(
    student: Annotated[str, typer.Argument(help="A folder that tenfold compressed, or any smaller model.")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    teacher: Annotated[str, typer.Option(help="The model to learn from: a folder or a hub name.")],
    stage: Annotated[str, typer.Option(help="general: on unlabelled text; task: on a task's rows.")] = "general",
    text: Annotated[
        list[str] | None, typer.Option(help="general: files, folders, globs (.txt .gz .xz .zst .jsonl) or datasets:NAME.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="general: how many tokens the student sees (default 20 million).")] = None,
    task: TaskName = None,
    data_dir: DataDir = None,
    train: Train = None,
    dev: Dev = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    kind: Kind = None,
    augment: Annotated[bool, typer.Option("--augment", help="task: train on changed copies of its rows too.")] = False,
    epochs: Annotated[float | None, typer.Option(help="task: passes over its rows (default: 3 to 30, by number).")] = None,
    preset: Annotated[str | None, typer.Option(help="tenfold (default) or paper: losses, rates and batch.")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows of a step.")] = None,
    micro: Annotated[int | None, typer.Option(help="Rows at a time, where a step's do not fit in memory.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of the factors.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value: any other key of a stage.")] = None,
    fresh: Fresh = False,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Teach a compressed model to answer as the original does. A killed run goes on where it was.

    Example: tenfold distill small taught --teacher bert-base-uncased --text wiki.txt
    """
    from tenfold.distillation.running import distill_folder
    from tenfold.distillation.stage import parse_stage

    given: dict[str, Any] = {
        "stage": stage, "text": text, "preset": preset, "tokens": tokens, "epochs": epochs, "batch": batch, "micro": micro,
        "lr": lr, "seed": seed, "augment": {"seed": seed or 0} if augment else None,
        "task": task_settings(task, data_dir, train, dev, text_column, label_column, kind, seed=seed),
    }  # fmt: skip
    chosen = _merged(assignments(set_), {key: value for key, value in given.items() if value is not None})
    with progress(as_json) as say:
        result = distill_folder(student, out, teacher, parse_stage(chosen), force, fresh, say)
    if os.environ.get("RANK", "0") != "0":
        return  # one of several processes: the first one speaks
    if as_json:
        print_json(result.to_dict())
        return
    print_curve(result.curve)
    for note in result.notes:
        out_console.print(f"note: {note}")
    for split, scores in result.scores.items():
        out_console.print(f"{split}: " + ", ".join(f"{name} {value:.1f}" for name, value in scores.items()))
    if result.peak is not None:
        out_console.print(f"{result.peak['share']:.1%} of {result.peak['of']}")
    out_console.print(
        f"{out}: {result.steps:,} steps, {result.tokens:,} tokens, {result.tokens_per_second:,.0f} tokens/s, "
        f"{result.seconds:.0f} s in all"
    )


def _merged(assigned: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """`--set task.kind=regression` reaches into sections; options win."""
    found: dict[str, Any] = {}
    for dotted, value in assigned.items():
        section, *keys = dotted.split(".", 1)
        if keys:
            found.setdefault(section, {})[keys[0]] = value
        else:
            found[section] = value
    for key, value in given.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = {**found[key], **value} if both else value
    return found


def print_curve(curve: tuple[dict[str, float], ...]) -> None:
    """One table, whatever the phases' losses are."""
    names = list(dict.fromkeys(name for row in curve for name in row if name not in ("epoch", "step")))
    table = Table(title="on held-out rows", title_justify="left")
    for column in ("step", *names):
        table.add_column(column, justify="right")
    for row in curve:
        table.add_row(f"{row['step']:.0f}", *(f"{row[name]:.4f}" if name in row else "" for name in names))
    out_console.print(table)
