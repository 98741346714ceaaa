"""What the inputs of every site look like on real text: means and second moments, collected in one pass."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.algebra.moments import Moments
from tenfold.errors import TenfoldError
from tenfold.planning.plan import Group, Plan
from tenfold.planning.sites import EMBEDDING, Site
from tenfold.text.sources import Spec, sources

Batch = Mapping[str, Tensor]


@dataclass
class Inputs:
    """Sums over tokens of one input: `total` (rows * i), `square` (rows, i, i), one block for each row of tiles."""

    total: Tensor
    square: Tensor
    tokens: int = 0

    def add(self, x: Tensor, tokens: int) -> None:
        """Rows x (rows, rows * i) that stand for so many tokens."""
        share = tokens / max(len(x), 1)
        blocks = x.unflatten(1, self.square.shape[:2]).transpose(0, 1)
        self.square += share * (blocks.transpose(1, 2) @ blocks)
        self.total += share * x.sum(0)
        self.tokens += tokens

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


def sum_of(parts: Sequence[Inputs]) -> Inputs:
    if len(parts) == 1:
        return parts[0]
    total, square = (torch.stack(sums).sum(0) for sums in zip(*((p.total, p.square) for p in parts), strict=True))
    return Inputs(total, square, sum(p.tokens for p in parts))


@dataclass(frozen=True)
class Calibration:
    """Input statistics by the path of a site; `same` leads from every site to the first that reads the same tensors."""

    inputs: dict[str, Inputs]
    same: dict[str, str]

    def __getitem__(self, site: Site) -> Inputs:
        return self.inputs[self.same[site.path]]

    def moments(self, group: Group) -> Moments:
        """One moment a tile, each distinct one held once."""
        matrices: list[Tensor] = []
        index: dict[tuple[str, int, bool], int] = {}
        of = []
        for site, grid in group.grids():
            for row, tiles in enumerate(grid):
                key = (self.same[site.path], row, site.bias)
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
    positions = getattr(model.config, "max_position_embeddings", None) or math.inf
    try:
        for batch in batches:
            if "input_ids" in batch and batch["input_ids"].shape[1] > positions:
                raise _misfit(batch)
            collector.start(batch)
            with suppress(_Stop):
                base(**{k: v.to(device) for k, v in {**_decoded(model, batch), **batch}.items()})
    except IndexError as error:
        raise _misfit(batch) from error
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    calibration = collector.result()
    unseen = [site.path for site, _ in wanted if site.path not in calibration.same]
    if unseen or any(x.tokens == 0 for x in calibration.inputs.values()):
        raise TenfoldError(
            f"calibration needs at least one token through every matrix, got none{f' for {unseen[0]}' if unseen else ''}: "
            "give more text"
        )
    return calibration


def _decoded(model: Any, batch: Batch) -> Batch:
    """A decoder behind an encoder reads the same text."""
    return {"decoder_input_ids": batch["input_ids"]} if getattr(model.config, "is_encoder_decoder", False) else {}


def _misfit(batch: Batch) -> TenfoldError:
    ids = batch["input_ids"]
    return TenfoldError(
        "calibration text must fit the model's tables of words and positions, got token numbers up to "
        f"{int(ids.max())} in rows of {ids.shape[1]}: take the model's own tokenizer, or shorter rows (compress.length)"
    )


class _Collector:
    """Sums by (path of the first site that read a tensor, how often it had been called before in this batch).

    Most sites read one tensor a batch. DeBERTa's Q and K read the tokens and then the relative positions, V the tokens only.
    """

    def __init__(self, stop_after: int | None) -> None:
        self.sums: dict[tuple[str, int], Inputs] = {}
        self.reads: dict[str, list[tuple[str, int]]] = {}
        self.stop_after = stop_after

    def start(self, batch: Batch) -> None:
        ids = batch.get("input_ids")
        self.mask = batch.get("attention_mask", None if ids is None else torch.ones_like(ids))
        self.calls: dict[str, int] = {}
        self.last: tuple[Tensor | None, int, tuple[str, int]] = (None, 0, ("", 0))

    def hook(self, path: str, i: int) -> Any:
        def collect(module: nn.Module, args: tuple[Tensor, ...]) -> None:  # noqa: ARG001 - the signature of a hook
            x, call = args[0], self.calls.get(path, 0)
            if x is not self.last[0] or i != self.last[1]:
                self._add((path, call), i, x)
                self.last = (x, i, (path, call))
            if call == len(self.reads.setdefault(path, [])):
                self.reads[path].append(self.last[2])
            self.calls[path] = call + 1
            if self.stop_after is not None and len(self.calls) == self.stop_after:
                raise _Stop

        return collect

    def result(self) -> Calibration:
        owners: dict[tuple[tuple[str, int], ...], str] = {}
        same = {path: owners.setdefault(tuple(keys), path) for path, keys in self.reads.items()}
        return Calibration({path: sum_of([self.sums[key] for key in keys]) for keys, path in owners.items()}, same)

    def _add(self, key: tuple[str, int], i: int, x: Tensor) -> None:
        rows, tokens = self._rows(x)
        rows = rows if rows.dtype == torch.float64 else rows.float()
        if key not in self.sums:
            count = rows.shape[1] // i
            self.sums[key] = Inputs(rows.new_zeros(count * i), rows.new_zeros(count, i, i))
        self.sums[key].add(rows, tokens)

    def _rows(self, x: Tensor) -> tuple[Tensor, int]:
        """The rows of real tokens (OPT flattens batch and length), and how many tokens they stand for.

        What all sequences share (DeBERTa's positions) counts as much as the tokens: each score reads one of either.
        """
        rows = x.flatten(0, -2)
        if self.mask is None:
            return rows, len(rows)
        shared = x.ndim == 3 and len(x) == 1 < len(self.mask)
        if shared or len(rows) != self.mask.numel():
            return rows, int(self.mask.sum())
        rows = rows[self.mask.to(x.device).bool().flatten()]
        return rows, len(rows)


def text_batches(tokenizer: Any, text: Spec, tokens: int, length: int, rows: int = 16, key: str = "text") -> list[Batch]:
    """About `tokens` tokens of text, packed into full rows with the special tokens that the model expects."""
    found = (passage for source in sources(text, key) for passage in source if passage)
    return batches_of(tokenizer, found, tokens, length, rows)


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
