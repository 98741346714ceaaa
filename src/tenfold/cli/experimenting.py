"""trim, glue, ablate: students with fewer layers, and whole tables of models by one command."""

from pathlib import Path
from typing import Annotated

import typer

from tenfold.cli.common import Force, Json, Model, Seed, app, mb, out_console, print_json, progress


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
