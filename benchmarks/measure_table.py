"""The table of docs/measuring.md, from what `tenfold measure` wrote.

    python benchmarks/measure_table.py small/measurement.json

Writes the record to results/measure-METHOD.json, without the kernel's name, and prints the table.
"""

import sys
from dataclasses import replace
from pathlib import Path

from tenfold.measurement import Measurement, from_dict
from tenfold.measurement.record import COMPRESSED, ORIGINAL, Cell, Timing
from tenfold.records import read_json, write_json

HEADS = (
    "batch x length",
    "original, eager",
    "original, best",
    "path",
    "compressed",
    "times as fast as the best",
    "peak memory, original",
    "compressed",
)


def main() -> None:
    for file in map(Path, sys.argv[1:]):
        found = from_dict(read_json(file))
        print(f"{found.compressed.method}\n\n{table(found)}\n\n" + "\n".join(f"- {line}" for line in found.crossovers))
        machine = {**found.machine, "system": str(found.machine["system"]).split("-")[0]}
        out = Path(__file__).parent / f"results/measure-{found.compressed.method}.json"
        write_json(out, replace(found, machine=machine).to_dict())


def table(found: Measurement) -> str:
    lines = [HEADS, ["---"] * len(HEADS), *(row for cell in found.cells for row in rows(cell))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rows(cell: Cell) -> list[list[str]]:
    timed = [each for each in cell.timings if each.median is not None]
    best = min((each for each in timed if each.model == ORIGINAL), key=lambda each: each.median or 0)
    before = cell.timing(ORIGINAL, "eager")
    found: list[list[str]] = []
    for each in (each for each in timed if each.model == COMPRESSED):
        ratio = cell.speedup(each.path, best=True)
        interval = f"{ratio.estimate:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio and ratio.low else "-"
        first = [f"{cell.batch} x {cell.label}", ms(before), f"{ms(best)} {best.path}"]
        found.append([*(first if not found else [""] * 3), each.path, ms(each), interval, mb(before), mb(each)])
    return found


def ms(each: Timing | None) -> str:
    return "-" if each is None or each.median is None else f"{1e3 * each.median:.1f} ms"


def mb(each: Timing | None) -> str:
    return "-" if each is None or each.peak_bytes is None else f"{each.peak_bytes / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
