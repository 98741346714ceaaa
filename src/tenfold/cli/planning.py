"""plan and compress: from a model to a plan and to a compressed folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tenfold.cli.common import (
    Embeddings,
    Family,
    Force,
    Group,
    Json,
    Method,
    Model,
    Of,
    RecipeFile,
    Seed,
    Set,
    Sites,
    Tile,
    To,
    app,
    assignments,
    mb,
    out_console,
    print_json,
    progress,
    share,
)  # fmt: skip

if TYPE_CHECKING:
    from tenfold.planning import Candidate, Plan
    from tenfold.recipe import Recipe


@app.command()
def plan(
    model: Model,
    method: Method = None,
    to: To = None,
    of: Of = None,
    sites: Sites = None,
    group: Group = None,
    tile: Tile = None,
    family: Family = None,
    embeddings: Embeddings = None,
    recipe: RecipeFile = None,
    set_: Set = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Show what a method would do to MODEL, without reading weights.

    Example: tenfold plan bert-base-uncased --method IV-36-128
    """
    settings = compress_recipe(recipe, set_, method, to, of, sites, group, tile, family, embeddings, seed=seed)
    with progress(as_json, long=False) as say:
        say("reading the config")
        from tenfold.checkpoints import find, refuse_compressed, skeleton
        from tenfold.planning import plan_model

        source = find(model, weights=False)
        refuse_compressed(source)
        candidates = plan_model(skeleton(source), settings.compress)
    if as_json:
        chosen = candidates[0]
        print_json(
            {
                **chosen.plan.summary(),
                "why": chosen.why,
                "tile": chosen.tile,
                "groups": chosen.plan.to_dict()["groups"],
                "candidates": [{**c.plan.summary(), "tile": c.tile} for c in candidates],
            }
        )
        return
    if settings.compress.to is not None:
        _print_candidates(candidates, settings.compress.to, settings.compress.of)
    print_plan(candidates[0].plan)


@app.command()
def compress(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    method: Method = None,
    to: To = None,
    of: Of = None,
    init: Annotated[str | None, typer.Option(help="Start: random, hosvd, hooi or activation (needs --text).")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Text to see activations on: files, folders, globs or datasets:NAME.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="How many tokens of it (default 16384).")] = None,
    rounds: Annotated[int | None, typer.Option(help="Alternating improvements (default 3).")] = None,
    recollect: Annotated[bool | None, typer.Option("--recollect", help="Fit again to what compressed layers give.")] = None,
    sites: Sites = None,
    group: Group = None,
    tile: Tile = None,
    family: Family = None,
    embeddings: Embeddings = None,
    recipe: RecipeFile = None,
    set_: Set = None,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write MODEL's matrices as shared factors and save a folder that from_pretrained loads.

    Example: tenfold compress bert-base-uncased small --method III-64 --init activation --text corpus.txt
    """
    settings = compress_recipe(
        recipe, set_, method, to, of, sites, group, tile, family, embeddings,
        init=init, text=text or None, tokens=tokens, rounds=rounds, recollect=recollect, seed=seed,
    )  # fmt: skip
    from tenfold.pipeline import compress_folder

    with progress(as_json) as say:
        result = compress_folder(model, out, settings, force, say)
    if as_json:
        print_json(result.to_dict())
        return
    print_plan(result.plan)
    for fit in result.report.fits:
        lost = "" if fit.output_error is None else f", of the outputs {fit.output_error:.1%}"
        out_console.print(
            f"{fit.group}: lost of the weights (squared) {fit.weight_error:.1%}{lost}; {fit.init}, {fit.seconds:.1f} s"
        )
    out_console.print(f"{out}: {mb(result.to_dict()['bytes'])} of weights, {result.seconds:.1f} s in all")


def compress_recipe(
    file: Path | None,
    set_: list[str] | None,
    method: str | None,
    to: str | None,
    of: str | None,
    sites: str | None,
    group: str | None,
    tile: str | None,
    family: str | None,
    embeddings: int | None,
    **more: Any,
) -> "Recipe":
    """The recipe file, then --set, then options: the last one wins."""
    from tenfold.recipe import load_recipe

    given: dict[str, Any] = {
        "method": method, "to": to, "of": of, "sites": sites, "group": group, "tile": tile, "family": family,
        "embeddings": embeddings, **more,
    }  # fmt: skip
    overrides = assignments(set_)
    overrides |= {f"compress.{key}": value for key, value in given.items() if value is not None}
    if method is not None:
        overrides.setdefault("compress.to", None)
    if to is not None:
        overrides.setdefault("compress.method", None)
    return load_recipe(file, overrides)


def print_plan(plan: "Plan") -> None:
    from tenfold.forms import describe
    from tenfold.planning import SCOPES, describe_sites

    table = Table(title=f"{plan.method}: what is factored together", title_justify="left")
    for column in ("group", "sites", "tiles", "form", "parameters"):
        table.add_column(column, justify="right" if column in ("tiles", "parameters") else "left")
    for group in plan.groups:
        table.add_row(
            group.name, describe_sites(group.sites), f"{group.n} of {group.i} x {group.o}", describe(group.form),
            f"{group.dense:,} -> {group.parameters:,}",
        )  # fmt: skip
    out_console.print(table)
    assert plan.totals is not None
    sizes = Table(title="kept / original", title_justify="left")
    for column in ("", "before", "after", "kept"):
        sizes.add_column(column, justify="left" if not column else "right")
    for scope, meaning in SCOPES.items():
        sizes.add_row(f"{scope}: {meaning}", f"{plan.totals.of(scope):,}", f"{plan.kept(scope):,}", share(plan.ratio(scope)))
    before, after = plan.flops()
    sizes.add_row("FLOPs of one request of 128 tokens", f"{before / 1e9:.2f} G", f"{after / 1e9:.2f} G", share(after / before))
    out_console.print(sizes)
    for note in plan.notes:
        out_console.print(f"note: {note}")


def _print_candidates(candidates: "list[Candidate]", to: str, of: str) -> None:
    table = Table(title=f"{to} of {of}", title_justify="left")
    for column in ("", "method", "tile", "matrices kept", f"{of} kept", "FLOPs kept"):
        table.add_column(column, justify="left" if column in ("", "method", "tile") else "right")
    for c in candidates:
        before, after = c.plan.flops()
        table.add_row(
            "->" if c.chosen else "", c.plan.method, c.tile, share(c.plan.ratio("matrices")), share(c.plan.ratio(of)),
            share(after / before),
        )  # fmt: skip
    out_console.print(table)
    out_console.print(f"-> {candidates[0].plan.method}: {candidates[0].why}")
