"""Which cut of a block is launched, from the table alone; and the polynomials of GELU against GELU."""

import math

import pytest
import torch
from fused_draws import Shape, attention_weights, ffn_weights

from tenfold.runtime.kernels import gelu
from tenfold.runtime.kernels.configs import Device, attention_cuts, ffn_cuts, ranks_of, wanted
from tenfold.runtime.kernels.weights import ACTIVATIONS, HIDDEN

HALF, SINGLE = torch.bfloat16, torch.float32
H200, L4 = Device(132, 232_448), Device(58, 101_376)


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_gelu_by_a_polynomial_is_gelu(form: str) -> None:
    coefficients, bound, tail_bound = {
        "none": (gelu.GELU, gelu.GELU_BOUND, gelu.GELU_TAIL_BOUND),
        "tanh": (gelu.GELU_TANH, gelu.GELU_TANH_BOUND, gelu.GELU_TANH_TAIL_BOUND),
    }[form]
    x = torch.cat([torch.linspace(-12, 12, 2_400_001, dtype=torch.float64), torch.tensor([-1e4, -300.0, 300.0, 1e4]).double()])
    size, power = x.abs(), torch.zeros_like(x)
    for c in reversed(coefficients):
        power = power * size + c
    tail = torch.exp2(power)
    exact = torch.nn.functional.gelu(x, approximate=form)
    away = (x.clamp(min=0) - size * tail - exact).abs().max()
    assert bound / 2 < away < bound
    if form == "none":
        erf = torch.special.erf(size / math.sqrt(2))
        assert ((1 - erf) / 2 - tail).abs().max() < tail_bound
    assert coefficients[-1] < 0, "it falls to the end"


def test_few_tokens_are_split_over_the_processors() -> None:
    cuts = ffn_cuts(HALF, (64, 64, 64), 128, 3072, H200)
    assert cuts[0].parts > 1 and cuts[-1].parts == 1
    blocks = math.ceil(128 / cuts[0].config.rows) * cuts[0].parts
    assert H200.processors / 2 < blocks <= H200.processors
    few, more, many = (ffn_cuts(HALF, (64, 64, 64), tokens, 3072, H200) for tokens in (1024, 4096, 128 * 256))
    assert few[0].config.rows <= more[0].config.rows < many[0].config.rows
    assert more[0].parts == 1 and math.ceil(4096 / more[0].config.rows) > H200.processors / 2
    assert {cut.parts for cut in many} == {1}
    assert attention_cuts(HALF, (64, 64, 64, 64, 64), 128, 128, 12, H200)[0].parts > 1
    assert {cut.parts for cut in attention_cuts(HALF, (64, 64, 64, 64, 64), 128 * 256, 128, 12, H200)} == {1}


@pytest.mark.parametrize("tokens", [1, 16, 128, 1000, 4096, 135_168])
@pytest.mark.parametrize("rank", [16, 64, 96, 192, 256])
@pytest.mark.parametrize("device", [H200, L4])
def test_every_cut_divides_what_it_cuts(rank: int, tokens: int, device: Device) -> None:
    for hidden in (HIDDEN, 1280, 3072):
        for cut in ffn_cuts(HALF, (rank,), tokens, hidden, device):
            assert hidden % (cut.config.step * cut.parts) == 0
            assert cut.config.shared <= device.shared
    for heads in (1, 7, 12, 16):
        for longest in (1, 64, 100, 128, 129, 512):
            for cut in attention_cuts(HALF, (rank,), tokens, longest, heads, device):
                assert heads % cut.parts == 0
                assert cut.config.shared <= device.shared


def test_keys_come_in_one_go_where_they_can() -> None:
    for longest, keys in ((8, 64), (64, 64), (65, 128), (128, 128), (129, 64), (512, 64)):
        cuts = attention_cuts(HALF, (64,), 135_168, longest, 12, H200)
        assert {cut.config.step for cut in cuts} == {keys}


def test_what_is_too_large_for_a_gpu_has_no_cut() -> None:
    for dtype, ranks in ((HALF, (256,)), (SINGLE, (128,)), (HALF, (64,))):
        least = wanted(dtype, ranks, attention=True)
        assert least > 0
        assert not attention_cuts(dtype, ranks, 4096, 512, 12, Device(132, least - 1))
        assert attention_cuts(dtype, ranks, 4096, 512, 12, Device(132, least))


def test_the_ranks_of_a_block_are_all_that_its_program_meets() -> None:
    a, f = attention_weights(Shape(64, 24, 70)), ffn_weights(Shape(64, 100, 16))
    next_u = torch.zeros(64, 192)
    assert ranks_of(a.constants(HALF, False), next_u) == (32, 32, 32, 80, 192)
    assert ranks_of(a.constants(HALF, True), None) == (32, 32, 32, 80, 0)
    assert ranks_of(f.constants(HALF), None) == (128, 16, 0)
    assert set(ACTIVATIONS) == {"gelu", "gelu_tanh", "relu", "silu"}
