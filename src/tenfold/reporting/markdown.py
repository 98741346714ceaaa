"""Markdown built as text: what comes out of a file cannot become markup."""

import re
from collections.abc import Iterable, Sequence
from html import escape

Cell = str | None


def text(value: str) -> str:
    """Within a line or a cell: no tags, no links, no emphasis, no end of the cell."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escape(" ".join(value.split()), quote=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Cell]], numbers: Iterable[int] = ()) -> str:
    """`numbers`: which columns stand to the right. None is an empty cell."""
    right = set(numbers)
    lines = [columns, ["---:" if k in right else "---" for k in range(len(columns))]]
    lines += [["" if cell is None else text(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fence(code: str, language: str = "") -> str:
    """A block whose fence is longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    mark = "`" * max(3, longest + 1)
    return f"{mark}{language}\n{code.strip()}\n{mark}"
