"""What a way of computing costs, before anything is measured.

    seconds = products x launch + max(2 x multiply-adds x tokens / rate, bytes / bandwidth)

Rough on purpose: it tells ways apart that are far from each other, and the measurement the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tenfold.forms import Form, Grid, Product, macs
from tenfold.runtime.fold import Folded

HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Machine:
    """FLOP/s, bytes/s and the seconds that it takes to start one product."""

    rate: float
    bandwidth: float
    launch: float


@dataclass(frozen=True)
class Work:
    """Of the layers that read one x: multiply-adds a token, numbers read whatever the tokens, products; and multiply-adds that
    a forward pass pays once."""

    macs: int
    weights: int
    products: int
    once: int = 0


def machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """Round figures: an H200's for a GPU, scaled with its processors, and a server core's for each thread of a CPU."""
    half = dtype in HALF
    if device.type == "cuda":
        processors = torch.cuda.get_device_properties(device).multi_processor_count
        return Machine(processors * (4e12 if half else 0.35e12), 3.5e12, 4e-6)
    threads = torch.get_num_threads()
    fast_half = half and torch.cpu._is_amx_tile_supported()
    rate = 250e9 if fast_half else 30e9 if dtype == torch.float64 else 60e9
    return Machine(rate * threads, 8e9 * threads, 8e-6)


def predict(work: Work, tokens: int, itemsize: int, on: Machine) -> float:
    compute = 2 * (work.macs * tokens + work.once) / on.rate
    return work.products * on.launch + max(compute, work.weights * itemsize / on.bandwidth)


def folded_work(folded: Folded) -> Work:
    return Work(folded.macs, sum(step.weight.numel() for step in folded.steps()), folded.products)


def plain_work(form: Form, products: Sequence[Product], grids: Sequence[Grid], n: int, i: int, o: int) -> Work:
    """Of `forms.apply`."""
    shapes = [(len(grid), len(grid[0])) for grid in grids]
    count = sum(_count(product, rows, columns) for product in products for rows, columns in shapes)
    total = sum(macs(form, n, i, o, rows, columns) for rows, columns in shapes)
    return Work(total, total, count, form.fold_macs(n, i, o))


def _count(product: Product, rows: int, columns: int) -> int:
    """Matrix products of one site."""
    core = product.core is not None and product.core[0].ndim == 2
    left = rows if isinstance(product.left, torch.Tensor) else rows * columns * (product.left is not None)
    right = columns if isinstance(product.right, torch.Tensor) else rows * columns * (product.right is not None)
    return left + rows * columns * core + right
