"""What the cells say together: the best throughput, and where the compressed model is slower."""

from collections.abc import Iterable, Sequence
from math import ceil, exp, floor, log

from tenfold.measurement.record import TIMED, Cell, Throughput
from tenfold.measurement.statistics import SLOWER


def throughputs(cells: Sequence[Cell], limit: int | None) -> tuple[Throughput, ...]:
    """One for each model, path, length and precision: the measured batch with most sequences a second that fits the limit.

    With a limit, a path whose peak is not known has none.
    """
    best: dict[tuple[str, str, str, str], Throughput] = {}
    for cell in cells:
        for timing in cell.timings:
            if timing.state != TIMED or timing.throughput is None:
                continue
            if limit is not None and (timing.peak_bytes is None or timing.peak_bytes > limit):
                continue
            key = (timing.model, timing.path, cell.label, cell.dtype)
            if key not in best or timing.throughput > best[key].sequences_per_second:
                best[key] = Throughput(
                    timing.model, timing.path, cell.label, cell.dtype, cell.batch, timing.throughput, timing.peak_bytes
                )
    return tuple(best.values())


def crossovers(cells: Sequence[Cell]) -> tuple[str, ...]:
    """A line for each path, precision and length at which the compressed model is slower than the original's fastest path."""
    kinds = dict.fromkeys((s.path, cell.dtype, cell.label) for cell in cells for s in cell.speedups)
    lines = (_line(path, dtype, label, _of(cells, dtype, label)) for path, dtype, label in kinds)
    return tuple(line for line in lines if line)


def _of(cells: Iterable[Cell], dtype: str, label: str) -> list[Cell]:
    return sorted((cell for cell in cells if (cell.dtype, cell.label) == (dtype, label)), key=lambda cell: cell.batch)


def _line(path: str, dtype: str, label: str, cells: Sequence[Cell]) -> str | None:
    found = [(cell.batch, ratio) for cell in cells if (ratio := cell.speedup(path, best=True)) is not None]
    slower = [ratio.verdict == SLOWER for _, ratio in found]
    if not any(slower):
        return None
    against = "/".join(dict.fromkeys(ratio.against for (_, ratio), is_slower in zip(found, slower, strict=True) if is_slower))
    start = f"{path}, {dtype}: slower than the original ({against})"
    return f"{start} {_where([(batch, ratio.estimate) for batch, ratio in found], slower)}{_at(label)}"


def _at(label: str) -> str:
    return f" at length {label}" if label.isdigit() else f" ({label})"


def _where(found: Sequence[tuple[int, float]], slower: Sequence[bool]) -> str:
    """Below or above the batch at which the ratio passes 1, read off between the two batches measured around it."""
    batches = [batch for batch, _ in found]
    if all(slower):
        return "at every batch measured" if len(batches) > 1 else f"at batch {batches[0]}"
    changes = [k for k in range(1, len(slower)) if slower[k] != slower[k - 1]]
    if len(changes) > 1:
        return "at batch " + ", ".join(str(batch) for batch, is_slower in zip(batches, slower, strict=True) if is_slower)
    left, right = found[changes[0] - 1], found[changes[0]]
    if slower[0]:
        return f"below batch {ceil(_crossing(left, right, right[0]))}"
    return f"above batch {floor(_crossing(left, right, left[0]))}"


def _crossing(left: tuple[int, float], right: tuple[int, float], otherwise: int) -> float:
    """Where the ratio is 1 on the straight line in the logarithms of both; `otherwise` where it stays on one side of 1."""
    (a, at_a), (b, at_b) = left, right
    if (at_a < 1) == (at_b < 1):
        return otherwise
    share = log(at_a) / (log(at_a) - log(at_b))
    return round(exp(log(a) + share * (log(b) - log(a))), 6)
