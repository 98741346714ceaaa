"""The two blocks on a GPU: which cut, launched. Importing this imports triton."""

from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial

import torch
from torch import Tensor
from triton.runtime import driver
from triton.runtime.errors import OutOfResources

from tenfold.runtime.kernels import launch
from tenfold.runtime.kernels.configs import Cut, Device, attention_cuts, ffn_cuts, ranks_of
from tenfold.runtime.kernels.packing import Packing
from tenfold.runtime.kernels.tuning import tunes
from tenfold.runtime.kernels.weights import AttentionConstants, FfnConstants, pieces
from tenfold.runtime.timing import interleaved

RUNS = 10
"""Blocks in a graph that is timed."""

_found: dict[Hashable, Cut] = {}
_timed: set[Hashable] = set()


def attention_block(
    x: Tensor, z: Tensor, w: AttentionConstants, packing: Packing, next_u: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    where, kind = device(x.device), (w.heads, w.head, w.absorbed, bias is None, packing.lengths is None)

    def cuts(u: Tensor | None) -> list[Cut]:
        return attention_cuts(x.dtype, ranks_of(w, u), len(x), packing.longest, w.heads, where)

    def block(u: Tensor | None, cut: Cut) -> launch.Block:
        return launch.attention_block(x, z.contiguous(), w, packing, u, bias, cut.config, cut.parts)

    return _run(x, next_u, (kind, z.shape[1], ranks_of(w, next_u)), cuts, block)


def ffn_block(x: Tensor, z: Tensor, w: FfnConstants, next_u: Tensor | None) -> tuple[Tensor, Tensor | None]:
    where, hidden = device(x.device), w.out.left.shape[0]

    def cuts(u: Tensor | None) -> list[Cut]:
        return ffn_cuts(x.dtype, ranks_of(w, u), len(x), hidden, where)

    def block(u: Tensor | None, cut: Cut) -> launch.Block:
        return launch.ffn_block(x, z.contiguous(), w, u, cut.config, cut.parts)

    return _run(x, next_u, (hidden, w.activation, ranks_of(w, next_u)), cuts, block)


@cache
def device(where: torch.device) -> Device:
    found = driver.active.utils.get_device_properties(torch.cuda.current_device() if where.index is None else where.index)
    return Device(found["multiprocessor_count"], found["max_shared_mem"])


def _run(
    x: Tensor,
    next_u: Tensor | None,
    kind: Hashable,
    cuts_of: Callable[[Tensor | None], list[Cut]],
    block_of: Callable[[Tensor | None, Cut], launch.Block],
) -> tuple[Tensor, Tensor | None]:
    """Where no program writes this z' on its way out (too wide, or too much to hold), z' is one product more."""
    u = None if next_u is None or pieces(next_u.shape[1]) is None else next_u
    cuts = [] if u is None else cuts_of(u)
    if not cuts:
        u, cuts = None, cuts_of(None)
    assert cuts, "weights that `applies` refused"
    with torch.cuda.device(x.device):
        y, made = _by_cut((kind, x.shape[1], x.dtype, x.device, *cuts), cuts, partial(block_of, u))
        return y, y @ next_u if next_u is not None and u is None else made


def _by_cut(key: Hashable, cuts: Sequence[Cut], make: Callable[[Cut], launch.Block]) -> tuple[Tensor, Tensor | None]:
    """By the cut that was found for such a block, else by the fastest (while tuning) or the first that runs."""
    if key not in _timed and tunes() and not torch.cuda.is_current_stream_capturing():
        _found[key] = _fastest(cuts, make)
        _timed.add(key)
    _found[key], made = _first([_found[key], *cuts] if key in _found else cuts, make)
    return made


def _first(cuts: Sequence[Cut], make: Callable[[Cut], launch.Block]) -> tuple[Cut, tuple[Tensor, Tensor | None]]:
    for cut in cuts[:-1]:
        try:
            return cut, make(cut)()
        except OutOfResources:  # another version of the compiler, or sequences that share blocks, may take more than expected
            continue
    return cuts[-1], make(cuts[-1])()


def _fastest(cuts: Sequence[Cut], make: Callable[[Cut], launch.Block]) -> Cut:
    graphs = {}
    for number, cut in enumerate(cuts):
        try:
            graphs[str(number)] = _graph(make(cut))
        except OutOfResources:
            continue
    seconds = interleaved({name: graph.replay for name, graph in graphs.items()}, torch.device("cuda"))
    return cuts[int(min(seconds, key=lambda name: seconds[name]))]


def _graph(block: launch.Block) -> torch.cuda.CUDAGraph:
    """RUNS blocks one after another: short ones would wait for Python."""
    block()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            block()
    return graph
