"""explore and analyze: what could be compressed, and what the factors of a compressed model learnt."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tenfold.cli.common import Family, Force, Group, Json, Model, Seed, Sites, Tile, app, out_console, print_json, progress
from tenfold.errors import TenfoldError

TILE_ROWS = {
    "norm": "norm of a tile",
    "raw_norm": "norm in the original",
    "entropy_rank": "effective rank",
    "raw_entropy_rank": "effective rank in the original",
    "error": "weights' energy lost",
    "private": "private share",
    "moved": "moved from the start",
}


@app.command()
def explore(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The folder to make: analysis.json, figures and their numbers.")],
    text: Annotated[
        list[str] | None, typer.Option(help="Text to see activations on: files, folders, globs or datasets:NAME.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="How many tokens of it.", min=1)] = 8192,
    length: Annotated[int, typer.Option(help="In rows of this length.", min=8)] = 128,
    sizes: Annotated[str, typer.Option(help="Shares of the matrices to predict errors at.")] = "1/2,1/4,1/10,1/20,1/48",
    pairs: Annotated[int, typer.Option(help="How many pairs of tiles to join.", min=0)] = 100,
    fit: Annotated[
        bool, typer.Option("--fit", help="Fit every form as compress does instead of its first round (minutes).")
    ] = False,
    sites: Sites = None,
    group: Group = None,
    tile: Tile = None,
    family: Family = None,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Look at MODEL's weights before deciding: how few dimensions hold them, how alike they are, what each form would lose.

    Example: tenfold explore bert-base-uncased looked --text corpus.txt
    """
    from tenfold.analysis.exploring import Settings, explore_folder
    from tenfold.recipe import Recipe, parse_recipe

    asked = {
        "sites": sites,
        "group": group,
        "tile": tile,
        "family": family,
        "text": text or None,
        "tokens": tokens,
        "length": length,
        "seed": seed,
    }
    recipe: Recipe = parse_recipe({"compress": {key: value for key, value in asked.items() if value is not None}})
    with progress(as_json) as say:
        record = explore_folder(model, out, Settings(recipe.compress, _sizes(sizes), pairs, fit), force, say)
    if as_json:
        print_json({**record, "out": str(out)})
        return
    _print_looks(record)
    _print_predictions(record)
    _print_end(out, record)


@app.command()
def analyze(
    compressed: Annotated[str, typer.Argument(help="A folder that tenfold compressed.")],
    out: Annotated[
        Path | None, typer.Argument(help="The folder to make (default: COMPRESSED/analysis, where reports look).")
    ] = None,
    original: Annotated[str | None, typer.Option(help="The model that was compressed: raw norms, ranks and errors.")] = None,
    start: Annotated[str | None, typer.Option(help="The folder that training began with: how far factors moved.")] = None,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Look at what the factors of a compressed model learnt: distances, norms, ranks, usage of the bank, movement.

    Example: tenfold analyze taught --original bert-base-uncased --start small
    """
    from tenfold.analysis.analyzing import analyze_folder

    with progress(as_json) as say:
        out, record = analyze_folder(compressed, out, original, start, force, say)
    if as_json:
        print_json({**record, "out": str(out)})
        return
    for found in record["groups"]:
        _print_group(found)
    _print_end(out, record)


def _sizes(text: str) -> tuple[str, ...]:
    from tenfold.planning import parse_ratio

    found = tuple(size.strip() for size in text.split(",") if size.strip())
    if not found:
        raise TenfoldError(f'--sizes takes shares of the matrices, got "{text}": write for example 1/2,1/10')
    return tuple(sorted(dict.fromkeys(found), key=parse_ratio, reverse=True))


def _table(title: str, *columns: str, texts: int = 1) -> Table:
    """The first columns hold text, the others numbers."""
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < texts else "right")
    return table


def _print_looks(record: Any) -> None:
    table = _table("held by half of the dimensions", "", "mean", "least", "most", "random numbers", "dimensions for 90% (mean)")
    for group in record["groups"]:
        i, o = group["tile"]
        name = f"{group['name']}, {len(group['weights']['tiles'])} tiles of {i} x {o}"
        for view, what in (("weights", "variance"), ("outputs", "output energy")):
            found = group[view]
            if found is None:
                continue
            tiles = found["tiles"]
            ninety = f"{sum(tile['ninety'] for tile in tiles) / len(tiles):.0f} of {min(i, o)}"
            table.add_row(f"{name}: {what}", *_spread(found), ninety)
            for way, joined in found["pairs"].items():
                table.add_row(f"  pairs {way}", *_spread(joined), "")
        for mode, curve in group["modes"].items():
            table.add_row(f"  all as one stack, {mode}: energy", f"{curve['half']:.1%}", "", "", "", "")
    out_console.print(table)
    for group in record["groups"]:
        cosine = group["orthogonality"]
        if cosine["mean"] is not None:
            out_console.print(
                f"{group['name']}: cosine of two tiles {cosine['mean']:.4f} in the mean (random ones {cosine['random']:.4f}), "
                f"{cosine['largest']:.3f} at most"
            )


def _spread(found: Any) -> list[str]:
    keys = ("half", "half_least", "half_most", "half_random")
    return ["" if found[key] is None else f"{found[key]:.1%}" for key in keys]


def _print_predictions(record: Any) -> None:
    with_outputs = any(row["output_error"] is not None for row in record["predictions"])
    columns = ["", "size", "method", "tile", "matrices kept", "FLOPs kept", "weights lost"]
    table = _table("error before any teaching", *columns, *["outputs lost"] * with_outputs, texts=4)
    for row in record["predictions"]:
        weights, *outputs = [
            f"{'<= ' * row[f'{kind}_bound']}{row[f'{kind}_error']:.1%}" for kind in ("weight", "output")[: 1 + with_outputs]
        ]
        table.add_row(
            "->" if row["recommended"] else "", row["size"], row["method"], row["tile"], f"{row['kept']:.3f}",
            f"{row['flops']:.3f}", weights, *outputs,
        )  # fmt: skip
    if record["predictions"]:
        out_console.print(table)
    suggestion = record["suggestion"]
    if suggestion:
        out_console.print(f"-> tenfold compress {record['model']} OUT {' '.join(suggestion['options'])}")
        out_console.print(suggestion["why"])


def _print_group(found: Any) -> None:
    tiles = found["tiles"]
    table = _table(f"{found['name']} ({found['kind']}, {len(tiles)} tiles)", "", "mean", "least", "most")
    for key, text in TILE_ROWS.items():
        values = [tile[key] for tile in tiles if key in tile]
        if values:
            table.add_row(text, *(f"{x:.3g}" for x in (sum(values) / len(values), min(values), max(values))))
    for kind, value in found["distances"].items():
        table.add_row(f"1 - cosine of {found['vectors']}, {kind}", f"{value:.3f}", "", "")
    for kind, value in (found["parts"] or {}).items():
        table.add_row(f"1 - cosine of {found['vectors']}, same layer, {kind}", f"{value:.3f}", "", "")
    if found["bank"]:
        used = found["bank"]["used_by_tile"]
        size = len(found["bank"]["order"])
        table.add_row(
            f"bank matrices in use by a tile (of {size})", *(f"{x:.3g}" for x in (sum(used) / len(used), min(used), max(used)))
        )
    out_console.print(table)


def _print_end(out: Path, record: Any) -> None:
    for note in record["notes"]:
        out_console.print(f"note: {note}")
    out_console.print(f"{out}: {len(record['figures'])} figures and analysis.json, {record['seconds']:.1f} s")
