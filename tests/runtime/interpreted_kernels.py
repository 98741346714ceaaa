"""The Triton programs through the interpreter, in single precision, against the definition in double precision.

TRITON_INTERPRET=1 must stand in the environment before triton is imported: `test_kernels_interpreted.py` runs this file so.
"""

import random

import pytest
import torch
from fused_draws import Attending, Feeding, Shape, attended, attention_weights, away, fed, ffn_weights, guarded

from tenfold.runtime.kernels import launch
from tenfold.runtime.kernels.configs import Config

WITHIN = 2e-5

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


@pytest.fixture(autouse=True)
def poisoned() -> None:
    """Memory that nothing was written to is not a number; draws are new each time, and an error names their seed."""
    torch.use_deterministic_algorithms(True)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    torch.manual_seed(seed)


def _next(width: int, columns: int) -> torch.Tensor | None:
    return torch.randn(width, columns).double() if columns else None


def _small(step: int) -> Config:
    return Config(rows=16, step=step, columns=32, warps=4, stages=2, closing=2, shared=0)


def _agree(block: launch.Block, expected: torch.Tensor, next_u: torch.Tensor | None) -> None:
    y, z = block()
    y = y[: len(expected)]
    assert away(y, expected) < WITHIN
    assert (z is None) == (next_u is None)
    if z is not None and next_u is not None:
        assert away(z[: len(expected)], expected @ next_u) < WITHIN


@pytest.mark.parametrize("case", FEEDING, ids=lambda case: case.activation)
def test_feeding_forward(case: Feeding) -> None:
    w, next_u = ffn_weights(case.shape, case.activation, case.biases), _next(case.shape.width, case.next_width)
    x = torch.randn(case.tokens, case.shape.width).double() * 3 + 1
    constants, single = w.constants(torch.float32), x.float()
    block = launch.ffn_block(
        guarded(single),
        guarded(single @ constants.u),
        constants,
        None if next_u is None else next_u.float(),
        _small(32),
        case.parts,
    )
    _agree(block, fed(x, w), next_u)


@pytest.mark.parametrize(
    "case", ATTENDING, ids=lambda case: f"{'absorbed' if case.absorb else 'plain'}-{case.shape.head}-{case.keys}"
)
def test_attention(case: Attending) -> None:
    w, next_u = attention_weights(case.shape), _next(case.shape.width, case.next_width)
    packing, longest = case.packing, max(case.lengths)
    bias = torch.randn(case.shape.heads, longest, longest + 1).double()[:, :, :-1] if case.bias else None
    x = torch.randn(sum(case.lengths), case.shape.width).double() * 2 - 1
    constants = w.constants(torch.float32, case.absorb)
    single = torch.full((packing.total, case.shape.width), torch.nan)
    single[: len(x)] = x
    block = launch.attention_block(
        guarded(single), guarded(single @ constants.u), constants, packing,
        None if next_u is None else next_u.float(), None if bias is None else bias.float(), _small(case.keys), case.parts,
    )  # fmt: skip
    _agree(block, attended(x, w, list(case.lengths), bias), next_u)


def test_rows_far_from_zero_keep_their_spread() -> None:
    """Mean and spread are found together; a large mean must not take the spread's digits."""
    w = ffn_weights(Shape(80, 16, 16))
    x = torch.randn(16, 80).double() + 300
    constants, single = w.constants(torch.float32), x.float()
    for parts in (1, 2):
        y, _ = launch.ffn_block(single, single @ constants.u, constants, None, _small(32), parts)()
        assert away(y, fed(single.double(), w)) < 2e-3
