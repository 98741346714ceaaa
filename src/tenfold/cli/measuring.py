"""measure: is the compressed model smaller and faster, and where is it not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tenfold.cli.common import Json, Seed, app, mb, out_console, print_json, progress

if TYPE_CHECKING:
    from tenfold.measurement import Measurement
    from tenfold.measurement.record import Cell, Timing


@app.command()
def measure(
    compressed: Annotated[str, typer.Argument(help="The folder that tenfold compressed.")],
    against: Annotated[str, typer.Option(help="The model that it was made from: a folder or a hub name.")],
    batch: Annotated[str, typer.Option(help="Sequences at a time, with commas between.")] = "1,8,32",
    length: Annotated[
        str | None, typer.Option(help="Tokens of a sequence (default 32,128,512 as far as the models go).")
    ] = None,
    lengths_from: Annotated[
        Path | None, typer.Option(help="A text file instead of --length: batches of its passages, padded.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16, float16.")] = "float32",
    paths: Annotated[
        str, typer.Option(help="eager, compiled (torch.compile), fused (tenfold.optimize_), onnx.")
    ] = "eager,fused",
    device: Annotated[str | None, typer.Option(help="cpu or cuda; default: cuda where there is one.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Rounds of each cell, instead of the next two.")] = None,
    interval: Annotated[float, typer.Option(help="Go on until the 95% interval of every ratio is so narrow (0.05: 5%)")] = 0.05,
    max_seconds: Annotated[float, typer.Option(help="... or a cell has taken so long.")] = 30.0,
    memory_limit: Annotated[str | None, typer.Option(help="For the best throughput: 8GB, 512MiB.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write it; default: COMPRESSED/measurement.json.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw time against batch: FILE.png, with FILE.svg and FILE.csv.")] = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Measure a compressed model against its original in one process, and say where it is slower.

    Example: tenfold measure small --against bert-base-uncased --batch 1,32 --length 128 --figure times.png
    """
    from tenfold.measurement import Settings, measure_folders
    from tenfold.measurement.figure import draw_measurement, figure_path
    from tenfold.measurement.record import measurement_file, write_file
    from tenfold.measurement.settings import parse_bytes, parse_names, parse_numbers

    settings = Settings(
        batches=parse_numbers(batch, "--batch"),
        lengths=None if length is None else parse_numbers(length, "--length"),
        dtypes=parse_names(dtype),
        paths=parse_names(paths),
        device=device,
        repeats=repeats,
        interval=interval,
        max_seconds=max_seconds,
        memory_limit=None if memory_limit is None else parse_bytes(memory_limit),
        lengths_from=lengths_from,
        seed=seed or 0,
    )
    file = measurement_file(compressed, out)
    picture = None if figure is None else figure_path(figure)
    with progress(as_json) as say:
        found = measure_folders(compressed, against, settings, say)
    write_file(file, found)
    if picture is not None:
        draw_measurement(found, picture)
    if as_json:
        print_json(found.to_dict())
        return
    print_measurement(found)
    out_console.print(f"written to {file}" + (f" and {picture}.png, .svg, .csv" if picture is not None else ""))


def print_measurement(found: "Measurement") -> None:
    machine = found.machine
    out_console.print(f"on {machine['device']} ({machine['cpu']}, {machine['threads']} of {machine['cores']} cores)")
    _print_sizes(found)
    _print_times(found)
    for each in found.throughput:
        where = f"length {each.label}" if each.label.isdigit() else each.label
        out_console.print(
            f"most sequences a second, {where}, {each.dtype}: {each.model} {each.path} {each.sequences_per_second:,.1f} "
            f"at batch {each.batch}" + ("" if each.peak_bytes is None else f", {mb(each.peak_bytes)} at its peak")
        )
    for line in found.crossovers or ("nowhere is it shown to be slower than the original's fastest path",):
        out_console.print(line)
    for note in found.notes:
        out_console.print(f"note: {note}")


def _print_sizes(found: "Measurement") -> None:
    table = Table(title="size", title_justify="left")
    for column in ("", "original", "compressed", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    before, after = found.original, found.compressed
    for scope in (scope for scope in before.parameters if scope in after.parameters):
        a, b = before.parameters[scope], after.parameters[scope]
        table.add_row(f"parameters, {scope}", f"{a:,}", f"{b:,}", f"{b / a:.3f}")
    sizes = {"on disk": (before.disk_bytes, after.disk_bytes)}
    sizes |= {f"in memory, {k}": (n, after.memory_bytes[k]) for k, n in before.memory_bytes.items()}
    for name, (a, b) in sizes.items():
        table.add_row(name, mb(a), mb(b), f"{b / a:.3f}")
    dense = {each.length: each.counted for each in found.flops if each.model == "original" and each.path == "eager"}
    for each in found.flops:
        if each.model == "compressed":
            a = dense[each.length]
            name = f"GFLOP a sequence of {each.length}, {each.path}"
            table.add_row(name, f"{a / 1e9:.3g}", f"{each.counted / 1e9:.3g}", f"{each.counted / a:.3f}")
    out_console.print(table)


def _print_times(found: "Measurement") -> None:
    table = Table(title="milliseconds a batch; times as fast as the original, with 95% intervals", title_justify="left")
    for column in ("batch", "length", "dtype", "path", "original", "compressed", "same path", "its fastest path"):
        table.add_column(column, justify="left" if column in ("dtype", "path") else "right")
    for cell in found.cells:
        for path in dict.fromkeys(timing.path for timing in cell.timings):
            times = [_time(cell.timing(model, path)) for model in ("original", "compressed")]
            ratios = (_ratio(cell, path, best=False), _ratio(cell, path, best=True))
            table.add_row(str(cell.batch), cell.label, cell.dtype, path, *times, *ratios)
    out_console.print(table)
    whys = dict.fromkeys(
        f"{t.model}, {t.path}: {t.state}: {t.why}" for cell in found.cells for t in cell.timings if t.state != "timed"
    )
    for why in whys:
        out_console.print(why)
    chosen: dict[str, list[str]] = {}
    for cell in found.cells:
        for timing in (timing for timing in cell.timings if timing.how):
            chosen.setdefault(f"{timing.model}, {timing.path}: {timing.how}", []).append(f"{cell.batch} x {cell.label}")
    for how, cells in chosen.items():
        out_console.print(f"{how} (at {', '.join(cells)})")
    if slow := _preparations(found):
        out_console.print(f"before the times (folding, exporting, compiling): {', '.join(slow)}")


def _preparations(found: "Measurement") -> list[str]:
    """What took more than a second in all cells together."""
    seconds: dict[str, float] = {}
    for timing in (timing for cell in found.cells for timing in cell.timings):
        name = f"{timing.model} {timing.path}"
        seconds[name] = seconds.get(name, 0) + (timing.prepare_seconds or 0) + (timing.first_seconds or 0)
    return [f"{name} {total:.0f} s" for name, total in seconds.items() if total > 1]


def _time(timing: "Timing | None") -> str:
    if timing is None or timing.median is None:
        return "-" if timing is None else timing.state
    return f"{1e3 * timing.median:.2f}"


def _ratio(cell: "Cell", path: str, best: bool) -> str:
    found = cell.speedup(path, best)
    if found is None:
        return "-"
    interval = "" if found.low is None else f" ({found.low:.2f}-{found.high:.2f})"
    return f"{found.estimate:.2f}{interval}" + (f" {found.against}" if best else "")
