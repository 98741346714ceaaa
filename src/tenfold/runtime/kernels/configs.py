"""Which cut of a block to launch: one table, the best guess first, and what each takes of shared memory.

A class of ranks is the widest that a program meets: 64, 128 or 256. `shared` is the largest number of bytes that the compiler
asked for over the ranks of a class and the GPUs that we compile for (benchmarks/kernel_resources.py); a GPU with less takes a
later row. Where keys and values read columns of their own it may be more; a launch that fails for it gives way to a later row.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from tenfold.runtime.kernels.weights import AttentionConstants, FfnConstants

CLASSES = (64, 128, 256)
SPLIT_BELOW = 4
"""Blocks are split where there are no more than one for this many processors."""


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
        Config(128, 64, 32, 8, 3, 2, 66_048, 128),
        Config(64, 64, 64, 4, 3, 2, 57_856),
        Config(64, 64, 32, 4, 3, 2, 57_856, 128),
        Config(128, 64, 64, 8, 3, 2, 66_304),
    ),
    128: (
        Config(64, 64, 32, 8, 2, 2, 82_176, 128),
        Config(64, 64, 32, 4, 2, 2, 82_176),
        Config(128, 64, 32, 8, 2, 2, 98_560),
        Config(64, 64, 32, 8, 3, 2, 115_200),
        Config(64, 32, 32, 4, 2, 2, 49_280),
    ),
    256: (
        Config(64, 32, 32, 8, 3, 1, 131_328),
        Config(64, 64, 32, 8, 3, 2, 229_888),
        Config(64, 32, 32, 8, 2, 1, 98_432),
        Config(32, 32, 32, 4, 1, 1, 34_816),
    ),
}
FFN_SPLIT: Table = {
    64: (Config(32, 64, 64, 4, 3, 1, 41_472),),
    128: (Config(32, 64, 64, 4, 2, 1, 45_312),),
    256: (Config(32, 32, 64, 4, 2, 1, 51_328), Config(16, 32, 32, 4, 1, 1, 25_600)),
}
ATTENTION: Table = {
    64: (
        Config(64, 128, 32, 4, 2, 2, 57_600),
        Config(128, 128, 32, 8, 2, 2, 65_792, 128),
        Config(128, 128, 32, 8, 2, 2, 65_792),
        Config(64, 64, 64, 4, 2, 2, 49_920),
        Config(128, 64, 32, 8, 1, 2, 33_152),
    ),
    128: (
        Config(64, 128, 32, 8, 1, 2, 90_112),
        Config(128, 128, 32, 8, 2, 2, 229_632),
        Config(64, 64, 32, 8, 1, 2, 73_728),
        Config(64, 64, 32, 4, 1, 2, 73_728),
    ),
    256: (Config(64, 128, 32, 8, 1, 1, 155_648), Config(32, 128, 32, 4, 1, 1, 135_168), Config(32, 64, 32, 8, 1, 1, 126_976)),
}
ATTENTION_SPLIT: Table = {
    64: (Config(32, 128, 64, 4, 1, 1, 28_672), Config(32, 64, 64, 4, 1, 1, 16_384)),
    128: (Config(32, 128, 64, 4, 1, 1, 69_632), Config(32, 64, 64, 4, 1, 1, 61_440)),
    256: (Config(32, 128, 32, 8, 1, 1, 118_784), Config(32, 64, 32, 8, 1, 1, 110_592)),
}
FFN_SINGLE: Table = {
    64: (Config(32, 32, 32, 4, 2, 1, 41_088),),
    128: (Config(32, 32, 32, 8, 1, 1, 49_152),),
}
ATTENTION_SINGLE: Table = {
    64: (Config(32, 64, 32, 4, 1, 1, 40_960),),
    128: (Config(32, 32, 32, 8, 1, 1, 65_536),),
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
    if dtype == torch.float32:
        return min(c.shared for c in (ATTENTION_SINGLE if attention else FFN_SINGLE)[_class(ranks)])
    whole, split = (ATTENTION, ATTENTION_SPLIT) if attention else (FFN, FFN_SPLIT)
    return min(c.shared for c in (*whole[_class(ranks)], *split[_class(ranks)]))


def _ordered(whole: list[Config], parted: list[Cut], tokens: int, device: Device) -> list[Cut]:
    """Those that keep more processors busy first; split ones before all others where those would leave most processors idle."""
    one, split = [cut for cut in parted if cut.parts == 1], [cut for cut in parted if cut.parts > 1]

    def busy(cut: Cut) -> int:
        return min(math.ceil(tokens / cut.config.rows), device.processors)

    cuts = sorted([*map(Cut, whole), *(cut for cut in one if cut.config not in whole)], key=busy, reverse=True)
    few = not cuts or busy(cuts[0]) * SPLIT_BELOW <= device.processors
    return split + cuts if few else cuts + split


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
