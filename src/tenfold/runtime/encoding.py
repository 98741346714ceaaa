"""The planner's second question, of encoders that have blocks: layer by layer, or whole? A timing answers.

The rule is that of the layers: the fastest, and of equals the one that adds nothing. The dense chain, which is the strongest
way that the original itself could be computed, is always among the timed.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from tenfold.checkpoints import first_line
from tenfold.errors import PlanError
from tenfold.nn import FactoredLinear
from tenfold.runtime.blocks import KernelChain, TorchChain, kernel_weights, refused
from tenfold.runtime.choosing import NOISE, Situation, remembered
from tenfold.runtime.encoders import Encoder, NoBlocks, find_encoder
from tenfold.runtime.fusing import Chain, Whole, install_, reads_token_0
from tenfold.runtime.kernels import tuning
from tenfold.runtime.timing import interleaved
from tenfold.runtime.ways import AUTO, BLOCKS, CHAIN, DENSE, DENSE_BLOCKS, FUSED, KERNELS, LAYERS, PLAIN

ROUNDS, SECONDS = 21, 3.0
"""A whole encoder is timed for longer than a kind of layers: there is one, and it stays."""

Makers = dict[str, Callable[[], Chain]]


@dataclass(frozen=True)
class WholeChoice:
    """How the encoder is computed and why; seconds a pass of each way that was timed; why there are no kernels or blocks."""

    path: str
    why: str
    measured: dict[str, float]
    without: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def choose_whole_(
    model: Any, ways: Mapping[FactoredLinear, str], where: Situation, path: str, measure: bool, kinds: str
) -> WholeChoice:
    """Choose, and install what was chosen. `ways`: of the layers. path: auto, fused, or one of ENCODERS; others: layers."""
    if path in (DENSE, CHAIN, PLAIN):
        return WholeChoice(LAYERS, "asked for", {})
    try:
        encoder = find_encoder(model)
    except NoBlocks as why:
        if path not in (AUTO, LAYERS):
            raise PlanError(f'the path "{FUSED}" needs an encoder of blocks, got none: {why}; use auto') from why
        return WholeChoice(LAYERS, "there is no other way", {}, str(why))
    makers, without = _makers(encoder, ways, where)
    measured: dict[str, float] = {}
    if path == AUTO and measure:
        known = [kinds, len(encoder.layers), encoder.heads, encoder.activation, encoder.bias]
        measured = remembered(known, where, [LAYERS, *makers], lambda: _time(model, encoder, makers, where))
    chosen = pick_whole(measured) if path == AUTO else next(iter(makers)) if path == FUSED else path
    if chosen != LAYERS:
        if chosen not in makers:
            raise PlanError(f"{chosen} were asked for, and {without}: use auto")
        install_(encoder, makers[chosen](), reads_token_0(model))
    return WholeChoice(chosen, _why(chosen, measured) if path == AUTO else "asked for", measured, without)


def pick_whole(times: Mapping[str, float]) -> str:
    """The fastest, or the layers where they are as fast within the noise, or where nothing was timed."""
    if not times:
        return LAYERS
    best = min(times, key=lambda way: times[way])
    return LAYERS if times[LAYERS] <= times[best] * (1 + NOISE) else best


@torch.no_grad()
def dense_blocks_(model: Any) -> str:
    """Let an ordinary dense model compute its encoder as one chain, the strongest exact way for it. Raises NoBlocks."""
    encoder = find_encoder(model)
    install_(encoder, TorchChain(encoder, {}, model.dtype), reads_token_0(model))
    return DENSE_BLOCKS


def _makers(encoder: Encoder, ways: Mapping[FactoredLinear, str], where: Situation) -> tuple[Makers, str | None]:
    """What each way that there is here is made with, kernels first; why there are no kernels."""
    dtype, device = getattr(torch, where.dtype), encoder.base.device
    makers: Makers = {}
    without: str | None
    if device.type == "cuda":
        try:
            weights = kernel_weights(encoder)
            without = refused(weights, dtype, device)
            if without is None:
                makers[KERNELS] = lambda: KernelChain(weights, dtype)
        except NoBlocks as why:
            without = str(why)
    else:
        without = f"kernels want a CUDA device, got {device.type}"
    usable = {layer: CHAIN if way == PLAIN else way for layer, way in ways.items()}
    makers[BLOCKS] = lambda: TorchChain(encoder, usable, dtype)
    if any(way != DENSE for way in usable.values()):
        makers[DENSE_BLOCKS] = lambda: TorchChain(encoder, dict.fromkeys(usable, DENSE), dtype)
    return makers, without


@torch.no_grad()
def _time(model: Any, encoder: Encoder, makers: Makers, where: Situation) -> dict[str, float]:
    """Seconds of the encoder alone, on full sequences: what is around it costs the same."""
    base = encoder.base
    x = torch.randn(where.batch, where.length, encoder.width, device=base.device, dtype=getattr(torch, where.dtype))
    wholes = {way: Whole(encoder, make(), reads_token_0(model)).eval() for way, make in makers.items()}
    calls: dict[str, Callable[[], Any]] = {way: partial(whole.full, x) for way, whole in wholes.items()}
    calls[LAYERS] = lambda: encoder.module(x)
    for way, call in list(calls.items()):
        try:
            with tuning():
                call()
        except Exception as error:  # whatever a compiler makes of a GPU that nobody has tried; the others remain
            if way == LAYERS:
                raise
            warnings.warn(f"{way} do not run here ({first_line(error)}): they are left out", stacklevel=2)
            del calls[way]
    return interleaved(calls, base.device, ROUNDS, SECONDS)


def _why(chosen: str, measured: Mapping[str, float]) -> str:
    if not measured:
        return "not measured"
    if chosen == LAYERS:
        others = {way: seconds for way, seconds in measured.items() if way != LAYERS}
        if not others:
            return "nothing else runs here"
        best = min(others, key=lambda way: others[way])
        return f"measured: {best} take {others[best] / measured[LAYERS]:.2f}x the layers' time"
    return f"measured: {measured[LAYERS] / measured[chosen]:.2f}x as fast as the layers"
