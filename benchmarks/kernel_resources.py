"""What the compiler says of every configuration of the fused kernels: a table in Markdown. No GPU is needed; not a timing.

python benchmarks/kernel_resources.py [--capability 90] [--dtype bfloat16]
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
import triton

from tenfold.runtime.kernels.resources import Resources, Row, calls, resources


def compiled(task: tuple[int, str, int]) -> tuple[Row, Resources]:
    """The numbered call of a precision, on a GPU of that capability."""
    number, dtype, capability = task
    row, call = list(calls(getattr(torch, dtype)))[number]
    return row, resources(call, capability)


def line(row: Row, found: Resources) -> str:
    c = row.config
    program = f"{row.program}, split" if row.split else row.program
    cells = [
        program, row.rank, row.length or "", f"{c.rows}, {c.step}, {c.columns}", c.warps, f"{c.stages}, {c.closing}",
        f"{found.registers} of {c.registers}" if c.registers else found.registers, f"{found.shared:,}", found.spilled,
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capability", type=int, default=90, choices=(80, 86, 89, 90))
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    asked = parser.parse_args()
    count = sum(1 for _ in calls(getattr(torch, asked.dtype)))
    print(f"sm_{asked.capability}, {asked.dtype}, triton {triton.__version__}\n")
    print("| program | rank | length | rows, step, columns | warps | stages | registers | shared memory | spilled |")
    print("|---|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for found in pool.map(compiled, [(number, asked.dtype, asked.capability) for number in range(count)]):
            print(line(*found), flush=True)


if __name__ == "__main__":
    main()
