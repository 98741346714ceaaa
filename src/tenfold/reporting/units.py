"""Numbers as text, one way everywhere: 23.0M, 45.4 MB, 22.35 GFLOP, 1/7.1, 12.3 ms."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from math import floor, isfinite, log10

PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def digits(value: float, significant: int = 3) -> str:
    """Three significant digits, never fewer than the whole part: 0.0123, 1.23, 1,234."""
    if value == 0 or not isfinite(value):
        return f"{value:g}"
    return f"{value:,.{max(0, significant - 1 - floor(log10(abs(value))))}f}"


def prefixed(value: float, unit: str = "") -> str:
    """23.0M, 45.4 MB; below a thousand as it is."""
    space = " " if unit else ""
    for size, prefix in PREFIXES:
        if abs(value) >= size:
            return f"{digits(value / size)}{space}{prefix}{unit}"
    return f"{digits(value) if isinstance(value, float) else value}{space}{unit}"


def share(ratio: float) -> str:
    """Kept / original, with the fraction that people quote where it is one."""
    return f"{ratio:.3f} (1/{1 / ratio:.1f})" if 0 < ratio < 1 else f"{ratio:.3f}"


def part(ratio: float) -> str:
    """`1/7.1`, or `82%` where that says more."""
    return f"1/{1 / ratio:.1f}" if 0 < ratio < 0.5 else f"{100 * ratio:.0f}%"


def seconds(value: float) -> str:
    return f"{digits(value * 1e3)} ms" if value < 1 else f"{digits(value)} s"


def duration(value: float) -> str:
    if value < 120:
        return f"{digits(value, 2)} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"


def moment(iso: str) -> str:
    """`2026-02-03 04:05 UTC` for an ISO time; what is none stays as it is."""
    try:
        return datetime.fromisoformat(iso).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return iso


def score(mean: float, std: float | None = None) -> str:
    """As GLUE prints it, with the spread over seeds where there is one."""
    return f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}"


def shell(words: Sequence[str]) -> str:
    return shlex.join(words)
