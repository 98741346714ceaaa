"""finetune: a model learns a task from its labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tenfold.cli.common import Force, Json, Model, Seed, Set, app, assignments, out_console, print_json, progress
from tenfold.cli.tasking import DataDir, Dev, Kind, LabelColumn, TaskName, TextColumn, Train, task_settings
from tenfold.errors import RecipeError

if TYPE_CHECKING:
    from tenfold.finetuning.running import Finetuned


@app.command()
def finetune(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    task: TaskName = None,
    data_dir: DataDir = None,
    train: Train = None,
    dev: Dev = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    kind: Kind = None,
    length: Annotated[int | None, typer.Option(help="Tokens of a row (default: 64 for sst2, else 128).")] = None,
    grid: Annotated[bool, typer.Option("--grid", help="The paper's grid: lr 1e-5, 2e-5, 3e-5 times batch 16, 32.")] = False,
    lr: Annotated[list[float] | None, typer.Option(help="Learning rate; repeated: a grid (default 2e-5).")] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Rows of a step; repeated: a grid (default 32).")] = None,
    micro: Annotated[int | None, typer.Option(help="Rows at a time, where a step's do not fit in memory.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the rows (default 3).")] = None,
    patience: Annotated[int | None, typer.Option(help="Stop after so many scores in a row without a better one.")] = None,
    class_weights: Annotated[str | None, typer.Option(help="none (default) or balanced.")] = None,
    held_out: Annotated[float | None, typer.Option(help="Choose on this share of train instead of on dev.")] = None,
    seeds: Annotated[int | None, typer.Option(help="So many runs of the best cell, in OUT/seed-K.")] = None,
    theseus: Annotated[str | None, typer.Option(help="Module replacing (BERT-of-Theseus) with this teacher.")] = None,
    set_: Set = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop an unfinished run instead of going on with it.")] = False,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fine-tune a model, dense or compressed, on a GLUE task or on rows of your own. A killed run goes on.

    Example: tenfold finetune bert-base-uncased teacher --task sst2
    """
    from tenfold.finetuning.running import finetune_folder
    from tenfold.finetuning.settings import GRID, parse_finetune
    from tenfold.tasks import parse_task

    assigned = assignments(set_)
    rows = task_settings(
        task, data_dir, train, dev, text_column, label_column, kind=kind, length=length, held_out=held_out, seed=seed
    )
    data = {key.removeprefix("data."): value for key, value in assigned.items() if key.startswith("data.")}
    given: dict[str, Any] = {
        "lr": lr or None, "batch": batch or None, "micro": micro, "epochs": epochs, "patience": patience,
        "class_weights": class_weights, "seeds": seeds, "seed": seed, "theseus": {"teacher": theseus} if theseus else None,
    }  # fmt: skip
    given = {key: value for key, value in given.items() if value is not None}
    if grid and (both := sorted(given.keys() & GRID.keys())):
        raise RecipeError(f"--grid sets lr and batch, got --{both[0]} as well: leave one of them out")
    others = {key: value for key, value in assigned.items() if not key.startswith("data.")}
    settings = _nested({**others, **(GRID if grid else {})}, given)
    spec, chosen = parse_task({**data, **(rows or {})}), parse_finetune(settings)
    with progress(as_json) as say:
        result = finetune_folder(model, out, spec, chosen, force, say, fresh=fresh)
    if as_json:
        print_json(result.to_dict())
    else:
        print_finetuned(result)


def _nested(assigned: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """`--set theseus.start=0.5` reaches into its section; options win."""
    found: dict[str, Any] = {}
    for dotted, value in assigned.items():
        section, _, key = dotted.partition(".")
        if key:
            found.setdefault(section, {})[key] = value
        else:
            found[section] = value
    for key, value in given.items():
        found[key] = {**found[key], **value} if isinstance(value, dict) and isinstance(found.get(key), dict) else value
    return found


def print_finetuned(result: "Finetuned") -> None:
    from tenfold.evaluation.alarms import WARNING

    kept = {outcome.cell for outcome in result.best}
    title = f"{result.metric} on {result.split}, the best of each run (* is kept)"
    table = Table(title=title, title_justify="left")
    for column in ("lr", "batch", "seed", "score", "epoch", "seconds", ""):
        table.add_column(column, justify="left" if column == "" else "right")
    for outcome in result.cells:
        cell = outcome.cell
        score = "diverged" if outcome.score is None else f"{outcome.score:.1f}"
        mark = "*" if cell in kept else ""
        row = (str(cell.seed), score, f"{outcome.epoch:.1f}", f"{outcome.seconds:.0f}", mark)
        table.add_row(f"{cell.lr:g}", str(cell.batch), *row)
    out_console.print(table)
    for outcome in result.cells:
        if outcome.diverged:
            text = f"warning: {outcome.cell} was given up: {outcome.diverged}"
            out_console.print(text, style="bold red", markup=False)
    for note in result.notes:
        if note.startswith(WARNING):
            out_console.print(note, style="bold red", markup=False)
        else:
            out_console.print(f"note: {note}", markup=False)
    for split, scores in result.scores.items():
        told = (f"{name} {value:.1f} (floor {result.floors[split][name]:.1f})" for name, value in scores.items())
        out_console.print(f"{split}: " + ", ".join(told))
    out_console.print(f"{result.out}: {len(result.best)} of {len(result.cells)} runs kept, {result.seconds:.0f} s in all")
