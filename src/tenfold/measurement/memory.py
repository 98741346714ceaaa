"""Bytes: of a model's weights, and of what a call holds at its peak besides them."""

import os
from typing import Any

import torch
from torch import nn

from tenfold.measurement.timing import Call


def weights_bytes(model: nn.Module) -> int:
    """Parameters and buffers, each piece of memory once."""
    held: dict[int, int] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        storage = tensor.untyped_storage()
        held[storage.data_ptr()] = storage.nbytes()
    return sum(held.values())


def peak_bytes(call: Call, device: torch.device) -> int:
    """The most that lay in memory at once during a call, over what lay there before it; by torch's own allocators."""
    return _cuda_peak(call) if device.type == "cuda" else _cpu_peak(call)


def _cuda_peak(call: Call) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _cpu_peak(call: Call) -> int:
    """The profiler sees every allocation and every release; its largest running total is the peak."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # it writes a line to standard error at each start and stop
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    assert profile.profiler is not None
    events: list[Any] = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    total = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        total += event.nbytes()
        peak = max(peak, total)
    return peak
