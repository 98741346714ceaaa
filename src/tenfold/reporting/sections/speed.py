"""Measured speed: every path of every cell, the intervals, and where the original is faster."""

from collections.abc import Iterator

from tenfold.measurement.record import COMPRESSED, ORIGINAL, TIMED, Cell, Measurement, Timing
from tenfold.reporting import units
from tenfold.reporting.html import Child, Html, absent, bullets, join, table, tag


def speed(record: Measurement | None, command: str | None) -> Html:
    if record is None:
        return absent("Not measured", command)
    parts = [
        tag(
            "p", "Times as fast as the original on its own fastest path, both timed in turns in one process: above 1 is faster."
        ),
        bullets(record.crossovers, class_="warn") if record.crossovers else None,
        _cells(record),
    ]
    if record.throughput:
        parts.append(_throughput(record))
    notes = [*_untimed(record), *record.notes]
    parts += [bullets(notes) if notes else None, tag("p", machine(record), class_="soft")]
    return join(parts, "\n")


def machine(record: Measurement) -> str:
    facts = record.machine
    shown = [str(facts[key]) for key in ("device", "cpu", "system") if facts.get(key)]
    counts = [f"{facts[key]} {key if facts[key] != 1 else key[:-1]}" for key in ("cores", "threads") if facts.get(key)]
    versions = [f"{name} {version}" for name, version in record.versions.items()]
    return "; ".join([*shown, *counts, *versions, record.time])


def _cells(record: Measurement) -> Html:
    heads = ("batch x length", "model", "path", "median", "p95", "sequences/s", "peak memory", "times as fast (95% interval)")
    rows = [row for cell in record.cells for row in _rows(cell)]
    return table(heads, rows, caption="Each batch x length on each path", numbers=range(3, 8), tall=len(rows) > 24)


def place(cell: Cell) -> str:
    """`8 x 128`, `8 x 128 bfloat16`."""
    return f"{cell.batch} x {cell.label}" + ("" if cell.dtype == "float32" else f" {cell.dtype}")


def _rows(cell: Cell) -> Iterator[tuple[Child, ...]]:
    for timing in sorted(cell.timings, key=lambda each: each.model != ORIGINAL):
        if timing.state == TIMED and timing.median is not None:
            yield (
                place(cell),
                timing.model,
                timing.path,
                units.seconds(timing.median),
                None if timing.p95 is None else units.seconds(timing.p95),
                None if timing.throughput is None else units.digits(timing.throughput),
                None if timing.peak_bytes is None else units.prefixed(timing.peak_bytes, "B"),
                _gain(cell, timing),
            )


def _gain(cell: Cell, timing: Timing) -> Html | None:
    found = cell.speedup(timing.path, best=True) if timing.model == COMPRESSED else None
    if found is None:
        return None
    interval = "" if found.low is None or found.high is None else f" ({found.low:.2f} to {found.high:.2f})"
    colour = "warn-text" if found.verdict == "slower" else None
    return join([tag("strong", f"{found.estimate:.2f}", class_=colour), interval])


def _untimed(record: Measurement) -> list[str]:
    """Each reason once."""
    timings = (timing for cell in record.cells for timing in cell.timings if timing.state != TIMED)
    return list(dict.fromkeys(f"{each.model}, {each.path} not timed: {each.why or each.state}" for each in timings))


def _throughput(record: Measurement) -> Html:
    rows = [
        (
            each.model,
            each.path,
            each.label,
            each.dtype,
            str(each.batch),
            units.digits(each.sequences_per_second),
            None if each.peak_bytes is None else units.prefixed(each.peak_bytes, "B"),
        )
        for each in record.throughput
    ]
    heads = ("model", "path", "length", "precision", "batch", "sequences/s", "peak memory")
    return table(heads, rows, caption="The batch at which most sequences a second are answered", numbers=(4, 5, 6))
