"""Which cut of a block to launch: one table, the best guess first, and what each takes of shared memory.

A class of ranks is the widest that a program meets: 64, 128 or 256. `shared` is the largest number of bytes that the compiler
asked for over the ranks of a class and the GPUs that we compile for (benchmarks/kernels.py); a GPU with less takes a later row.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tenfold.runtime.kernels.weights import AttentionConstants, FfnConstants

CLASSES = (64, 128, 256)
SPLIT_BELOW = 4
"""Blocks are split where there are fewer than one for this many processors."""


@dataclass(frozen=True)
class Config:
    """rows a block; step: keys, or hidden columns, at a time; columns of D at a time; stages of the loop, of the closing ones;
    registers: at most as many a thread, so that more blocks run at a time (None: as many as it likes)."""

    rows: int
    step: int
    columns: int
    warps: int
    stages: int
    closing: int
    shared: int
    registers: int | None = None


@dataclass(frozen=True)
class Cut:
    """A configuration, and into how many parts the hidden width or the heads are split."""

    config: Config
    parts: int = 1


@dataclass(frozen=True)
class Device:
    """processors of a GPU, and the bytes of shared memory that a block may take."""

    processors: int
    shared: int


Table = dict[int, tuple[Config, ...]]

FFN: Table = {
    64: (
        Config(128, 64, 32, 8, 3, 2, 0, 128),
        Config(64, 64, 64, 4, 3, 2, 0),
        Config(64, 64, 32, 4, 3, 2, 0, 128),
        Config(128, 64, 64, 8, 3, 2, 0),
    ),
    128: (
        Config(64, 64, 32, 8, 2, 2, 0, 128),
        Config(64, 64, 32, 4, 2, 2, 0),
        Config(128, 64, 32, 8, 2, 2, 0),
        Config(64, 64, 32, 8, 3, 2, 0),
        Config(64, 32, 32, 4, 2, 2, 0),
    ),
    256: (
        Config(64, 32, 32, 8, 3, 1, 0),
        Config(64, 64, 32, 8, 3, 2, 0),
        Config(64, 32, 32, 8, 2, 1, 0),
        Config(32, 32, 32, 4, 1, 1, 0),
    ),
}
FFN_SPLIT: Table = {
    64: (Config(32, 64, 64, 4, 3, 1, 0),),
    128: (Config(32, 64, 64, 4, 2, 1, 0),),
    256: (Config(32, 32, 64, 4, 2, 1, 0), Config(16, 32, 32, 4, 1, 1, 0)),
}
ATTENTION: Table = {
    64: (
        Config(64, 128, 32, 4, 2, 2, 0),
        Config(128, 128, 32, 8, 2, 2, 0, 128),
        Config(128, 128, 32, 8, 2, 2, 0),
        Config(64, 64, 64, 4, 2, 2, 0),
        Config(128, 64, 32, 8, 1, 2, 0),
    ),
    128: (
        Config(64, 128, 32, 8, 1, 2, 0),
        Config(128, 128, 32, 8, 2, 2, 0),
        Config(64, 64, 32, 8, 1, 2, 0),
        Config(64, 64, 32, 4, 1, 2, 0),
    ),
    256: (Config(64, 128, 32, 8, 1, 1, 0), Config(32, 128, 32, 4, 1, 1, 0), Config(32, 64, 32, 8, 1, 1, 0)),
}
ATTENTION_SPLIT: Table = {
    64: (Config(32, 128, 64, 4, 1, 1, 0), Config(32, 64, 64, 4, 1, 1, 0)),
    128: (Config(32, 128, 64, 4, 1, 1, 0), Config(32, 64, 64, 4, 1, 1, 0)),
    256: (Config(32, 128, 32, 8, 1, 1, 0), Config(32, 64, 32, 8, 1, 1, 0)),
}
FFN_SINGLE: Table = {
    64: (Config(32, 32, 32, 4, 2, 1, 0),),
    128: (Config(32, 32, 32, 8, 1, 1, 0),),
}
ATTENTION_SINGLE: Table = {
    64: (Config(32, 64, 32, 4, 1, 1, 0),),
    128: (Config(32, 32, 32, 8, 1, 1, 0),),
}

Ranks = tuple[int, ...]


def ranks_of(w: AttentionConstants | FfnConstants, next_u: Tensor | None) -> Ranks:
    """Every rank that a program meets, padded."""
    if isinstance(w, FfnConstants):
        read = [w.inner.width]
    else:
        read = [w.q.width, *(w.head if reader is None else reader.width for reader in (w.k, w.v))]
    return (*read, w.out.left.shape[1], 0 if next_u is None else next_u.shape[1])


def ffn_cuts(dtype: torch.dtype, ranks: Ranks, tokens: int, hidden: int, device: Device) -> list[Cut]:
    """The best guess first; never empty where `wanted` is no more than the device has."""
    whole = _fitting(FFN_SINGLE if dtype == torch.float32 else FFN, ranks, device)
    split = _fitting(FFN_SPLIT, ranks, device) if dtype != torch.float32 else whole
    parted = [Cut(c, _parts(math.ceil(tokens / c.rows), hidden // c.step, device)) for c in split]
    return _ordered(whole, parted, tokens, device)


def attention_cuts(dtype: torch.dtype, ranks: Ranks, tokens: int, longest: int, heads: int, device: Device) -> list[Cut]:
    """Keys in one go where that takes no more than 128 of them."""
    whole = _fitting(ATTENTION_SINGLE if dtype == torch.float32 else ATTENTION, ranks, device)
    split = _fitting(ATTENTION_SPLIT, ranks, device) if dtype != torch.float32 else whole
    keys = 128 if 64 < longest <= 128 else 64
    whole, split = (sorted(found, key=lambda c: abs(c.step - keys)) for found in (whole, split))
    whole, split = ([c for c in found if c.step == found[0].step] for found in (whole, split))
    parted = [Cut(c, _parts(math.ceil(tokens / c.rows), heads, device)) for c in split]
    return _ordered(whole, parted, tokens, device)


def wanted(dtype: torch.dtype, ranks: Ranks, attention: bool) -> int:
    """The least bytes of shared memory with which there is a cut."""
    single, half = (ATTENTION_SINGLE, ATTENTION) if attention else (FFN_SINGLE, FFN)
    return min(c.shared for c in (single if dtype == torch.float32 else half)[_class(ranks)])


def _ordered(whole: list[Config], parted: list[Cut], tokens: int, device: Device) -> list[Cut]:
    """Split ones first where whole blocks would leave most processors idle."""
    cuts, split = [Cut(c) for c in whole], [cut for cut in parted if cut.parts > 1]
    few = math.ceil(tokens / whole[0].rows) * SPLIT_BELOW <= device.processors
    return split + cuts if few else cuts


def _parts(blocks: int, units: int, device: Device) -> int:
    """Into how many equal parts `units` are cut so that there is about a program for each processor."""
    return max(
        parts for parts in range(1, units + 1) if units % parts == 0 and (parts == 1 or parts * blocks <= device.processors)
    )


def _fitting(table: Table, ranks: Ranks, device: Device) -> list[Config]:
    return [c for c in table.get(_class(ranks), ()) if c.shared <= device.shared]


def _class(ranks: Ranks) -> int:
    """0: wider than all."""
    return next((widest for widest in CLASSES if max(ranks) <= widest), 0)
