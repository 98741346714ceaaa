"""A table with its exact numbers, and how a number is shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """The first column names the row. int: a count; float: a ratio or a mean; None: there is no such number.

    `sizes` are the values of the letters in the paper's formulas.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)

    def cell(self, row: str, column: str) -> Cell:
        return {str(cells[0]): cells for cells in self.rows}[row][self.columns.index(column)]

    def shown(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(show(cell) for cell in row) for row in self.rows)


def show(cell: Cell) -> str:
    """23.0M, 22.35B, 10,368, 3.1, - for None."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, float):
        return f"{cell:.1f}"
    if cell >= 10**9:
        return f"{cell / 10**9:.2f}B"
    return f"{cell / 10**6:.1f}M" if cell >= 10**6 else f"{cell:,}"
