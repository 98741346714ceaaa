"""demo: the whole way on a small model."""

from pathlib import Path
from typing import Annotated

import typer

from tenfold.cli.common import Fresh, Json, Seed, app, print_json
from tenfold.cli.running import print_run, telling


@app.command()
def demo(
    model: Annotated[
        str | None, typer.Option(help="Another model folder or hub name; default: all-MiniLM-L6-v2 from PyPI.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the compressed model goes; it is replaced.")] = Path("runs/demo"),
    to: Annotated[str, typer.Option(help="The share of the matrices to keep.")] = "1/7",
    tokens: Annotated[int, typer.Option(help="How many tokens the compressed model is taught on.")] = 450_000,
    fresh: Fresh = False,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Compress a small sentence model, teach it for some minutes and compare, on text that every machine has.

    Example: tenfold demo
    """
    from tenfold.demo import demo as run

    with telling(as_json) as say:
        result = run(model, out, to, tokens, seed or 0, fresh, say)
    if as_json:
        print_json(result.to_dict())
    else:
        print_run(result)
