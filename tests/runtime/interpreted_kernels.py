"""The Triton programs through the interpreter, in single precision, against the definition in double precision.

TRITON_INTERPRET=1 must stand in the environment before triton is imported: `test_kernels_interpreted.py` runs this file so.
"""

import random
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from fused_draws import (
    ATTENDING,
    FEEDING,
    Attending,
    Feeding,
    Shape,
    attended,
    attention_weights,
    away,
    fed,
    ffn_weights,
    guarded,
)
from triton.runtime.errors import OutOfResources

from tenfold.runtime.kernels import Packing, gpu, launch, tuning
from tenfold.runtime.kernels.configs import Config, Device, ffn_cuts, ranks_of

WITHIN = 2e-5


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


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if tensors lay on a GPU of four processors."""
    monkeypatch.setattr(gpu, "device", lambda _: Device(4, 232_448))
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(gpu, "_found", {})
    monkeypatch.setattr(gpu, "_timed", set())


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize("columns", [32, 112, 0])
def test_whole_blocks_as_a_gpu_would_run_them(columns: int) -> None:
    """112 columns are no two powers of two: z' is a product more."""
    shape, lengths = Shape(64, 16, 16, hidden=128), [9, 4, 2]
    a, f, next_u = attention_weights(shape), ffn_weights(shape), _next(64, columns)
    u = None if next_u is None else next_u.float()
    x = torch.randn(sum(lengths), 64)
    one, two = a.constants(torch.float32), f.constants(torch.float32)
    y, z = gpu.attention_block(x, x @ one.u, one, Packing.of(lengths), u, None)
    expected = attended(x.double(), a, lengths, None)
    assert away(y, expected) < WITHIN
    assert (z is None) == (next_u is None)
    assert z is None or next_u is None or away(z, expected @ next_u) < WITHIN
    y, z = gpu.ffn_block(x, x @ two.u, two, u)
    expected = fed(x.double(), f)
    assert away(y, expected) < WITHIN
    assert z is None or next_u is None or away(z, expected @ next_u) < WITHIN
    assert len(gpu._found) == 2


@pytest.mark.usefixtures("on_a_gpu")
def test_what_does_not_run_gives_way_and_what_is_fastest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    w = ffn_weights(Shape(32, 16, 16, hidden=128))
    constants, x = w.constants(torch.float16), torch.randn(200, 32).half()
    cuts = ffn_cuts(x.dtype, ranks_of(constants, None), 200, 128, Device(4, 232_448))
    assert len(cuts) > 2
    tried: list[Config] = []

    def call(config: Config) -> tuple[torch.Tensor, None]:
        tried.append(config)
        if len(tried) == 1:
            raise OutOfResources(300_000, 232_448, "shared memory")
        return x, None

    monkeypatch.setattr(launch, "ffn_block", lambda *given: partial(call, given[4]))
    for _ in range(2):
        gpu.ffn_block(x, x, constants, None)
    assert tried == [cuts[0].config, cuts[1].config, cuts[1].config]

    monkeypatch.setattr(gpu, "_graph", lambda block: type("Graph", (), {"replay": block}))
    monkeypatch.setattr(gpu, "interleaved", lambda calls, _: {name: -float(name) for name in calls})
    with tuning():
        gpu.ffn_block(x, x, constants, None)
    gpu.ffn_block(x, x, constants, None)
    assert tried[-2:] == [cuts[-1].config] * 2
