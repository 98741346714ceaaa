"""What the blocks compute, in plain torch: for machines without a GPU, and what the kernels are tested against."""

import math
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from tenfold.runtime.kernels.packing import Packing
from tenfold.runtime.kernels.weights import AttentionConstants, FfnConstants, Reader, Writer


def attention_block(
    x: Tensor, z: Tensor, w: AttentionConstants, packing: Packing, next_u: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    q = _read(w.q, z).unflatten(1, (w.heads, -1))
    k, v = (_keys(reader, z, w, start) for reader, start in ((w.k, w.k_start), (w.v, w.v_start)))
    context = torch.zeros_like(q)
    bounds = packing.bounds.tolist()
    for low, high in pairwise(bounds):
        scores = torch.einsum("ihe,jhe->hij", q[low:high], k[low:high]) * math.log(2)
        if bias is not None:
            scores = scores + bias[:, : high - low, : high - low]
        context[low:high] = torch.einsum("hij,jhe->ihe", scores.softmax(dim=-1), v[low:high])
    return _write(w.out, x, context.flatten(1), next_u)


def ffn_block(x: Tensor, z: Tensor, w: FfnConstants, next_u: Tensor | None) -> tuple[Tensor, Tensor | None]:
    return _write(w.out, x, activation(w.activation, _read(w.inner, z)), next_u)


def activation(name: str, x: Tensor) -> Tensor:
    match name:
        case "gelu":
            return F.gelu(x)
        case "gelu_tanh":
            return F.gelu(x, approximate="tanh")
        case "relu":
            return F.relu(x)
    return F.silu(x)


def _read(reader: Reader, z: Tensor) -> Tensor:
    y = z[:, reader.start : reader.stop] @ reader.weight
    return y if reader.bias is None else y + reader.bias.to(y.dtype)


def _keys(reader: Reader | None, z: Tensor, w: AttentionConstants, start: int) -> Tensor:
    """(T, H, e), or the same columns of z for every head."""
    if reader is None:
        return z[:, None, start : start + w.head].expand(-1, w.heads, -1)
    return _read(reader, z).unflatten(1, (w.heads, -1))


def _write(out: Writer, x: Tensor, c: Tensor, next_u: Tensor | None) -> tuple[Tensor, Tensor | None]:
    y = c @ out.left @ out.right + x
    y = y if out.bias is None else y + out.bias.to(y.dtype)
    y = F.layer_norm(y, y.shape[1:], out.gamma.to(y.dtype), out.beta.to(y.dtype), out.eps)
    return y, None if next_u is None else y @ next_u
