"""What the blocks multiply with: the exact weights, and the constants that kernels read, made of them once.

Constants are padded with zeros to what kernels can cut: a rank to a multiple of 16 that is one power of two or the sum of two
(96 = 64 + 32), a head to a power of two, the hidden width to a multiple of 128. Zero columns of u give zero columns of z,
which meet zero rows.

Attention is absorbed where ranks are no larger than a head, in exact arithmetic the same:

    (z W_q + b_q)(z W_k + b_k)' = (z W_q W_k' + b_q W_k') z' + what does not depend on the key, which softmax takes away
    softmax(.) (z W_v + b_v) left = (softmax(.) z) W_v left + b_v left

so keys and values are z itself, for all heads. Absorbed or not, the bias of the keys goes away and that of the values joins the
last one. scale and log2(e) are in the query's constants: kernels use powers of two.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")
"""gelu: with erf."""

HIDDEN = 128
"""The hidden width is padded to a multiple of this."""

Map = Callable[[Tensor], Tensor]
Mapped = TypeVar("Mapped", bound="_Mappable")


class _Mappable:
    def map(self: Mapped, fn: Map) -> Mapped:
        """The same with fn(tensor) for every tensor."""
        found: dict[str, Any] = {}
        assert is_dataclass(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                found[field.name] = fn(value)
            elif isinstance(value, _Mappable):
                found[field.name] = value.map(fn)
        return replace(self, **found)


@dataclass(frozen=True, eq=False)
class Reader(_Mappable):
    """Columns start : start + len(weight) of z, times weight (p, n), plus bias (n)."""

    weight: Tensor
    bias: Tensor | None = None
    start: int = 0

    @property
    def width(self) -> int:
        return self.weight.shape[0]

    @property
    def stop(self) -> int:
        return self.start + self.width


@dataclass(frozen=True, eq=False)
class Writer(_Mappable):
    """LayerNorm(x + c left right + bias): left (n, q), right (q, D)."""

    left: Tensor
    right: Tensor
    bias: Tensor | None
    gamma: Tensor
    beta: Tensor
    eps: float


@dataclass(frozen=True, eq=False)
class AttentionWeights(_Mappable):
    """u (D, p); q, k, v to H e columns; out.left (H e, q)."""

    u: Tensor
    q: Reader
    k: Reader
    v: Reader
    out: Writer
    heads: int
    scale: float

    @property
    def head(self) -> int:
        return self.q.weight.shape[1] // self.heads

    @property
    def absorbs(self) -> bool:
        """Whether keys and values are better left as z."""
        return max(_power(self.k.width), _power(self.v.width)) <= _power(self.head)

    def constants(self, dtype: torch.dtype, absorb: bool | None = None) -> "AttentionConstants":
        """What kernels of this precision read. absorb: whether keys and values are z itself; by default where it pays."""
        exact = self.map(lambda tensor: tensor.detach().to(_at_least_single(tensor.dtype)))
        absorb = self.absorbs if absorb is None else absorb
        made = _absorbed(exact) if absorb else _direct(exact)
        return made.map(lambda tensor: _rounded(tensor, dtype))


@dataclass(frozen=True, eq=False)
class FfnWeights(_Mappable):
    """u (D, p); inner to F columns; out.left (F, q)."""

    u: Tensor
    inner: Reader
    activation: str
    out: Writer

    def constants(self, dtype: torch.dtype) -> "FfnConstants":
        exact = self.map(lambda tensor: tensor.detach().to(_at_least_single(tensor.dtype)))
        u, (inner,) = _readers(exact.u, [exact.inner], padded)
        wide = _up(inner.weight.shape[1], HIDDEN)
        inner = replace(inner, weight=_grown(inner.weight, columns=wide), bias=_grown_row(_bias(inner), wide))
        made = FfnConstants(u, inner, self.activation, _writer(exact.out, _grown(exact.out.left, rows=wide)))
        return made.map(lambda tensor: _rounded(tensor, dtype))


@dataclass(frozen=True, eq=False)
class AttentionConstants(_Mappable):
    """Padded; k and v have no bias. Both None: absorbed, and keys and values are columns k_start and v_start on of z, `head` of
    them."""

    u: Tensor
    q: Reader
    k: Reader | None
    v: Reader | None
    out: Writer
    heads: int
    head: int
    k_start: int
    v_start: int

    @property
    def absorbed(self) -> bool:
        return self.k is None


@dataclass(frozen=True, eq=False)
class FfnConstants(_Mappable):
    """Padded."""

    u: Tensor
    inner: Reader
    activation: str
    out: Writer


def pieces(width: int) -> tuple[int, int] | None:
    """Two powers of two of 16 or more (the second may be 0) that make a width, the larger first; None: it takes more."""
    if width < 16 or width % 16 or width.bit_count() > 2:
        return None
    first = 1 << (width.bit_length() - 1)
    return first, width - first


def padded(rank: int) -> int:
    """The smallest width of two pieces that holds a rank."""
    width = _up(max(rank, 1), 16)
    while pieces(width) is None:
        width += 16
    return width


def _direct(w: AttentionWeights) -> AttentionConstants:
    head = _power(w.head)
    u, readers = _readers(w.u, [w.q, w.k, w.v], padded)
    q, k, v = (replace(reader, weight=_heads(reader.weight, w.heads, head), bias=None) for reader in readers)
    q = _scaled(replace(q, bias=_heads(_bias(w.q)[None], w.heads, head)[0]), w.scale)
    left = _heads(w.out.left.T, w.heads, head).T
    return AttentionConstants(u, q, k, v, _writer(_through(w), left), w.heads, head, k.start, v.start)


def _absorbed(w: AttentionWeights) -> AttentionConstants:
    head = max(_power(w.k.width), _power(w.v.width))
    queries, keys, values = (_cut(reader, w.heads) for reader in (w.q, w.k, w.v))
    bias = _bias(w.q).unflatten(0, (w.heads, -1))

    def widen(width: int) -> int:
        return head if width <= head else padded(width)

    query = torch.einsum("phe,khe->phk", queries, keys)
    shift = torch.einsum("he,khe->hk", bias, keys)
    left = torch.einsum("vhe,heq->hvq", values, w.out.left.unflatten(0, (w.heads, -1)))
    u, (q, k, v) = _readers(w.u, [replace(w.q, weight=query.flatten(1), bias=shift.flatten()), w.k, w.v], widen)
    q = replace(q, weight=_heads(q.weight, w.heads, head), bias=_heads(_bias(q)[None], w.heads, head)[0])
    left = F.pad(left, (0, 0, 0, head - left.shape[1])).flatten(0, 1)
    return AttentionConstants(u, _scaled(q, w.scale), None, None, _writer(_through(w), left), w.heads, head, k.start, v.start)


def _through(w: AttentionWeights) -> Writer:
    """What it ends with, the bias of the values included: every query gives all keys together the weight 1."""
    through = _bias(w.v) @ w.out.left @ w.out.right
    return replace(w.out, bias=through if w.out.bias is None else w.out.bias + through)


def _readers(u: Tensor, readers: list[Reader], widen: Callable[[int], int]) -> tuple[Tensor, list[Reader]]:
    """u with each of the column ranges that are read padded, and the readers of them."""
    ranges = sorted({(reader.start, reader.stop) for reader in readers})
    starts, columns, start = {}, [], 0
    for low, high in ranges:
        width = widen(high - low)
        starts[low, high] = start
        columns.append(F.pad(u[:, low:high], (0, width - (high - low))))
        start += width
    moved = [replace(r, weight=_grown(r.weight, rows=widen(r.width)), start=starts[r.start, r.stop]) for r in readers]
    return torch.cat(columns, dim=1), moved


def _writer(out: Writer, left: Tensor) -> Writer:
    width = padded(left.shape[1])
    bias = torch.zeros_like(out.gamma) if out.bias is None else out.bias
    return replace(out, left=_grown(left, columns=width), right=_grown(out.right, rows=width), bias=bias)


def _scaled(q: Reader, scale: float) -> Reader:
    factor = scale * math.log2(math.e)
    return replace(q, weight=q.weight * factor, bias=_bias(q) * factor)


def _heads(matrix: Tensor, heads: int, head: int) -> Tensor:
    """Columns in heads, each padded."""
    cut = matrix.unflatten(1, (heads, -1))
    return F.pad(cut, (0, head - cut.shape[2])).flatten(1)


def _cut(reader: Reader, heads: int) -> Tensor:
    return reader.weight.unflatten(1, (heads, -1))


def _bias(reader: Reader) -> Tensor:
    return reader.weight.new_zeros(reader.weight.shape[1]) if reader.bias is None else reader.bias


def _grown(matrix: Tensor, rows: int | None = None, columns: int | None = None) -> Tensor:
    down = 0 if rows is None else rows - matrix.shape[0]
    right = 0 if columns is None else columns - matrix.shape[1]
    return F.pad(matrix, (0, right, 0, down))


def _grown_row(row: Tensor, width: int) -> Tensor:
    return F.pad(row, (0, width - row.shape[0]))


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _power(width: int) -> int:
    """The smallest power of two, of 16 or more, that holds a width."""
    return max(16, 1 << (width - 1).bit_length())


def _rounded(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Matrices in the kernel's precision; rows, which are added in single precision, in that."""
    return tensor.to(dtype if tensor.ndim > 1 else _at_least_single(dtype)).contiguous()


def _at_least_single(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
