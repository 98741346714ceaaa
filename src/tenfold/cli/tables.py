"""tables: the paper's analytic tables."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tenfold.cli.common import Json, Seed, app, out_console, print_json
from tenfold.errors import TenfoldError

if TYPE_CHECKING:
    from tenfold.reporting.printed import Difference
    from tenfold.reporting.table import Table as PaperTable


@app.command()
def tables(
    name: Annotated[str | None, typer.Argument(help="One table; without it, all.")] = None,
    check: Annotated[bool, typer.Option("--check", help="List every printed value that differs from ours, and why.")] = False,
    at: Annotated[
        str | None, typer.Option(help="Other sizes for orders (b,n,D,d,l) or complexity (d,l): b=1,n=512,d=128.")
    ] = None,
    as_json: Json = False,
    seed: Seed = None,  # noqa: ARG001 - every verb takes it; nothing here is random
) -> None:
    """Recompute the paper's analytic tables from the forms.

    Example: tenfold tables glue --check
    """
    sizes = _sizes(at, name)
    from tenfold.reporting import paper

    chosen = [paper.table(each, sizes) for each in ([name] if name else paper.TABLES)]
    differences = paper.check(name, sizes) if check else []
    if as_json:
        print_json({"tables": [asdict(each) for each in chosen], "check": [asdict(each) for each in differences]})
    elif check:
        _print_check(differences)
    else:
        for each in chosen:
            _print_paper_table(each)


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
    """A reason that many cells share is told once, by its number."""
    table = Table(title="printed values that differ", title_justify="left")
    for column in ("table", "row", "column", "printed", "ours", "why"):
        table.add_column(column, overflow="fold")
    reasons: dict[str, int] = {}
    for each in differences:
        if not each.agrees:
            number = reasons.setdefault(each.why, len(reasons) + 1)
            table.add_row(each.table, each.row, each.column, each.printed, each.computed, str(number))
    if reasons:
        out_console.print(table)
    for why, number in reasons.items():
        out_console.print(f"{number}: {why}", highlight=False, markup=False)
    agreeing = sum(each.agrees for each in differences)
    out_console.print(f"{agreeing} of {len(differences)} printed values agree.")


def _sizes(text: str | None, name: str | None) -> dict[str, int]:
    if text is None:
        return {}
    if name is None:
        raise TenfoldError(f"--at is for one table, got {text} for all: name orders or complexity")
    sizes = {}
    for part in text.split(","):
        letter, _, number = part.partition("=")
        if not number.strip().isdigit():
            raise TenfoldError(f'--at takes letters with numbers, got "{part}": write for example b=1,n=512,d=128')
        sizes[letter.strip()] = int(number)
    return sizes
