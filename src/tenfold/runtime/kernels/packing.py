"""Where sequences lie in a tensor of all their tokens, and how kernels cut it into blocks of rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True)
class Blocks:
    """One row of `table` a block: its queries are tokens 0 : 1 of it, its keys tokens 2 : 3.

    single      no block has more keys than `keys`
    mixed       some block has queries of several sequences
    even        blocks have whole multiples of `keys` as keys, and are full
    """

    table: Tensor
    single: bool
    mixed: bool
    even: bool


@dataclass(frozen=True, eq=False)
class Packing:
    """Sequences one after another. starts and ends (T,): of the sequence that a token belongs to."""

    total: int
    longest: int
    starts: Tensor
    ends: Tensor
    lengths: tuple[int, ...] | None
    bounds: Tensor
    _blocks: dict[tuple[int, int], Blocks] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device | str = "cpu") -> "Packing":
        """Of lengths that the host knows."""
        own = tuple(int(length) for length in lengths)
        assert own and min(own) > 0, "a sequence has a token"
        bounds = torch.tensor([0, *accumulate(own)], dtype=torch.int32)
        counts = torch.tensor(own)
        starts, ends = (bounds[at].repeat_interleave(counts).to(device) for at in (slice(0, -1), slice(1, None)))
        return cls(sum(own), max(own), starts, ends, own, bounds.to(device))

    @classmethod
    def fixed(cls, bounds: Tensor, longest: int) -> "Packing":
        """Of cumulative lengths (B + 1) on the device, none above `longest`. What it makes has shapes that do not depend on
        them, so a CUDA graph can hold it: room for B longest tokens, those after the last sequence of no use."""
        bounds = bounds.to(torch.int32)
        total = (len(bounds) - 1) * longest
        token = torch.arange(total, dtype=torch.int32, device=bounds.device)
        place = torch.searchsorted(bounds[1:], token, right=True)
        starts = bounds[place.clamp(max=len(bounds) - 1)]
        ends = bounds[(place + 1).clamp(max=len(bounds) - 1)]
        return cls(total, longest, starts, ends, None, bounds)

    def blocks(self, rows: int, keys: int) -> Blocks:
        """Cut so that a block has at most `rows` queries. Short sequences share blocks, whole; long ones have several."""
        found = self._blocks.get((rows, keys))
        if found is None:
            found = self._blocks[rows, keys] = self._fixed(rows, keys) if self.lengths is None else self._known(rows, keys)
        return found

    def _known(self, rows: int, keys: int) -> Blocks:
        assert self.lengths is not None
        table: list[list[int]] = []
        start, mixed = 0, False
        for length in self.lengths:
            stop = start + length
            room = table and table[-1][1] - table[-1][0] + length <= rows and table[-1][0] == table[-1][2]
            if room and table[-1][1] == table[-1][3]:
                table[-1][1] = table[-1][3] = stop
                mixed = True
            else:
                table += [[low, min(low + rows, stop), start, stop] for low in range(start, stop, rows)]
            start = stop
        single = all(high - low <= keys for *_, low, high in table)
        even = all((high - low) % keys == 0 and last - first == rows for first, last, low, high in table)
        return Blocks(torch.tensor(table, dtype=torch.int32, device=self.bounds.device), single, mixed, even and not mixed)

    def _fixed(self, rows: int, keys: int) -> Blocks:
        low, high = self.bounds[:-1, None], self.bounds[1:, None]
        step = rows * torch.arange(math.ceil(self.longest / rows), dtype=torch.int32, device=low.device)
        first = torch.minimum(low + step, high)
        last = torch.minimum(first + rows, high)
        table = torch.stack(torch.broadcast_tensors(first, last, low, high), dim=-1).flatten(0, 1).contiguous()
        return Blocks(table, self.longest <= keys, False, False)
