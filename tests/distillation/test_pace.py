"""Tokens a second and the share of a card's peak."""

from unittest.mock import patch

import pytest
import torch

from tenfold.distillation.pace import KNOWN, Pace, Peak, measured, peak
from tenfold.distillation.watch import Watch


def named(name: str) -> Peak | None:
    with patch("torch.cuda.get_device_name", return_value=name), patch("tenfold.distillation.pace.measured", return_value=5e13):
        return peak(torch.device("cuda"))


def test_a_cpu_has_no_peak() -> None:
    assert peak(torch.device("cpu")) is None


@pytest.mark.parametrize(
    ("name", "key"),
    [("NVIDIA H200", "H200"), ("NVIDIA H100 PCIe", "H100 PCIe"), ("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA L4", "L4"),
     ("NVIDIA GH200 480GB", "GH200"), ("NVIDIA A100-SXM4-80GB", "A100"), ("NVIDIA L40S", "L40S"), ("NVIDIA A10G", "A10")],
)  # fmt: skip
def test_a_known_card_has_its_makers_number(name: str, key: str) -> None:
    found = named(name)
    assert found is not None and found.flops == KNOWN[key] and name in found.source and "maker" in found.source


def test_an_unknown_card_is_measured() -> None:
    found = named("Fastest Card 9000")
    assert found is not None and found.flops == 5e13 and "measured on Fastest Card 9000" in found.source


def test_a_product_is_timed() -> None:
    assert 1e6 < measured(torch.device("cpu"), size=64) < 1e14


def test_the_share_is_flops_a_second_over_the_peak() -> None:
    watch = Watch(lambda _: None, Pace(tokens=100, flops=1e12, peak=Peak(1e13, "")))
    watch.begun, watch.ended, watch.first, watch.last = 5.0, 15.0, 10, 40
    assert (watch.rate, watch.share) == (300.0, 0.3)
