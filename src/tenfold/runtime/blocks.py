"""A whole encoder as a chain of blocks on packed tokens, without a module, mask or hidden state in between.

    y = chain(x, lengths, bias)     x (T, D): the tokens of all sequences one after another; bias (heads, n, n), n the longest

KernelChain     tenfold.runtime.kernels: two kernels a layer, x u handed from each to the next
TorchChain      torch's products in the ways that were chosen (multiplied out or folded), queries, keys and values in one,
                sums, activation and norm in place
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tenfold.nn import FactorBank, FactoredLinear
from tenfold.runtime.bundle import Joined
from tenfold.runtime.encoders import Encoder, Layer, NoBlocks
from tenfold.runtime.fold import Folded, beside, dense, fold, whole
from tenfold.runtime.kernels import (
    AttentionConstants,
    AttentionWeights,
    FfnConstants,
    FfnWeights,
    Packing,
    Writer,
    applies,
    attention_block,
    ffn_block,
)
from tenfold.runtime.sides import Source, read_side, write_side
from tenfold.runtime.ways import DENSE, exact_products

QKV = ("attn.q", "attn.k", "attn.v")
ROWS = 1024
"""Tokens whose hidden state is made at a time on a CPU: more of it would leave the caches."""

Products = Callable[[FactorBank], Any]


def products_once() -> Products:
    """exact_products, worked out once a bank."""
    known: dict[FactorBank, Any] = {}

    def find(bank: FactorBank) -> Any:
        if bank not in known:
            known[bank] = exact_products(bank)
        return known[bank]

    return find


# In torch


class TorchAttention(nn.Module):
    def __init__(self, read: Joined, write: Joined, norm: "Norm", heads: int) -> None:
        super().__init__()
        self.read, self.write, self.norm, self.heads = read, write, norm, heads

    def forward(self, x: Tensor, lengths: Sequence[int], bias: Tensor | None) -> Tensor:
        q, k, v = self.read(x)
        context = attend(q, k, v, self.heads, lengths, bias)
        return self.norm(self.write(context)[0].add_(x))


class TorchFfn(nn.Module):
    def __init__(self, read: Joined, write: Joined, norm: "Norm", activation: str) -> None:
        super().__init__()
        self.read, self.write, self.norm, self.activation = read, write, norm, activation

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda or len(x) <= ROWS:
            return self._part(x)
        return torch.cat([self._part(part) for part in x.split(ROWS)])

    def _part(self, x: Tensor) -> Tensor:
        return self.norm(self.write(activate_(self.activation, self.read(x)[0]))[0].add_(x))


class Norm(nn.Module):
    """A LayerNorm's weights as they were."""

    gamma: Tensor
    beta: Tensor

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.register_buffer("gamma", norm.weight.detach().clone(), persistent=False)
        self.register_buffer("beta", norm.bias.detach().clone(), persistent=False)
        self.eps = norm.eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)


class TorchChain(nn.Module):
    """`ways`: of every factored layer, dense or chain; other layers are what they are."""

    def __init__(self, encoder: Encoder, ways: Mapping[FactoredLinear, str], dtype: torch.dtype) -> None:
        super().__init__()
        find, blocks = products_once(), []
        for layer in encoder.layers:

            def joined(*roles: str, layer: Layer = layer) -> Joined:
                return _joined([layer.linears[role] for role in roles], ways, find)

            blocks += [
                TorchAttention(joined(*QKV), joined("attn.o"), Norm(layer.attention_norm), encoder.heads),
                TorchFfn(joined("ffn.in"), joined("ffn.out"), Norm(layer.ffn_norm), encoder.activation),
            ]
        self.blocks = nn.ModuleList(blocks).to(dtype)

    def forward(self, x: Tensor, lengths: Sequence[int], bias: Tensor | None) -> Tensor:
        for block in self.blocks:
            x = block(x, lengths, bias) if isinstance(block, TorchAttention) else block(x)
        return x


def attend(q: Tensor, k: Tensor, v: Tensor, heads: int, lengths: Sequence[int], bias: Tensor | None) -> Tensor:
    """softmax(q k' / sqrt(e) + bias) v within each sequence: (T, H e) each -> (T, H e)."""
    if len(set(lengths)) == 1:
        mask = None if bias is None else bias[None].to(q.dtype)
        q, k, v = (y.unflatten(0, (len(lengths), -1)).unflatten(-1, (heads, -1)).transpose(1, 2) for y in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2).flatten(0, 1)
    parts = []
    for low, length in zip(accumulate(lengths, initial=0), lengths, strict=False):
        own, here = None if bias is None else bias[:, :length, :length], slice(low, low + length)
        parts.append(attend(q[here], k[here], v[here], heads, (length,), own))
    return torch.cat(parts)


def activate_(name: str, x: Tensor) -> Tensor:
    """In place."""
    match name:
        case "gelu":
            return torch.ops.aten.gelu_(x)
        case "gelu_tanh":
            return torch.ops.aten.gelu_(x, approximate="tanh")
        case "relu":
            return x.relu_()
    return F.silu(x, inplace=True)


def _joined(linears: Sequence[Any], ways: Mapping[FactoredLinear, str], find: Products) -> Joined:
    """Neighbours of one bank and one way are folded together."""
    found: list[Folded] = []
    groups: list[list[Any]] = []
    for linear in linears:
        last = groups[-1][-1] if groups else None
        if isinstance(linear, FactoredLinear) and isinstance(last, FactoredLinear) and last.bank is linear.bank:
            groups[-1].append(linear)
        else:
            groups.append([linear])
    for group in groups:
        if isinstance(group[0], FactoredLinear):
            make = dense if all(ways[layer] == DENSE for layer in group) else fold
            found.append(make(find(group[0].bank), [layer.grid for layer in group]))
        else:
            found.append(whole([layer.weight.detach().T for layer in group]))
    return Joined(beside(found), [layer.bias for layer in linears], [layer.out_features for layer in linears])


# In kernels


class KernelChain(nn.Module):
    """x u is handed from block to block. Constants are no buffers: their rows stay in single precision at least."""

    def __init__(self, weights: Sequence[tuple[AttentionWeights, FfnWeights]], dtype: torch.dtype) -> None:
        super().__init__()
        self.layers = [(attention.constants(dtype), ffn.constants(dtype)) for attention, ffn in weights]
        self._packings: dict[tuple[int, ...], Packing] = {}

    def forward(self, x: Tensor, lengths: Sequence[int], bias: Tensor | None) -> Tensor:
        return self.packed(x, self._packing(tuple(lengths), x.device), bias)

    def packed(self, x: Tensor, packing: Packing, bias: Tensor | None) -> Tensor:
        z: Tensor | None = None
        after = [attention.u for attention, _ in self.layers[1:]]
        for (attention, ffn), u in zip(self.layers, [*after, None], strict=True):
            x, z = attention_block(x, z, attention, packing, ffn.u, bias)
            x, z = ffn_block(x, z, ffn, u)
        return x

    def _packing(self, lengths: tuple[int, ...], device: torch.device) -> Packing:
        """The last one is kept: batches of one shape come in rows."""
        packing = self._packings.get(lengths)
        if packing is None:
            packing = Packing.of(lengths, device)
            self._packings = {lengths: packing}
        return packing

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        def keep(tensor: Tensor) -> Tensor:
            moved: Tensor = fn(tensor)
            return moved if moved.ndim > 1 else moved.to(torch.promote_types(moved.dtype, torch.float32))

        moved: list[tuple[AttentionConstants, FfnConstants]] = [(a.map(keep), f.map(keep)) for a, f in self.layers]
        self.layers, self._packings = moved, {}
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_packings": {}}


def kernel_weights(encoder: Encoder) -> list[tuple[AttentionWeights, FfnWeights]]:
    """Raises NoBlocks where a site is not of low rank."""
    find = products_once()
    return [(_attention(encoder, layer, find), _ffn(encoder, layer, find)) for layer in encoder.layers]


def refused(weights: Sequence[tuple[AttentionWeights, FfnWeights]], dtype: torch.dtype, device: torch.device) -> str | None:
    """Why no kernels compute a model, in one line; None: they do."""
    return next((why for pair in weights for each in pair if (why := applies(each, dtype, device)) is not None), None)


def _attention(encoder: Encoder, layer: Layer, find: Products) -> AttentionWeights:
    u, (q, k, v) = read_side([_source(layer, role, find) for role in QKV])
    return AttentionWeights(u, q, k, v, _writer(layer, "attn.o", layer.attention_norm, find), encoder.heads, encoder.scale)


def _ffn(encoder: Encoder, layer: Layer, find: Products) -> FfnWeights:
    u, (inner,) = read_side([_source(layer, "ffn.in", find)])
    return FfnWeights(u, inner, encoder.activation, _writer(layer, "ffn.out", layer.ffn_norm, find))


def _writer(layer: Layer, role: str, norm: nn.LayerNorm, find: Products) -> Writer:
    source = _source(layer, role, find)
    left, right = write_side(source)
    return Writer(left, right, source.bias, norm.weight.detach(), norm.bias.detach(), norm.eps)


def _source(layer: Layer, role: str, find: Products) -> Source:
    linear = layer.linears[role]
    if not isinstance(linear, FactoredLinear):
        raise NoBlocks(f"{role} is not factored")
    bias = None if linear.bias is None else linear.bias.detach()
    return Source(find(linear.bank), linear.grid, bias)
