"""What a measurement ran on."""

import os
import platform
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from tenfold.errors import TenfoldError


def device_of(name: str | None) -> torch.device:
    """The GPU where there is one and nothing else is asked for."""
    gpu = torch.cuda.is_available()
    if name not in (None, "cpu", "cuda") or (name == "cuda" and not gpu):
        raise TenfoldError(f'--device must be cpu, or cuda where there is a GPU, got "{name}": leave it out')
    return torch.device(name or ("cuda" if gpu else "cpu"))


def machine(device: torch.device) -> dict[str, Any]:
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "system": platform.platform(),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
