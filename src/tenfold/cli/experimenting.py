"""trim, glue, ablate: students with fewer layers, and whole tables of models by one command."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tenfold.cli.common import (
    Force,
    Json,
    Method,
    Model,
    Of,
    Seed,
    Set,
    To,
    app,
    assignments,
    mb,
    out_console,
    print_json,
    progress,
)
from tenfold.cli.tasking import DataDir, Dev, Kind, LabelColumn, TextColumn, Train, task_settings
from tenfold.errors import TenfoldError


@app.command()
def trim(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    layers: Annotated[str, typer.Option(help="Which layers stay: every-2 (0, 2, 4, ...), or their numbers from 0: 0,3,6.")],
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
    force: Force = False,
    as_json: Json = False,
) -> None:
    """A dense model with some of MODEL's layers: a student to distil, or to compress further.

    Example: tenfold trim bert-base-uncased six-layers --layers every-2
    """
    from tenfold.experiments.trimming import trim_folder
    from tenfold.pipeline import weight_bytes

    with progress(as_json) as say:
        chosen = trim_folder(model, out, layers, force, say)
    if as_json:
        print_json({"out": str(out), "layers": list(chosen), "bytes": weight_bytes(out)})
        return
    out_console.print(f"{out}: layers {', '.join(map(str, chosen))}, {mb(weight_bytes(out))} of weights")


Tasks = Annotated[str | None, typer.Option(help="sst2,mrpc,rte ...")]
Seeds = Annotated[int | None, typer.Option(min=1, help="Students of each task, with seed, seed + 1, ... (default 1).")]
Augment = Annotated[bool, typer.Option("--augment", help="Teach on changed copies of the rows too.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the rows in the task stage (default: by their number).")]
Grid = Annotated[bool, typer.Option("--grid", help="Teachers by the paper's grid: lr 1e-5, 2e-5, 3e-5 times batch 16, 32.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Drop all that is in OUT instead of going on with it.")]


@app.command()
def glue(
    student: Annotated[str, typer.Argument(help="A compressed folder, or any smaller model.")],
    out: Annotated[Path, typer.Argument(help="The folder to make or to go on with.")],
    model: Annotated[
        str | None, typer.Option(help="The original, which becomes the teachers; default: as STUDENT says.")
    ] = None,
    tasks: Tasks = None,
    data_dir: DataDir = None,
    train: Train = None,
    dev: Dev = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    kind: Kind = None,
    seeds: Seeds = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            help="Rivals by the same command: dense,low_rank,every-2-kd,every-2-pkd,theseus,tinybert,tinybert-IV-72-384."
        ),
    ] = None,
    teachers: Annotated[str | None, typer.Option(help="A folder of teachers by task; made there where missing.")] = None,
    augment: Augment = False,
    epochs: Epochs = None,
    preset: Annotated[str | None, typer.Option(help="Of the task stage: tenfold (default) or paper.")] = None,
    grid: Grid = False,
    set_: Annotated[list[str] | None, typer.Option("--set", help="task.lr=..., finetune.epochs=..., limit=...")] = None,
    fresh: Fresh = False,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """STUDENT on every task, or on your own rows: teachers, distillation, rivals, scores, one table.

    A killed run goes on; more tasks, seeds and rivals may be asked later.

    Example: tenfold glue small table --tasks rte,mrpc --seeds 3 --baselines dense,low_rank,every-2-kd
    """
    from tenfold.experiments.glue import parse_table, run_glue
    from tenfold.finetuning.settings import GRID
    from tenfold.recipe import overridden

    given: dict[str, Any] = {
        "tasks": _names(tasks), "data_dir": data_dir, "seeds": seeds, "baselines": _names(baselines), "teachers": teachers,
        "task.epochs": epochs, "task.preset": preset, "task.augment.seed": (seed or 0) if augment else None, "seed": seed,
        "own": task_settings(None, None, train, dev, text_column, label_column, kind),
    }  # fmt: skip
    stated = {"task.stage": "task"} | ({f"finetune.{key}": value for key, value in GRID.items()} if grid else {})
    chosen = {**stated, **assignments(set_), **{key: value for key, value in given.items() if value is not None}}
    table = parse_table(overridden({}, chosen))
    with progress(as_json) as say:
        record = run_glue(student, out, table, model, fresh, say)
    if as_json:
        print_json(record)
    else:
        print_table(record, out)


@app.command()
def ablate(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The folder to make or to go on with.")],
    recipe: Annotated[Path | None, typer.Option(help="Cells or a sweep (YAML); default: the paper's three stages.")] = None,
    method: Method = None,
    to: To = None,
    of: Of = None,
    text: Annotated[
        list[str] | None, typer.Option(help="For the general stage: files, folders, globs or datasets:NAME.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="How many tokens of it (default 20 million).")] = None,
    tasks: Tasks = None,
    data_dir: DataDir = None,
    train: Train = None,
    dev: Dev = None,
    text_column: TextColumn = None,
    label_column: LabelColumn = None,
    seeds: Seeds = None,
    augment: Augment = False,
    epochs: Epochs = None,
    grid: Grid = False,
    set_: Set = None,
    fresh: Fresh = False,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """What each part of the protocol is worth: one student for each cell of a recipe, one table. A killed run goes on.

    Example: tenfold ablate bert-base-uncased stages --method IV-36-128 --text wiki.txt --tasks rte,mrpc
    """
    from tenfold.experiments.ablating import run_ablation
    from tenfold.experiments.ablation import load_ablation
    from tenfold.finetuning.settings import GRID

    if tasks and train:
        raise TenfoldError("an ablation takes --tasks or --train, got both: leave one out")
    asked: list[str | None] = [*(_names(tasks) or []), *([None] if train else [])]
    named = [task_settings(task, data_dir, train, dev, text_column, label_column) for task in asked]
    given: dict[str, Any] = {
        "compress.method": method, "compress.to": to, "compress.of": of, "general.text": text, "general.tokens": tokens,
        "data": named or None, "seeds": seeds, "task.epochs": epochs, "task.augment.seed": (seed or 0) if augment else None,
        "seed": seed,
    }  # fmt: skip
    stated = {f"finetune.{key}": value for key, value in GRID.items()} if grid else {}
    chosen = {**stated, **assignments(set_), **{key: value for key, value in given.items() if value is not None}}
    if method is not None or to is not None:
        chosen.setdefault("compress.to" if method is not None else "compress.method", None)
    ablation = load_ablation(recipe, chosen)
    with progress(as_json) as say:
        record = run_ablation(model, out, ablation, fresh, say)
    if as_json:
        print_json(record)
    else:
        print_table(record, out)


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def print_table(record: dict[str, Any], out: Path) -> None:
    """What results.json holds, warnings last, where one sees them."""
    from rich.table import Table

    from tenfold.experiments.tables import CONSTANT, GAPS, columns, gaps, rows

    seeds = f", {record['seeds']} seeds (± standard deviation)" if record["seeds"] > 1 else ""
    title = f"scores on dev{seeds}; {CONSTANT}: one answer to all rows; floor: the best answer that does not look at the text"
    table = Table(title=title, title_justify="left")
    for column in columns(record):
        table.add_column(column, justify="left" if column in ("model", "form") else "right")
    for row in rows(record):
        table.add_row(*row)
    out_console.print(table)
    differences = Table(title="on the same rows: paired bootstrap of the difference, in points", title_justify="left")
    for column in GAPS:
        differences.add_column(column, justify="left" if column in GAPS[:4] else "right")
    for row in gaps(record):
        differences.add_row(*row)
    out_console.print(differences)
    for name, about in record.get("averages", {}).items():
        out_console.print(f"average {name}: {about['mean']:.1f} ({about['title']})", highlight=False, markup=False)
    for text in record["warnings"]:
        out_console.print(f"warning: {text}", highlight=False, markup=False)
    out_console.print(f"{out}/results.json holds all of this; the models lie beside it")
