"""What the user asks to be measured."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import torch

from tenfold.errors import TenfoldError, nearest
from tenfold.measurement.paths import PATHS
from tenfold.measurement.shapes import LENGTHS
from tenfold.measurement.statistics import FEWEST

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@dataclass(frozen=True)
class Settings:
    """Every batch x length x dtype x path is measured. Without `lengths`, those of LENGTHS that the models have positions for.

    A cell ends when every ratio's interval is narrower than `interval` (as a share of the ratio) or after `max_seconds`; with
    `repeats`, after exactly that many rounds instead. `memory_limit` (bytes) bounds the batches that the best throughput is
    taken over. `lengths_from` is a text file whose passages' lengths replace `lengths`.
    """

    batches: tuple[int, ...] = (1, 8, 32)
    lengths: tuple[int, ...] | None = None
    dtypes: tuple[str, ...] = ("float32",)
    paths: tuple[str, ...] = ("eager",)
    device: str | None = None
    repeats: int | None = None
    interval: float = 0.05
    max_seconds: float = 30.0
    memory_limit: int | None = None
    lengths_from: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        _positive("a batch", self.batches)
        _positive("a length", self.lengths if self.lengths is not None else LENGTHS)
        _known("a dtype", self.dtypes, DTYPES)
        _known("a path", self.paths, PATHS)
        if self.repeats is not None and self.repeats < FEWEST:
            raise TenfoldError(f"--repeats must be at least {FEWEST}, for a 95% interval to exist, got {self.repeats}")
        for name, value in (("--interval", self.interval), ("--max-seconds", self.max_seconds)):
            if not (value > 0 and isfinite(value)):
                raise TenfoldError(f"{name} must be a number above 0, got {value}: leave it out for the default")
        if self.memory_limit is not None and self.memory_limit < 1:
            raise TenfoldError(f"--memory-limit must be above 0, got {self.memory_limit}: write for example 8GB")
        if self.lengths is not None and self.lengths_from is not None:
            raise TenfoldError("lengths come either from --length or from --lengths-from, got both: leave one out")


def _positive(what: str, values: Iterable[int]) -> None:
    found = list(values)
    if not found:
        raise TenfoldError(f"{what} must be named, got none: write for example 1,8,32")
    for value in found:
        if value < 1:
            raise TenfoldError(f"{what} must be 1 or more, got {value}: leave it out")
    _once(what, found)


def _known(what: str, values: Iterable[str], known: Iterable[str]) -> None:
    found, names = list(values), list(known)
    for value in found:
        if value not in names:
            raise TenfoldError(f'{what} must be one of {", ".join(names)}, got "{value}": {nearest(value, names)}')
    if not found:
        raise TenfoldError(f"{what} must be named, got none: choose from {', '.join(names)}")
    _once(what, found)


def _once(what: str, values: list[int] | list[str]) -> None:
    for value in values:
        if values.count(value) > 1:  # type: ignore[arg-type]
            raise TenfoldError(f"{what} must be named once, got {value} again: leave one out")


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """`1,8,32`."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise TenfoldError(f'{option} must be whole numbers with commas between, got "{text}": write 1,8,32') from error


def parse_names(text: str) -> tuple[str, ...]:
    """`eager,compiled`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_bytes(text: str) -> int:
    """`8GB` or `512 MiB`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?I?B?)\s*", text.upper())
    if match is None or match[2] not in _UNITS:
        raise TenfoldError(f'--memory-limit must be a number with a unit, got "{text}": write for example 8GB or 512MiB')
    return int(float(match[1]) * _UNITS[match[2]])
