"""The command line: verbs to functions. The only place that prints or exits."""

import contextlib
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from tenfold.errors import RecipeError, TenfoldError

if TYPE_CHECKING:
    from tenfold.planning import Candidate, Plan
    from tenfold.recipe import Recipe
    from tenfold.reporting.printed import Difference
    from tenfold.reporting.table import Table as PaperTable

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
Seed = Annotated[int | None, typer.Option(help="Seed of everything random.")]


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
    settings = _recipe(recipe, set_, method, to, of, sites, group, tile, family, embeddings, seed=seed)
    from tenfold.checkpoints import find, refuse_compressed, skeleton
    from tenfold.planning import plan_model

    source = find(model, weights=False)
    refuse_compressed(source)
    candidates = plan_model(skeleton(source), settings.compress)
    if as_json:
        chosen = candidates[0]
        _print_json(
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
    _print_plan(candidates[0].plan)


@app.command()
def compress(
    model: Model,
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    method: Method = None,
    to: To = None,
    of: Of = None,
    init: Annotated[str | None, typer.Option(help="Start: random, hosvd, hooi or activation (needs --text).")] = None,
    text: Annotated[Path | None, typer.Option(help="Text to see activations on, one passage a line (.txt, .gz, .xz).")] = None,
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
    settings = _recipe(
        recipe, set_, method, to, of, sites, group, tile, family, embeddings,
        init=init, text=None if text is None else str(text), tokens=tokens, rounds=rounds, recollect=recollect, seed=seed,
    )  # fmt: skip
    from tenfold.pipeline import compress_folder

    with _progress(as_json) as say:
        result = compress_folder(model, out, settings, force, say)
    if as_json:
        _print_json(result.to_dict())
        return
    _print_plan(result.plan)
    for fit in result.report.fits:
        lost = "" if fit.output_error is None else f", of the outputs {fit.output_error:.1%}"
        out_console.print(
            f"{fit.group}: lost of the weights (squared) {fit.weight_error:.1%}{lost}; {fit.init}, {fit.seconds:.1f} s"
        )
    out_console.print(f"{out}: {_mb(result.to_dict()['bytes'])} of weights, {result.seconds:.1f} s in all")


@app.command()
def export(
    folder: Annotated[str, typer.Argument(help="A folder that tenfold compressed.")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    to: Annotated[str, typer.Option(help="dense: an ordinary folder that needs no tenfold.")] = "dense",
    force: Force = False,
    as_json: Json = False,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
) -> None:
    """Turn a compressed folder into another kind of model.

    Example: tenfold export small dense --to dense
    """
    if to != "dense":
        raise TenfoldError(f'--to must be dense, got "{to}"')
    from tenfold.pipeline import export_dense, weight_bytes

    with _progress(as_json) as say:
        export_dense(folder, out, force, say)
    if as_json:
        _print_json({"out": str(out), "to": to, "bytes": weight_bytes(out)})
    else:
        out_console.print(f"{out}: {_mb(weight_bytes(out))} of weights")


@app.command()
def distill(
    student: Annotated[str, typer.Argument(help="A folder that tenfold compressed, or any smaller model.")],
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
    teacher: Annotated[str, typer.Option(help="The model to learn from: a folder or a hub name.")],
    text: Annotated[
        list[str] | None, typer.Option(help="Files, folders, globs (.txt .gz .xz .zst .jsonl) or datasets:NAME.")
    ] = None,
    stage: Annotated[str, typer.Option(help="general: on unlabelled text.")] = "general",
    preset: Annotated[str | None, typer.Option(help="tenfold (default) or paper: losses, rates and batch.")] = None,
    tokens: Annotated[int | None, typer.Option(help="How many tokens the student sees (default 20 million).")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows of a step.")] = None,
    micro: Annotated[int | None, typer.Option(help="Rows at a time, where a step's do not fit in memory.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate of the factors.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value: any other key of a stage.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop an unfinished run instead of going on with it.")] = False,
    seed: Seed = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Teach a compressed model to answer as the original does. A killed run goes on where it was.

    Example: tenfold distill small taught --teacher bert-base-uncased --text wiki.txt
    """
    if stage != "general":
        raise TenfoldError(f'--stage must be general, got "{stage}"')
    from tenfold.distillation.running import distill_folder
    from tenfold.distillation.stage import parse_stage

    given = {"text": text, "preset": preset, "tokens": tokens, "batch": batch, "micro": micro, "lr": lr, "seed": seed}
    chosen = {**_assignments(set_), **{key: value for key, value in given.items() if value is not None}}
    with _progress(as_json) as say:
        result = distill_folder(student, out, teacher, parse_stage(chosen), force, fresh, say)
    if as_json:
        _print_json(result.to_dict())
        return
    _print_curve(result.curve)
    out_console.print(f"{out}: {result.steps:,} steps, {result.tokens / 1e6:.1f} M tokens, {result.seconds:.0f} s in all")


@app.command()
def tables(
    name: Annotated[str | None, typer.Argument(help="One table; without it, all.")] = None,
    check: Annotated[bool, typer.Option("--check", help="List every printed value that differs from ours, and why.")] = False,
    as_json: Json = False,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
) -> None:
    """Recompute the paper's analytic tables from the forms.

    Example: tenfold tables glue --check
    """
    from tenfold.reporting import paper

    chosen = [paper.table(name)] if name else [paper.table(each) for each in paper.TABLES]
    differences = paper.check(name) if check else []
    if as_json:
        _print_json({"tables": [asdict(each) for each in chosen], "check": [asdict(each) for each in differences]})
    elif check:
        _print_check(differences)
    else:
        for each in chosen:
            _print_paper_table(each)


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
    with _progress(as_json) as say:
        result = run(model, out, load_recipe(None, overrides).compress, True, say)
    if as_json:
        _print_json(result.to_dict())
        return
    _print_plan(result.plan)
    table = Table(title="agreement with the original on held-out sentences (1 is perfect)", title_justify="left")
    for column in ("start", "cosine of vectors", "rank correlation of similarities", "5 nearest neighbours kept"):
        table.add_column(column, justify="left" if column == "start" else "right")
    for row in result.rows:
        a = row.agreement
        table.add_row(row.start, f"{a.cosine:.3f}", f"{a.rank_correlation:.3f}", f"{a.neighbours_kept:.3f}")
    out_console.print(table)
    out_console.print(f"{result.out}: {_mb(result.bytes_after)} of weights, the original has {_mb(result.bytes_before)}")


def _recipe(
    file: Path | None,
    assignments: list[str] | None,
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
    overrides = _assignments(assignments)
    overrides |= {f"compress.{key}": value for key, value in given.items() if value is not None}
    if method is not None:
        overrides.setdefault("compress.to", None)
    if to is not None:
        overrides.setdefault("compress.method", None)
    return load_recipe(file, overrides)


def _assignments(assignments: list[str] | None) -> dict[str, Any]:
    found = {}
    for assignment in assignments or []:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise RecipeError(f'--set takes key=value, got "{assignment}"')
        found[key] = yaml.safe_load(value)
    return found


def _print_curve(curve: tuple[dict[str, float], ...]) -> None:
    names = [name for name in curve[0] if name not in ("epoch", "step")]
    table = Table(title="losses on held-out rows", title_justify="left")
    for column in ("step", *names):
        table.add_column(column, justify="right")
    for row in curve:
        table.add_row(f"{row['step']:.0f}", *(f"{row[name]:.4f}" for name in names))
    out_console.print(table)


def _print_plan(plan: "Plan") -> None:
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
        sizes.add_row(f"{scope}: {meaning}", f"{plan.totals.of(scope):,}", f"{plan.kept(scope):,}", _share(plan.ratio(scope)))
    before, after = plan.flops()
    sizes.add_row("FLOPs of one request of 128 tokens", f"{before / 1e9:.2f} G", f"{after / 1e9:.2f} G", _share(after / before))
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
            "->" if c.chosen else "", c.plan.method, c.tile, _share(c.plan.ratio("matrices")), _share(c.plan.ratio(of)),
            _share(after / before),
        )  # fmt: skip
    out_console.print(table)
    out_console.print(f"-> {candidates[0].plan.method}: {candidates[0].why}")


def _print_paper_table(source: "PaperTable") -> None:
    table = Table(title=f"{source.name}: {source.title}", title_justify="left")
    for column in source.columns:
        table.add_column(column, overflow="fold")
    for row in source.shown():
        table.add_row(*row)
    out_console.print(table)
    for note in source.notes:
        out_console.print(f"  {note}", highlight=False)


def _print_check(differences: "list[Difference]") -> None:
    table = Table(title="printed values that differ", title_justify="left")
    for column in ("table", "row", "column", "printed", "ours", "why"):
        table.add_column(column, overflow="fold")
    for each in differences:
        if not each.agrees:
            table.add_row(each.table, each.row, each.column, each.printed, each.computed, each.why)
    out_console.print(table)
    agreeing = sum(each.agrees for each in differences)
    out_console.print(f"{agreeing} of {len(differences)} printed values agree.")


def _share(ratio: float) -> str:
    return f"{ratio:.3f} (1/{1 / ratio:.1f})"


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _print_json(data: Any) -> None:
    print(json.dumps(data))


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line that says what is going on, on standard error, where a person looks at it. What follows takes long."""
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


def main() -> None:
    """Run the verb. A user's mistake is one line and exit code 2."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    gc.disable()  # torch and transformers make 600,000 objects that stay: looking for garbage among them costs 1.6 s
    try:
        app(prog_name="tenfold")
    except TenfoldError as error:
        print(f"tenfold: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
