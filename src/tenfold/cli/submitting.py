"""submit: GLUE's official archive of answers to its test sets."""

from pathlib import Path
from typing import Annotated

import typer

from tenfold.cli.common import Force, Json, Seed, app, out_console, print_json, progress
from tenfold.cli.tasking import DataDir


@app.command()
def submit(
    out: Annotated[Path, typer.Argument(help="The archive to write: OUT.zip.")],
    from_: Annotated[
        list[Path], typer.Option("--from", help="A model made for a task of GLUE, or a folder of them (as tenfold glue's).")
    ],
    data_dir: DataDir = None,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Answers of models to GLUE's test sets, as its server wants them. Tables that no model answers hold a constant.

    Example: tenfold submit glue.zip --from small-glue
    """
    from tenfold.experiments.submitting import submit as submit_models

    with progress(as_json) as say:
        made = submit_models(out, from_, data_dir, force, say)
    if as_json:
        print_json(made.to_dict())
        return
    for note in made.notes:
        out_console.print(f"note: {note}", highlight=False, markup=False)
    for name, folder in made.answered.items():
        out_console.print(f"{name}: {folder}", highlight=False, markup=False)
    if made.filled:
        out_console.print(f"filled with a constant, as the server wants every table: {', '.join(made.filled)}")
    out_console.print(f"{out}: {len(made.answered)} tables answered of {len(made.answered) + len(made.filled)}")
