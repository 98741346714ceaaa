"""CUDA graphs: what a GPU is told once and repeats, so that a short sequence does not wait for Python.

A graph has fixed shapes. Kernels take packed sequences up to a length from `BUCKETS` and read on the device where these end;
other blocks take full sequences of one length. A graph is recorded when its key comes for the second time, and the one that was
not used for longest makes room.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Protocol

import torch
from torch import Tensor

BUCKETS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
STEP = 256
"""Beyond the last bucket, lengths go up to multiples of this."""
TOKENS = 16_384
"""Batches with more keep a GPU busy for longer than Python takes."""
KEPT = 16

Compute = Callable[..., Tensor]


class Record(Protocol):
    """compute(*arguments), done once and then again at every call, with what the arguments hold by then."""

    def __call__(self, compute: Compute, arguments: Sequence[Tensor]) -> Callable[[], Tensor]: ...


def bucket(length: int) -> int:
    """The length that a graph is recorded for."""
    return next((size for size in BUCKETS if length <= size), -(-length // STEP) * STEP)


def record_cuda(compute: Compute, arguments: Sequence[Tensor]) -> Callable[[], Tensor]:
    with torch.cuda.device(arguments[0].device):
        aside, here = torch.cuda.Stream(), torch.cuda.current_stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(2):  # compiles kernels, makes workspaces: nothing that may happen while recording
                compute(*arguments)
        here.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = compute(*arguments)

    def replay() -> Tensor:
        graph.replay()
        return out

    return replay


class Graphs:
    """`rows`: of the recorded first argument; calls may come with fewer, and get as many back."""

    def __init__(self, record: Record = record_cuda, kept: int = KEPT) -> None:
        self._record, self._kept = record, kept
        self._seen: set[Hashable] = set()
        self._graphs: OrderedDict[Hashable, tuple[tuple[Tensor, ...], Callable[[], Tensor]]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, key: Hashable, rows: int, compute: Compute, x: Tensor, *others: Tensor) -> Tensor:
        """compute(x, *others), where compute makes of `rows` rows as many."""
        with self._lock, torch.inference_mode(False), torch.no_grad():  # what is kept may be written to in either mode
            if key not in self._seen:
                self._seen.add(key)
                return compute(_grown(x, rows), *others)[: len(x)]
            if key not in self._graphs:
                arguments = (_grown(x, rows), *(other.clone() for other in others))
                self._graphs[key] = arguments, self._record(compute, arguments)
                if len(self._graphs) > self._kept:
                    self._seen.discard(self._graphs.popitem(last=False)[0])
            self._graphs.move_to_end(key)
            held, replay = self._graphs[key]
            held[0][: len(x)].copy_(x)
            for mine, other in zip(held[1:], others, strict=True):
                mine.copy_(other)
            return replay()[: len(x)].clone()


def _grown(x: Tensor, rows: int) -> Tensor:
    """A copy with zeros below."""
    grown = x.new_zeros(rows, *x.shape[1:])
    grown[: len(x)] = x
    return grown
