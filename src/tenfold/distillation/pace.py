"""How fast a run is: tokens a second, and on CUDA the share of what the card could do at best."""

import time
from dataclasses import dataclass

import torch

KNOWN = {
    "B200": 2250e12,
    "GH200": 989e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10": 125e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}
"""Dense bfloat16 FLOP a second by a part of the card's name, as its maker states them; the first that fits counts."""
SIZE, TRIES = 8192, 5


@dataclass(frozen=True)
class Peak:
    """FLOP a second, and where the number is from."""

    flops: float
    source: str


@dataclass(frozen=True)
class Pace:
    """What a step is worth: real tokens, FLOPs of the matrix products (mean over phases), and the card's peak."""

    tokens: float
    flops: float = 0.0
    peak: Peak | None = None


def peak(device: torch.device) -> Peak | None:
    """None on a CPU."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    for part, flops in KNOWN.items():
        if part in name:
            return Peak(flops, f"the maker's {flops / 1e12:.0f} TFLOP/s of {name}")
    flops = measured(device)
    return Peak(flops, f"{flops / 1e12:.0f} TFLOP/s of a {SIZE} x {SIZE} product measured on {name}")


def measured(device: torch.device, size: int = SIZE) -> float:
    """FLOP a second of one square product in bfloat16, the best of a few."""
    a = torch.randn(size, size, device=device).bfloat16()
    best = float("inf")
    for _ in range(TRIES):
        _wait(device)
        start = time.perf_counter()
        a @ a
        _wait(device)
        best = min(best, time.perf_counter() - start)
    return float(2 * size**3 / best)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
