"""What the inputs of every site look like on real text: means and second moments, collected in one pass."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.algebra.moments import Moments
from tenfold.errors import TenfoldError
from tenfold.planning.plan import Group, Plan
from tenfold.planning.sites import EMBEDDING, Site
from tenfold.text import passages

Batch = Mapping[str, Tensor]


@dataclass
class Inputs:
    """Sums over tokens of one input: `total` (rows * i), `square` (rows, i, i), one block for each row of tiles."""

    total: Tensor
    square: Tensor
    tokens: int = 0

    def add(self, x: Tensor) -> None:
        blocks = x.unflatten(1, self.square.shape[:2]).transpose(0, 1)
        self.square += blocks.transpose(1, 2) @ blocks
        self.total += x.sum(0)
        self.tokens += len(x)

    @property
    def mean(self) -> Tensor:
        return self.total / self.tokens

    def moment(self, row: int, centred: bool) -> Tensor:
        """E x x' of one block row; centred where a bias can take up the mean of the error."""
        second = self.square[row] / self.tokens
        if not centred:
            return second
        mean = self.mean.unflatten(0, self.square.shape[:2])[row]
        return second - torch.outer(mean, mean)


@dataclass(frozen=True)
class Calibration:
    """Input statistics by the path of a site; sites that read the same tensor share them."""

    inputs: dict[str, Inputs]
    same: dict[str, str]

    def __getitem__(self, site: Site) -> Inputs:
        return self.inputs[self.same.get(site.path, site.path)]

    def moments(self, group: Group) -> Moments:
        """One moment a tile, each distinct one held once."""
        matrices: list[Tensor] = []
        index: dict[tuple[str, int, bool], int] = {}
        of = []
        for site, grid in group.grids():
            for row, tiles in enumerate(grid):
                key = (self.same.get(site.path, site.path), row, site.bias)
                if key not in index:
                    index[key] = len(matrices)
                    matrices.append(self[site].moment(row, centred=site.bias))
                of += [index[key]] * len(tiles)
        return Moments(matrices, tuple(of))


class _Stop(Exception):
    """The last wanted site was reached: the rest of the model need not run."""


@torch.no_grad()
def calibrate(model: Any, plan: Plan, batches: Iterable[Batch], layer: int | None = None) -> Calibration:
    """Run the batches through the model as it is now (dense, or compressed) and collect what the plan's sites read.

    Rows where attention_mask is 0 do not count. With `layer`, only that layer's sites, stopping after it.
    """
    base = model.base_model
    wanted = [(site, g.i) for g in plan.groups for site in g.sites if site.kind != EMBEDDING and layer in (None, site.layer)]
    collector = _Collector(stop_after=None if layer is None else len(wanted))
    handles = [base.get_submodule(site.path).register_forward_pre_hook(collector.hook(site.path, i)) for site, i in wanted]
    training = model.training
    model.eval()
    device = next(model.parameters()).device
    try:
        for batch in batches:
            collector.start(batch.get("attention_mask"))
            with suppress(_Stop):
                base(**{k: v.to(device) for k, v in batch.items()})
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    if not collector.inputs or any(x.tokens == 0 for x in collector.inputs.values()):
        raise TenfoldError("calibration needs at least one token through every matrix, got none: give more text")
    return Calibration(collector.inputs, collector.same)


class _Collector:
    def __init__(self, stop_after: int | None) -> None:
        self.inputs: dict[str, Inputs] = {}
        self.same: dict[str, str] = {}
        self.stop_after = stop_after

    def start(self, mask: Tensor | None) -> None:
        self.mask, self.seen = mask, set[str]()
        self.last: tuple[Tensor | None, str] = (None, "")

    def hook(self, path: str, i: int) -> Any:
        def collect(module: nn.Module, args: tuple[Tensor, ...]) -> None:  # noqa: ARG001 - the signature of a hook
            x = args[0]
            if x is self.last[0]:
                self.same[path] = self.last[1]
            else:
                self._add(path, i, x)
                self.last = (x, path)
            self.seen.add(path)
            if self.stop_after is not None and len(self.seen) == self.stop_after:
                raise _Stop

        return collect

    def _add(self, path: str, i: int, x: Tensor) -> None:
        rows = self._real(x)
        rows = rows if rows.dtype == torch.float64 else rows.float()
        if path not in self.inputs:
            count = rows.shape[1] // i
            self.inputs[path] = Inputs(rows.new_zeros(count * i), rows.new_zeros(count, i, i))
        self.inputs[path].add(rows)

    def _real(self, x: Tensor) -> Tensor:
        """The rows of real tokens; OPT flattens batch and length. Others (DeBERTa's positions) count whole."""
        rows = x.flatten(0, -2)
        if self.mask is not None and len(rows) == self.mask.numel():
            return rows[self.mask.to(x.device).bool().flatten()]
        return rows


def text_batches(tokenizer: Any, path: Path, tokens: int, length: int, rows: int = 16) -> list[Batch]:
    """About `tokens` tokens of a text file, packed into full rows with the special tokens that the model expects."""
    return batches_of(tokenizer, passages(path), tokens, length, rows)


def batches_of(tokenizer: Any, texts: Iterable[str], tokens: int, length: int, rows: int = 16) -> list[Batch]:
    """Packed rows need no padding. Fewer tokens than one row is an error: its statistics would say nothing."""
    before, after = _special_tokens(tokenizer)
    packed = list(_pack(tokenizer, texts, max(tokens // length, 1), length - len(before) - len(after)))
    if not packed:
        raise TenfoldError(
            f"calibration text must fill at least one row of {length} tokens, got less: give more text, or a smaller length"
        )
    ids = torch.tensor([[*before, *row, *after] for row in packed])
    return [{"input_ids": part, "attention_mask": torch.ones_like(part)} for part in ids.split(rows)]


def _special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a text, seen on a probe: [CLS] and [SEP] for BERT."""
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    start = next(k for k in range(len(whole)) if whole[k : k + len(plain)] == plain)
    return whole[:start], whole[start + len(plain) :]


def _pack(tokenizer: Any, texts: Iterable[str], rows: int, width: int) -> Iterator[Sequence[int]]:
    buffer: list[int] = []
    for text in texts:
        buffer += tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        while len(buffer) >= width:
            yield buffer[:width]
            buffer = buffer[width:]
            rows -= 1
            if rows == 0:
                return
