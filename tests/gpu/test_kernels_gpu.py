"""The fused blocks on a GPU, in every precision, against the definition in double precision.

Half precision is judged by what plain torch loses with the same rounded constants, over many draws.
"""

from dataclasses import replace

import pytest
import torch
from fused_draws import Attending, Feeding, Shape, attended, attention_weights, away, fed, ffn_weights
from torch import Tensor

from tenfold.runtime.kernels import Packing, applies, attention_block, ffn_block, reference, tuning

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="wants a GPU")

DRAWS = 4
DTYPES = [torch.float16, torch.bfloat16, torch.float32]
SHAPES = [
    Shape(768, 64, 64, heads=12, head=64, hidden=3072),
    Shape(768, 96, 72, heads=12, head=64, hidden=3072),
    Shape(384, 128, 128, heads=12, head=32, hidden=1536),
    Shape(312, 36, 20, heads=12, head=26, hidden=1200),
    Shape(256, 64, 100, heads=4, head=64, hidden=1024, private=True),
    Shape(768, 192, 256, heads=12, head=64, hidden=3072),
    Shape(512, 16, 32, heads=4, head=128, hidden=2048),
]
LENGTHS = [[128] * 40, [512, 512], [1], [7, 128, 33, 64, 1, 500, 90], [32] * 70, [130], [16]]


def _single_serves(shape: Shape, dtype: torch.dtype) -> bool:
    return dtype != torch.float32 or max(shape.p, shape.q) <= 128


def _cuda(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to("cuda", dtype)


def _root(error: Tensor, of: Tensor) -> float:
    return float(error.double().square().mean().sqrt() / of.square().mean().sqrt())


def _agree(found: Tensor, plain: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    error, usual = _root(found.cpu() - expected, expected), _root(plain.cpu() - expected, expected)
    assert found.isfinite().all()
    assert error < max(1.5 * usual, 1e-5), (error, usual)
    assert away(found, expected) < {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4}[dtype]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "relu", "silu"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_feeding_forward(shape: Shape, name: str, dtype: torch.dtype) -> None:
    for draw in range(DRAWS):
        tokens = [1, 130, 700, 20_000][draw]
        w = ffn_weights(shape, name, biases=draw % 2 == 0)
        if not _single_serves(shape, dtype):
            assert "in float32" in str(applies(w, dtype, torch.device("cuda")))
            return
        assert applies(w, dtype, torch.device("cuda")) is None
        x, next_u = _cuda(torch.randn(tokens, shape.width), dtype), _cuda(torch.randn(shape.width, 64) / 16, dtype)
        constants = w.constants(dtype).map(lambda tensor: tensor.cuda())
        found, z = ffn_block(x, None, constants, next_u)
        plain, z_plain = reference.ffn_block(x, x @ constants.u, constants, next_u)
        expected = fed(x.double().cpu(), w)
        _agree(found, plain, expected, dtype)
        assert z is not None and z_plain is not None
        _agree(z, z_plain, expected @ next_u.double().cpu(), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("absorb", [None, False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention(shape: Shape, absorb: bool | None, dtype: torch.dtype) -> None:
    for draw, lengths in enumerate(LENGTHS):
        w = attention_weights(shape)
        if not _single_serves(shape, dtype):
            return
        constants = w.constants(dtype, absorb).map(lambda tensor: tensor.cuda())
        x = _cuda(torch.randn(sum(lengths), shape.width), dtype)
        longest = max(lengths)
        bias = None if draw % 2 else torch.randn(shape.heads, longest, longest)
        table = None if bias is None else _cuda(bias, dtype)
        exact = None if table is None else table.double().cpu()
        next_u = _cuda(torch.randn(shape.width, 48) / 16, dtype)
        expected = attended(x.double().cpu(), w, lengths, exact)
        known = Packing.of(lengths, "cuda")
        plain, z_plain = reference.attention_block(x, x @ constants.u, constants, known, next_u, table)
        for packing in (known, Packing.fixed(known.bounds, longest)):
            room = x.new_full((packing.total, shape.width), 7.0)
            room[: len(x)] = x
            found, z = attention_block(room, None, constants, packing, next_u, table)
            _agree(found[: len(x)], plain, expected, dtype)
            assert z is not None and z_plain is not None
            _agree(z[: len(x)], z_plain, expected @ next_u.double().cpu(), dtype)


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_every_cut_that_is_timed_agrees(shape: Shape) -> None:
    dtype = torch.float16
    w = ffn_weights(shape)
    constants = w.constants(dtype).map(lambda tensor: tensor.cuda())
    for tokens in (128, 8448):
        x = _cuda(torch.randn(tokens, shape.width), dtype)
        with tuning():
            found, _ = ffn_block(x, None, constants)
        again, _ = ffn_block(x, None, constants)
        assert torch.equal(found, again)
        assert away(found, fed(x.double().cpu(), w)) < 2e-2


@pytest.mark.parametrize("tokens", [128, 4096])
def test_a_graph_of_several_layers_replays_what_they_compute(tokens: int) -> None:
    shape, dtype = SHAPES[0], torch.bfloat16
    w, f = attention_weights(shape), ffn_weights(shape)
    a = w.constants(dtype).map(lambda tensor: tensor.cuda())
    b = replace(f, u=w.u).constants(dtype).map(lambda tensor: tensor.cuda())
    packing = Packing.of([128] * (tokens // 128), "cuda")

    def encoder(x: Tensor) -> Tensor:
        z: Tensor | None = None
        for _ in range(3):
            x, z = attention_block(x, z, a, packing, b.u)
            x, z = ffn_block(x, z, b, a.u)
        return x

    held = _cuda(torch.randn(tokens, shape.width), dtype)
    encoder(held)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = encoder(held)
    for _ in range(3):
        held.copy_(torch.randn(tokens, shape.width))
        expected = encoder(held.clone())
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, expected)
        assert out.isfinite().all()


def test_a_graph_reads_lengths_on_the_device() -> None:
    shape, dtype = SHAPES[0], torch.float16
    w = attention_weights(shape)
    constants = w.constants(dtype).map(lambda tensor: tensor.cuda())
    bounds = torch.tensor([0, 128, 256, 384], dtype=torch.int32, device="cuda")
    held = _cuda(torch.randn(384, shape.width), dtype)

    def attend() -> Tensor:
        return attention_block(held, None, constants, Packing.fixed(bounds, 128))[0]

    attend()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attend()
    for lengths in ([3, 128, 40], [1, 1, 1], [64, 64, 100]):
        bounds.copy_(torch.tensor([0, *lengths]).cumsum(0))
        graph.replay()
        torch.cuda.synchronize()
        expected = attended(held[: sum(lengths)].double().cpu(), w, lengths, None)
        assert away(out[: sum(lengths)], expected) < 2e-2


def test_cases_of_the_interpreter_hold_compiled() -> None:
    """Odd shapes: ranks of two pieces, heads that are padded, widths that no column chunk divides."""
    for case in (Feeding(Shape(80, 24, 20, hidden=100)), Feeding(Shape(72, 40, 65), "silu", tokens=3)):
        w = ffn_weights(case.shape, case.activation)
        x = torch.randn(case.tokens, case.shape.width)
        found, _ = ffn_block(x.cuda(), None, w.constants(torch.float32).map(lambda tensor: tensor.cuda()))
        assert away(found, fed(x.double(), w)) < 1e-4
    for other in (
        Attending(Shape(40, 36, 20, heads=3, head=26), (5, 6, 18)),
        Attending(Shape(32, 12, 70, head=16, private=True), (3, 200)),
    ):
        v = attention_weights(other.shape)
        x = torch.randn(sum(other.lengths), other.shape.width)
        own = v.constants(torch.float32).map(lambda tensor: tensor.cuda())
        found, _ = attention_block(x.cuda(), None, own, Packing.of(other.lengths, "cuda"))
        assert away(found, attended(x.double(), v, list(other.lengths), None)) < 1e-4
