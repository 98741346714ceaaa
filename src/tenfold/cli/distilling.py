"""distill: teach a small model to answer as a large one does."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tenfold.cli.common import Force, Json, Seed, app, assignments, out_console, print_json, progress
from tenfold.errors import TenfoldError


@app.command()
def distill(
    student: Annotated[str, typer.Argument(help="A folder that tenfold compressed, or any smaller model.")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    teacher: Annotated[str, typer.Option(help="The model to learn from: a folder or a hub name.")],
    text: Annotated[
        list[str] | None, typer.Option(help="Files, folders, globs (.txt .gz .xz .zst .jsonl) or datasets:NAME.")
    ] = None,
    stage: Annotated[str, typer.Option(help="general: on unlabelled text.")] = "general",
    preset: Annotated[str | None, typer.Option(help="tenfold (default) or paper: losses, rates and batch.")] = None,
    tokens: Annotated[int | None, typer.Option(help="How many tokens the student sees (default 20 million).")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows of a step.")] = None,
    micro: Annotated[int | None, typer.Option(help="Rows at a time, where a step's do not fit in memory.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of the factors.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value: any other key of a stage.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop an unfinished run instead of going on with it.")] = False,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Teach a compressed model to answer as the original does. A killed run goes on where it was.

    Example: tenfold distill small taught --teacher bert-base-uncased --text wiki.txt
    """
    if stage != "general":
        raise TenfoldError(f'--stage must be general, got "{stage}"')
    from tenfold.distillation.running import distill_folder
    from tenfold.distillation.stage import parse_stage

    given = {"text": text, "preset": preset, "tokens": tokens, "batch": batch, "micro": micro, "lr": lr, "seed": seed}
    chosen = {**assignments(set_), **{key: value for key, value in given.items() if value is not None}}
    with progress(as_json) as say:
        result = distill_folder(student, out, teacher, parse_stage(chosen), force, fresh, say)
    if as_json:
        print_json(result.to_dict())
        return
    _print_curve(result.curve)
    out_console.print(f"{out}: {result.steps:,} steps, {result.tokens / 1e6:.1f} M tokens, {result.seconds:.0f} s in all")


def _print_curve(curve: tuple[dict[str, float], ...]) -> None:
    names = [name for name in curve[0] if name not in ("epoch", "step")]
    table = Table(title="losses on held-out rows", title_justify="left")
    for column in ("step", *names):
        table.add_column(column, justify="right")
    for row in curve:
        table.add_row(f"{row['step']:.0f}", *(f"{row[name]:.4f}" for name in names))
    out_console.print(table)
