"""demo: the whole way on a small model."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tenfold.cli.common import Json, Seed, app, mb, out_console, print_json, progress
from tenfold.cli.planning import print_plan


@app.command()
def demo(
    model: Annotated[
        str | None, typer.Option(help="Another model folder or hub name; default: all-MiniLM-L6-v2 from PyPI.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the compressed model goes.")] = Path("runs/demo"),
    to: Annotated[str, typer.Option(help="The share of the matrices to keep.")] = "1/2",
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Compress a small sentence model and compare it with the original, on text that every machine has.

    Example: tenfold demo
    """
    from tenfold.demo import demo as run
    from tenfold.recipe import load_recipe

    overrides = {"compress.to": to, "compress.of": "matrices", "compress.seed": seed or 0}
    with progress(as_json) as say:
        result = run(model, out, load_recipe(None, overrides).compress, True, say)
    if as_json:
        print_json(result.to_dict())
        return
    print_plan(result.plan)
    table = Table(title="agreement with the original on held-out sentences (1 is perfect)", title_justify="left")
    for column in ("start", "cosine of vectors", "rank correlation of similarities", "5 nearest neighbours kept"):
        table.add_column(column, justify="left" if column == "start" else "right")
    for row in result.rows:
        a = row.agreement
        table.add_row(row.start, f"{a.cosine:.3f}", f"{a.rank_correlation:.3f}", f"{a.neighbours_kept:.3f}")
    out_console.print(table)
    out_console.print(f"{result.out}: {mb(result.bytes_after)} of weights, the original has {mb(result.bytes_before)}")
