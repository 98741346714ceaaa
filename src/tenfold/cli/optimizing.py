"""optimize: which way of computing is fastest here, for a compressed folder."""

from typing import TYPE_CHECKING, Annotated

from rich.table import Table
from typer import Argument, Option

from tenfold.cli.common import Json, Seed, app, out_console, print_json, progress

if TYPE_CHECKING:
    from tenfold.runtime import Optimized


@app.command()
def optimize(
    folder: Annotated[str, Argument(help="A folder that tenfold compressed.")],
    batch: Annotated[int | None, Option(help="What the model will mostly be called with (default 1).")] = None,
    length: Annotated[int | None, Option(help="Tokens of a sequence (default 128).")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16 or float64; default: as saved.")] = None,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 ...; default: a GPU where there is one.")] = None,
    path: Annotated[
        str, Option(help="auto: the fastest; or dense, chain, plain for all layers, fused for whole blocks.")
    ] = "auto",
    save: Annotated[bool, Option("--save", help="Keep the choice in FOLDER/runtime.json, which optimize_ follows.")] = False,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Time the exact ways to compute FOLDER's layers, and say which is fastest and why. The weights stay as they are.

    Example: tenfold optimize small --batch 8 --length 128
    """
    import torch

    from tenfold.runtime import optimize_folder

    torch.manual_seed(seed or 0)
    with progress(as_json) as say:
        say("timing")
        found = optimize_folder(folder, batch, length, dtype, device, path, save)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found, folder, save)


def _print(found: "Optimized", folder: str, save: bool) -> None:
    from tenfold.runtime import MEANING

    where = found.where
    title = f"batch {where.batch}, length {where.length}, {where.dtype}, {where.device}, {where.threads} threads"
    table = Table(title=title, title_justify="left")
    for column in ("layers", "", "way", "why", "microseconds"):
        table.add_column(column, justify="right" if column == "" else "left")
    for choice in found.choices:
        times = choice.measured or choice.predicted
        shown = ", ".join(f"{way} {seconds * 1e6:.0f}" for way, seconds in times.items())
        table.add_row(choice.roles, f"x {choice.count}", choice.path, choice.why, shown)
    out_console.print(table)
    whole = found.whole
    shown = ", ".join(f"{way} {seconds * 1e6:.0f}" for way, seconds in whole.measured.items())
    out_console.print(f"encoder: {whole.path}, {whole.why}{f' ({shown} microseconds)' if shown else ''}")
    if whole.without:
        out_console.print(f"why not by kernels: {whole.without}")
    for path in dict.fromkeys([whole.path, *(choice.path for choice in found.choices)]):
        out_console.print(f"{path}: {MEANING[path]}")
    kept = f"kept in {folder}/runtime.json" if save else "nothing was written (--save keeps the choice in FOLDER/runtime.json)"
    out_console.print(f"In Python: tenfold.optimize_(model); {kept}")
