"""Fused blocks: constants and plain torch against the definition, in double precision."""

import pytest
import torch
from fused_draws import Shape, attended, attention_weights, fed, ffn_weights, packed

from tenfold.runtime.kernels import Packing, applies, attention_block, ffn_block
from tenfold.runtime.kernels.blocks import refused
from tenfold.runtime.kernels.weights import padded, pieces

SHAPES = [
    Shape(96, 24, 20, heads=3, head=32),
    Shape(40, 7, 9, heads=2, head=16, private=True),
    Shape(52, 96, 36, heads=2, head=26),
    Shape(32, 30, 96, heads=4, head=8, private=True),
]
LENGTHS = [5, 1, 17, 40]


@pytest.mark.parametrize("absorb", [False, True, None])
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_of_constants_is_attention_of_weights(shape: Shape, absorb: bool | None) -> None:
    torch.manual_seed(0)
    w, bias = attention_weights(shape), torch.randn(shape.heads, 50, 50).double()
    packing, x = packed(LENGTHS, shape.width)
    next_u = torch.randn(shape.width, 48).double()
    constants = w.constants(torch.float64, absorb)
    assert absorb is None or constants.absorbed == absorb
    for table in (bias, None):
        expected = attended(x, w, LENGTHS, table)
        y, z = attention_block(x, None, constants, packing, next_u, table)
        torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(z, expected @ next_u, rtol=1e-10, atol=1e-10)
        again, none = attention_block(x, x @ constants.u, constants, packing, None, table)
        assert none is None and torch.equal(again, y)
    assert not torch.allclose(y, x, atol=0.1)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "relu", "silu"])
@pytest.mark.parametrize("shape", SHAPES)
def test_feeding_forward_through_constants(shape: Shape, name: str) -> None:
    torch.manual_seed(1)
    w = ffn_weights(shape, name, biases=name != "relu")
    _, x = packed(LENGTHS, shape.width)
    y, z = ffn_block(x, None, w.constants(torch.float64), torch.eye(shape.width).double())
    torch.testing.assert_close(y, fed(x, w), rtol=1e-10, atol=1e-10)
    assert z is not None and torch.equal(z, y)


def test_ranks_are_padded_to_two_pieces() -> None:
    assert [padded(rank) for rank in (1, 16, 17, 36, 64, 72, 96, 100, 128, 176, 192, 245)] == [
        16, 16, 32, 48, 64, 80, 96, 128, 128, 192, 192, 256,
    ]  # fmt: skip
    assert [pieces(width) for width in (16, 48, 96, 112, 24, 0)] == [(16, 0), (32, 16), (64, 32), None, None, None]


def test_short_sequences_share_blocks_and_long_ones_have_several() -> None:
    blocks = Packing.of([5, 3, 9, 2, 6]).blocks(rows=8, keys=8)
    assert blocks.table.tolist() == [[0, 8, 0, 8], [8, 16, 8, 17], [16, 17, 8, 17], [17, 25, 17, 25]]
    assert (blocks.single, blocks.mixed, blocks.even) == (False, True, False)
    blocks = Packing.of([16, 8]).blocks(rows=8, keys=8)
    assert (blocks.single, blocks.mixed, blocks.even) == (False, False, True)


def test_a_packing_of_fixed_shapes_says_the_same_of_real_tokens() -> None:
    known, fixed = Packing.of([5, 1, 14]), Packing.fixed(torch.tensor([0, 5, 6, 20]), 16)
    assert fixed.total == 48
    assert torch.equal(fixed.starts[:20], known.starts) and torch.equal(fixed.ends[:20], known.ends)
    assert (fixed.starts[20:] == fixed.ends[20:]).all()
    table = fixed.blocks(8, 8).table
    assert table.shape == (6, 4)
    assert table[table[:, 0] < table[:, 1]].tolist() == [[0, 5, 0, 5], [5, 6, 5, 6], [6, 14, 6, 20], [14, 20, 6, 20]]


def test_what_kernels_refuse_is_said_in_a_line() -> None:
    wide, cpu = ffn_weights(Shape(32, 300, 16)), torch.device("cpu")
    assert applies(wide, torch.float16, cpu) == "kernels want a CUDA device, got cpu"
    assert refused(wide, torch.float16) == "kernels go up to rank 256, got 300"
    assert refused(wide, torch.float64) == "kernels want float16, bfloat16 or float32, got float64"
    assert "got swish" in str(refused(ffn_weights(Shape(32, 8, 8), "swish"), torch.float16))
    assert "got 160" in str(refused(attention_weights(Shape(32, 8, 8, head=160)), torch.float16))
    assert refused(attention_weights(Shape(32, 8, 245)), torch.bfloat16) is None
