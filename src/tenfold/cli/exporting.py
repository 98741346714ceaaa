"""export: a folder as a model for other programs."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from tenfold.cli.common import Force, Json, Seed, app, mb, out_console, print_json, progress
from tenfold.errors import TenfoldError, nearest

KINDS = ("dense", "onnx")


@app.command()
def export(
    folder: Annotated[str, Argument(help="A folder that tenfold compressed; for onnx any model folder.")],
    out: Annotated[Path, Argument(help="The folder to make.")],
    to: Annotated[
        str, Option(help="dense: an ordinary folder that needs no tenfold. onnx: OUT/onnx/model.onnx, each factor once.")
    ] = "dense",
    int8: Annotated[
        bool, Option("--int8", help="onnx: word tables, and the products that it makes faster, in 8 bits.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
) -> None:
    """Turn a folder into another kind of model.

    Example: tenfold export small served --to onnx
    """
    if to not in KINDS:
        raise TenfoldError(f'--to must be onnx or dense, got "{to}": {nearest(to, KINDS)}')
    if int8 and to != "onnx":
        raise TenfoldError(f"--int8 is for --to onnx, got --to {to}: leave one out")
    if to == "onnx":
        _onnx(folder, out, int8, force, as_json)
        return
    from tenfold.pipeline import export_dense, weight_bytes

    with progress(as_json) as say:
        export_dense(folder, out, force, say)
    if as_json:
        print_json({"out": str(out), "to": to, "bytes": weight_bytes(out)})
    else:
        out_console.print(f"{out}: {mb(weight_bytes(out))} of weights")


def _onnx(folder: str, out: Path, int8: bool, force: bool, as_json: bool) -> None:
    from tenfold.exporters.onnx import export_onnx

    with progress(as_json) as say:
        made = export_onnx(folder, out, int8, force, say)
    if as_json:
        print_json({"to": "onnx", **made.to_dict()})
        return
    out_console.print(f"{out / made.file}: {mb(made.bytes)}, takes {', '.join(made.inputs)}, gives {', '.join(made.outputs)}")
    if int8:
        out_console.print(f"in 8 bits: {', '.join(made.int8) or 'nothing'}")
    out_console.print(f"largest difference to the model's outputs: {made.difference:.1e} of the largest")
