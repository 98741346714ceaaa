"""Random weights of blocks, and what the blocks must give, from the definition and in double precision."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from tenfold.runtime.kernels import AttentionWeights, FfnWeights, Packing, Reader, Writer
from tenfold.runtime.kernels.reference import activation


@dataclass(frozen=True)
class Shape:
    """width D, ranks p and q, heads H of size e, hidden F. private: q, k and v read columns of z of their own."""

    width: int
    p: int
    q: int
    heads: int = 2
    head: int = 32
    hidden: int = 192
    private: bool = False


def attention_weights(shape: Shape, biases: bool = True) -> AttentionWeights:
    starts = [shape.p * number * shape.private for number in range(3)]
    wide = shape.heads * shape.head
    q, k, v = (Reader(_normal(shape.p, wide), torch.randn(wide).double() if biases else None, start) for start in starts)
    u = _normal(shape.width, starts[-1] + shape.p)
    return AttentionWeights(u, q, k, v, _writer(shape, wide, biases), shape.heads, 1.3 * shape.head**-0.5)


def ffn_weights(shape: Shape, name: str = "gelu", biases: bool = True) -> FfnWeights:
    inner = Reader(_normal(shape.p, shape.hidden), torch.randn(shape.hidden).double() if biases else None)
    return FfnWeights(_normal(shape.width, shape.p), inner, name, _writer(shape, shape.hidden, biases))


def attended(x: Tensor, w: AttentionWeights, lengths: list[int], bias: Tensor | None) -> Tensor:
    """x' by the definition, one head of one sequence at a time."""
    found = []
    z = x @ w.u
    q, k, v = (z[:, r.start : r.stop] @ r.weight + (0 if r.bias is None else r.bias) for r in (w.q, w.k, w.v))
    for low, high in pairwise(torch.tensor([0, *lengths]).cumsum(0).tolist()):
        heads = []
        for h in range(w.heads):
            own = slice(h * w.head, (h + 1) * w.head)
            scores = w.scale * q[low:high, own] @ k[low:high, own].T
            if bias is not None:
                scores = scores + bias[h, : high - low, : high - low]
            heads.append(scores.softmax(dim=-1) @ v[low:high, own])
        found.append(torch.cat(heads, dim=1))
    return _written(w.out, x, torch.cat(found))


def fed(x: Tensor, w: FfnWeights) -> Tensor:
    """x' by the definition."""
    h = x @ w.u @ w.inner.weight + (0 if w.inner.bias is None else w.inner.bias)
    return _written(w.out, x, activation(w.activation, h))


def packed(lengths: list[int], width: int) -> tuple[Packing, Tensor]:
    packing = Packing.of(lengths)
    return packing, torch.randn(packing.total, width).double() + 0.3


@dataclass(frozen=True)
class Attending:
    """A case of attention. keys: at a time; the rest as in `Shape`, `constants` and `Packing`."""

    shape: Shape
    lengths: tuple[int, ...]
    absorb: bool = False
    bias: bool = False
    parts: int = 1
    keys: int = 64
    next_width: int = 48
    fixed: bool = False

    @property
    def packing(self) -> Packing:
        known = Packing.of(self.lengths)
        return Packing.fixed(known.bounds, max(self.lengths) + 3) if self.fixed else known


@dataclass(frozen=True)
class Feeding:
    """A case of the feed-forward part."""

    shape: Shape
    activation: str = "gelu"
    tokens: int = 37
    biases: bool = True
    parts: int = 1
    next_width: int = 48


FEEDING = [
    Feeding(Shape(80, 24, 20, hidden=100), "gelu"),
    Feeding(Shape(64, 96, 36), "gelu_tanh", tokens=16, next_width=16),
    Feeding(Shape(40, 16, 50), "relu", biases=False, parts=2, next_width=0),
    Feeding(Shape(72, 40, 65), "silu", tokens=3, parts=4, next_width=96),
]
ATTENDING = [
    Attending(Shape(80, 24, 20, heads=2, head=32), (5, 1, 17, 40), absorb=True, bias=True),
    Attending(Shape(64, 30, 36, heads=2, head=64), (33,), absorb=True, keys=16),
    Attending(Shape(40, 36, 20, heads=3, head=26), (5, 6, 18), keys=16, bias=True, next_width=0),
    Attending(Shape(48, 96, 20, heads=2, head=32), (32, 16), keys=16, next_width=96),
    Attending(Shape(32, 12, 70, heads=2, head=16, private=True), (3, 20), absorb=True, bias=True, parts=2, keys=16),
    Attending(Shape(32, 12, 20, heads=4, head=32, private=True), (3, 9, 20, 1), parts=4, keys=32),
    Attending(Shape(32, 16, 16, heads=2, head=128), (7, 20), fixed=True, bias=True, keys=32, next_width=16),
]
"""Each flag of the programs in both states, ranks of one and of two pieces, widths that no chunk divides."""


def guarded(tensor: Tensor) -> Tensor:
    """The same with rows of NaN in memory before and after it: what reads beyond it is seen."""
    around = tensor.new_full((len(tensor) + 32, *tensor.shape[1:]), torch.nan)
    around[16:-16] = tensor
    return around[16:-16]


def away(found: Tensor, expected: Tensor) -> float:
    """The largest error, of the largest number; infinite where something is not a number."""
    error = (found.double().cpu() - expected).abs().max() / expected.abs().max()
    return float(error.nan_to_num(nan=torch.inf))


def _writer(shape: Shape, wide: int, biases: bool) -> Writer:
    gamma, beta = 1 + 0.2 * torch.randn(shape.width).double(), 0.2 * torch.randn(shape.width).double()
    bias = torch.randn(shape.width).double() if biases else None
    return Writer(_normal(wide, shape.q), _normal(shape.q, shape.width), bias, gamma, beta, 1e-5)


def _written(out: Writer, x: Tensor, c: Tensor) -> Tensor:
    y = x + c @ (out.left @ out.right) + (0 if out.bias is None else out.bias)
    centred = y - y.mean(dim=1, keepdim=True)
    return out.gamma * centred / (centred.square().mean(dim=1, keepdim=True) + out.eps).sqrt() + out.beta


def _normal(rows: int, columns: int) -> Tensor:
    return F.normalize(torch.randn(rows, columns).double(), dim=0) * 1.5
