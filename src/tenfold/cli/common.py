"""The application that verbs register with, and what they share: options, consoles, progress, numbers as text."""

import contextlib
import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console

from tenfold.errors import RecipeError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Make pre-trained transformers many times smaller and faster.",
)
out_console, err_console = Console(width=None if sys.stdout.isatty() else 120), Console(stderr=True)

Model = Annotated[str, typer.Argument(help="A model folder, a hub name or a config.json.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace OUT where it exists.")]
RecipeFile = Annotated[Path | None, typer.Option("--recipe", help="A recipe (YAML); options override it.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="section.key=value: override any recipe key.")]
Method = Annotated[str | None, typer.Option(help="II-245, III-64, IV-36-128, IV-FFN-48-384, ALBERT, III-64+II-4 ...")]
To = Annotated[str | None, typer.Option(help="A size instead of a method: the share to keep, 1/48, 0.1 or 10%.")]
Of = Annotated[
    str | None, typer.Option(help="What --to is a share of: model (default), paper (without word table) or matrices.")
]
Sites = Annotated[str | None, typer.Option(help="Which matrices: all, attention or ffn.")]
Group = Annotated[str | None, typer.Option(help="What shares factors: all (default), role, layers:K or none.")]
Tile = Annotated[str | None, typer.Option(help="square (default), whole or IxO.")]
Family = Annotated[str | None, typer.Option(help="A family's name, or auto: every Linear in the repeated blocks.")]
Embeddings = Annotated[int | None, typer.Option(help="Rank for the word table too.")]
Fresh = Annotated[bool, typer.Option("--fresh/--resume", help="Drop an unfinished run, or go on with it (the default).")]
Seed = Annotated[int | None, typer.Option(help="Seed of everything random.")]


def assignments(assignments: list[str] | None) -> dict[str, Any]:
    found = {}
    for assignment in assignments or []:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise RecipeError(f'--set takes key=value, got "{assignment}"')
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise RecipeError(f"--set takes values in YAML, got {assignment}: close its brackets and quotes") from error
    return found


def share(ratio: float) -> str:
    return f"{ratio:.3f} (1/{1 / ratio:.1f})"


def mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def print_json(data: Any) -> None:
    print(json.dumps(data))


@contextlib.contextmanager
def progress(quiet: bool, long: bool = True) -> Iterator[Callable[[str], None]]:
    """A line that says what is going on, on standard error, where a person looks at it. What takes `long` collects garbage."""
    if long:
        gc.freeze()
        gc.enable()
    if quiet or not err_console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=err_console, transient=True
    ) as bar:
        task = bar.add_task("")
        yield lambda text: bar.update(task, description=text)
