"""Bytes of weights and of the peak of a call, where they are known."""

import torch
from torch import nn

from tenfold.measurement.memory import peak_bytes, weights_bytes

CPU = torch.device("cpu")


def test_a_shared_weight_is_held_once() -> None:
    first, second = nn.Linear(10, 10, bias=False), nn.Linear(10, 10, bias=False)
    assert weights_bytes(nn.Sequential(first, second)) == 2 * 400
    second.weight = first.weight
    assert weights_bytes(nn.Sequential(first, second)) == 400
    first.register_buffer("constants", torch.zeros(5, dtype=torch.int64))
    assert weights_bytes(nn.Sequential(first, second)) == 440
    assert weights_bytes(nn.Sequential(first, second).to(torch.bfloat16)) == 240


def test_the_peak_is_what_lies_in_memory_at_once() -> None:
    """Three tensors of 4 MB one after the other, of which two live at a time."""
    size = 4 * 1000 * 1000
    x = torch.ones(1000, 1000)
    assert peak_bytes(lambda: x.exp(), CPU) == size
    assert peak_bytes(lambda: x.exp().sin().cos(), CPU) == 2 * size
    assert peak_bytes(lambda: x.exp_(), CPU) == 0
