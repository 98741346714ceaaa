"""A user's label column: what kind of task it makes, its classes, and each value as a label."""

import math
from collections.abc import Sequence
from typing import Any

from tenfold.errors import TenfoldError
from tenfold.tasks.task import Kind, Label

MOST_CLASSES = 50
"""More whole numbers than this are taken for a scale."""

SEPARATORS = ("|", ";", ",")


def guess_kind(values: Sequence[Any]) -> Kind:
    """Lists are several labels; fractions, or very many whole numbers, a scale; anything else classes."""
    if any(isinstance(value, list | tuple) for value in values):
        return "multi_label"
    numbers = [_number(value) for value in values]
    if any(number is None for number in numbers):
        return "classification"
    whole = all(number == int(number) for number in numbers if number is not None and math.isfinite(number))
    return "classification" if whole and len(set(numbers)) <= MOST_CLASSES else "regression"


def refuse_missing(kind: Kind, values: Sequence[Any], name: str, spec: str) -> None:
    """Where several labels may hold, an empty cell says that none does."""
    missing = [i for i, value in enumerate(values, 1) if _missing(value) and not (kind == "multi_label" and value == "")]
    if missing:
        raise TenfoldError(
            f'every row must have a label, got {len(missing)} without in the column "{name}" of {spec}, the first in row '
            f"{missing[0]}: fill or remove them"
        )


def class_names(kind: Kind, values: Sequence[Any], name: str) -> tuple[str, ...]:
    """In the order of the model's outputs: by number where all are numbers, otherwise by name."""
    if kind in ("regression", "embedding"):
        return ()
    split = separator(values) if kind == "multi_label" else None
    held = [_several(value, split) if kind == "multi_label" else [spell(value)] for value in values]
    names = {each for one in held for each in one}
    if kind == "classification" and len(names) > max(MOST_CLASSES, len(values) // 2):
        raise TenfoldError(
            f'a label column must repeat its classes, got {len(names)} different values in {len(values)} rows of "{name}": '
            "is it a text column, or a number (kind regression)?"
        )
    if len(names) < 2:
        raise TenfoldError(
            f'there must be at least two classes, got {", ".join(names) or "none"} in "{name}": add rows of others'
        )
    return tuple(sorted(names, key=float if all(_number(each) is not None for each in names) else str))


def to_labels(kind: Kind, values: Sequence[Any], names: Sequence[str], spec: str) -> tuple[Label, ...]:
    if kind in ("regression", "embedding"):
        return tuple(_real(value, i, spec) for i, value in enumerate(values, 1))
    place = {name: i for i, name in enumerate(names)}
    split = separator(values) if kind == "multi_label" else None
    held = [_several(value, split) if kind == "multi_label" else [spell(value)] for value in values]
    if strange := sorted({each for one in held for each in one} - set(place)):
        raise TenfoldError(
            f"{spec} has labels that train lacks, got {', '.join(strange[:5])}{' ...' if strange[5:] else ''} "
            f"(train has {', '.join(list(names)[:10])}{' ...' if names[10:] else ''}): add rows of them to train, or drop them"
        )
    if kind == "multi_label":
        return tuple(tuple(sorted(place[each] for each in one)) for one in held)
    return tuple(place[one[0]] for one in held)


def separator(values: Sequence[Any]) -> str:
    """What stands between several labels of a cell: the first of | ; , that any cell holds."""
    texts = [value for value in values if isinstance(value, str)]
    return next((mark for mark in SEPARATORS if any(mark in text for text in texts)), SEPARATORS[0])


def spell(value: Any) -> str:
    """A class as a string: 1.0 of a column of floats is 1, True is true."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _several(value: Any, split: str | None) -> list[str]:
    parts = value if isinstance(value, list | tuple) else str(value).split(split)
    return sorted({spell(part) for part in parts} - {""})


def _missing(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return False
    return value is None or (isinstance(value, float) and math.isnan(value)) or str(value).strip().lower() in ("", "nan")


def _number(value: Any) -> float | None:
    if isinstance(value, bool | list | tuple):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _real(value: Any, row: int, spec: str) -> float:
    number = _number(value)
    if number is None or not math.isfinite(number):
        raise TenfoldError(
            f'a score must be a finite number, got "{value}" in row {row} of {spec}: repair it, or name the kind'
        )
    return number
