"""Short interleaved timings of a few ways to compute the same."""

import time
from collections.abc import Callable, Mapping

import torch

ROUNDS, SECONDS = 9, 0.4
"""The rounds that a timing takes, and when it stops before them (after three at least)."""


def interleaved(
    calls: Mapping[str, Callable[[], object]], device: torch.device, rounds: int = ROUNDS, seconds: float = SECONDS
) -> dict[str, float]:
    """The least seconds of each call: a neighbour only adds. A round runs each once, so it meets them alike."""
    for call in calls.values():
        call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    started = time.perf_counter()
    for number in range(rounds):
        for name, call in calls.items():
            found[name].append(_seconds(call, device))
        if number >= 2 and time.perf_counter() - started > seconds:
            break
    return {name: min(own) for name, own in found.items()}


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    call()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
