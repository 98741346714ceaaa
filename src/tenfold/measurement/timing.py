"""Seconds of a call, and calls of several contenders taken in turns.

A machine is never at rest: neighbours come, clocks drop. So every round calls each contender once, in an order drawn anew:
what slows one slows all, and none is always the one that finds the caches as another left them.
"""

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from time import perf_counter
from typing import TypeVar

import torch

Call = Callable[[], object]
Clock = Callable[[Call], float]
K = TypeVar("K", bound=Hashable)


def wall(call: Call) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def cuda(call: Call) -> float:
    """From the moment at which an idle GPU could begin to the one at which it is done: waiting for launches counts."""
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def clock_of(device: torch.device) -> Clock:
    return cuda if device.type == "cuda" else wall


def interleave(
    calls: Mapping[K, Call], clock: Clock, enough: Callable[[Mapping[K, list[float]]], bool], draw: Random
) -> dict[K, list[float]]:
    """Rounds until `enough` says so, which is asked before each; element r of every list is from round r."""
    times: dict[K, list[float]] = {key: [] for key in calls}
    order = list(calls)
    with _no_garbage_collection():
        while not enough(times):
            draw.shuffle(order)
            for key in order:
                times[key].append(clock(calls[key]))
    return times


def warm_up(calls: Mapping[K, Call], clock: Clock, draw: Random) -> None:
    """One round that nobody keeps."""
    interleave(calls, clock, lambda times: any(times.values()) or not times, draw)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
