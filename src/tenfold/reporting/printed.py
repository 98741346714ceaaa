"""What the paper prints, and how a printed cell is compared with one of ours. The values are data: printed.yaml."""

import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from math import prod
from typing import Any

import yaml

from tenfold.reporting.table import Cell, Table

UNITS = {"": 1, "M": 10**6, "B": 10**9}
_NUMBER = re.compile(r"(\d+)(?:\.(\d+))? ?([MB]?)")
_TERM = re.compile(r"(\d*)((?:[A-Za-z](?:\^\d)?)+)")


@dataclass(frozen=True)
class Reason:
    """Why the cells rows x columns differ. `follows`: the (row, column) of ours that does give what is printed."""

    columns: tuple[str, ...]
    why: str
    rows: tuple[str, ...] = ()
    follows: tuple[str | None, str | None] | None = None

    def covers(self, row: str, column: str) -> bool:
        return column in self.columns and (not self.rows or row in self.rows)

    def holds(self, table: Table, row: str, column: str, text: str) -> bool:
        if self.follows is None:
            return True
        return agrees(text, table.cell(self.follows[0] or row, self.follows[1] or column), table)


@dataclass(frozen=True)
class Printed:
    """One table of the paper: `given` are its inputs, `cells` its results, both row -> column -> text."""

    given: dict[str, dict[str, str]] = field(default_factory=dict)
    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class Difference:
    table: str
    row: str
    column: str
    printed: str
    computed: str
    agrees: bool
    why: str


@cache
def printed(name: str) -> Printed:
    """A table's data. Read as text throughout, so that 3.0 stays 3.0."""
    text = (resources.files(__package__) / "printed.yaml").read_text(encoding="utf-8")
    data: dict[str, Any] = yaml.load(text, yaml.BaseLoader).get(name, {})
    return Printed(data.get("given", {}), data.get("printed", {}), tuple(_reason(r) for r in data.get("reasons", [])))


def _reason(data: dict[str, Any]) -> Reason:
    follows = data.get("follows")
    pair = (follows.get("row"), follows.get("column")) if follows else None
    return Reason(tuple(data["columns"]), " ".join(data["why"].split()), tuple(data.get("rows", ())), pair)


def compare(table: Table) -> list[Difference]:
    """Every printed cell of a table. A reason counts only where it covers the cell and what it says holds."""
    paper = printed(table.name)
    return [
        _difference(table, row, column, text, paper.reasons)
        for row, cells in paper.cells.items()
        for column, text in cells.items()
    ]


def _difference(table: Table, row: str, column: str, text: str, reasons: tuple[Reason, ...]) -> Difference:
    ours = table.cell(row, column)
    why = " ".join(r.why for r in reasons if r.covers(row, column) and r.holds(table, row, column, text))
    return Difference(table.name, row, column, text, like(text, ours), agrees(text, ours, table), why)


def agrees(text: str, ours: Cell, table: Table) -> bool:
    """A number agrees within half of its last printed digit, a formula when its value is exactly ours."""
    assert isinstance(ours, int | float), f'only a number can be compared with the printed "{text}"'
    if not _NUMBER.fullmatch(text):
        return evaluate(text, table) == ours
    half = unit(text) * 10.0 ** -digits(text) / 2
    return abs(number(text) - ours) <= half * (1 + 1e-9)


def like(text: str, ours: Cell) -> str:
    """Our number in the unit of the printed one, with one digit more."""
    assert isinstance(ours, int | float)
    if not _NUMBER.fullmatch(text):
        return f"{ours:,}"
    return f"{ours / unit(text):.{digits(text) + 1}f}{_parts(text)[2]}"


def number(text: str) -> float:
    """86.0M as 86000000."""
    whole, decimals, _ = _parts(text)
    return float(f"{whole}.{decimals}") * unit(text)


def digits(text: str) -> int:
    return len(_parts(text)[1])


def unit(text: str) -> int:
    return UNITS[_parts(text)[2]]


def _parts(text: str) -> tuple[str, str, str]:
    match = _NUMBER.fullmatch(text)
    assert match is not None, f'a printed number must be like 12, 3.1, 86.0M or 1.3B, got "{text}"'
    return match[1], match[2] or "", match[3]


def evaluate(formula: str, table: Table) -> int:
    """The value of a sum of products of powers, such as O(2bnDd + Dd^2 + ld^2), at the table's sizes."""
    terms = re.fullmatch(r"(?:O\()?(.*?)\)?", formula)
    assert terms is not None
    return sum(_term(term.strip(), table) for term in terms[1].split("+"))


def _term(term: str, table: Table) -> int:
    match = _TERM.fullmatch(term)
    assert match is not None, f'a term must be like 12Ld^2, got "{term}"'
    powers = [(letter, int(power or 1)) for letter, power in re.findall(r"([A-Za-z])(?:\^(\d))?", match[2])]
    return int(match[1] or 1) * prod(table.sizes[letter] for letter, power in powers for _ in range(power))
