"""The two blocks: by kernels on a CUDA device, in plain torch elsewhere."""

import importlib
import importlib.util
from typing import Any

import torch
from torch import Tensor

from tenfold.runtime.kernels import reference
from tenfold.runtime.kernels.configs import wanted
from tenfold.runtime.kernels.packing import Packing
from tenfold.runtime.kernels.weights import ACTIVATIONS, AttentionConstants, AttentionWeights, FfnConstants, FfnWeights, padded

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
WIDEST_RANK, WIDEST_SINGLE_RANK, WIDEST_HEAD = 256, 128, 128

Weights = AttentionWeights | FfnWeights


def attention_block(
    x: Tensor,
    z: Tensor | None,
    w: AttentionConstants,
    packing: Packing,
    next_u: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """x' and z' after attention, its residual and LayerNorm. bias (H, n, n) is added to the scores."""
    z = x @ w.u if z is None else z
    return _programs(x).attention_block(x, z, w, packing, next_u, bias)


def ffn_block(x: Tensor, z: Tensor | None, w: FfnConstants, next_u: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """x' and z' after the feed-forward part, its residual and LayerNorm."""
    z = x @ w.u if z is None else z
    return _programs(x).ffn_block(x, z, w, next_u)


def applies(weights: Weights, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why no kernel computes a block with these weights, in this precision and there; None: one does."""
    if device.type != "cuda":
        return f"kernels want a CUDA device, got {device.type}"
    if torch.version.hip is not None or torch.cuda.get_device_capability(device) < (8, 0):
        return f"kernels want an NVIDIA GPU of compute capability 8.0 or later, got {torch.cuda.get_device_name(device)}"
    if importlib.util.find_spec("triton") is None:
        return "kernels want triton: pip install 'tenfold[gpu]'"
    return refused(weights, dtype) or _too_large(weights, dtype, device)


def refused(weights: Weights, dtype: torch.dtype) -> str | None:
    """The same, of what does not depend on the machine."""
    if dtype not in DTYPES:
        return f"kernels want float16, bfloat16 or float32, got {str(dtype).removeprefix('torch.')}"
    if isinstance(weights, FfnWeights) and weights.activation not in ACTIVATIONS:
        return f"kernels know the activations {', '.join(ACTIVATIONS)}, got {weights.activation}"
    widest, single = max(_ranks(weights)), dtype == torch.float32
    if padded(widest) > (most := WIDEST_SINGLE_RANK if single else WIDEST_RANK):
        return f"kernels go up to rank {most}{' in float32' if single else ''}, got {widest}"
    if isinstance(weights, AttentionWeights) and weights.head > WIDEST_HEAD:
        return f"kernels go up to heads of {WIDEST_HEAD}, got {weights.head}"
    return None


def _too_large(weights: Weights, dtype: torch.dtype, device: torch.device) -> str | None:
    ranks, attention = tuple(padded(rank) for rank in _ranks(weights)), isinstance(weights, AttentionWeights)
    least, there = wanted(dtype, ranks, attention), _gpu().device(device).shared
    if least <= there:
        return None
    return f"kernels of rank {max(_ranks(weights))} want {least} bytes of shared memory, got {there}"


def _programs(x: Tensor) -> Any:
    return _gpu() if x.is_cuda and x.dtype in DTYPES else reference


def _gpu() -> Any:
    """Triton, and what it compiles, only where there is a GPU."""
    return importlib.import_module("tenfold.runtime.kernels.gpu")


def _ranks(weights: Weights) -> list[int]:
    read = [weights.q, weights.k, weights.v] if isinstance(weights, AttentionWeights) else [weights.inner]
    return [weights.out.left.shape[1], *(reader.width for reader in read)]
