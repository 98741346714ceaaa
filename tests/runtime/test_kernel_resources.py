"""Configurations compile and take what the table says, as far as a compiler can tell without a GPU."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from fused_draws import ATTENDING, FEEDING, attention_weights, ffn_weights
from torch import Tensor

pytest.importorskip("triton")

from tenfold.runtime.kernels import launch
from tenfold.runtime.kernels.configs import Config
from tenfold.runtime.kernels.launch import Call
from tenfold.runtime.kernels.resources import Row, calls, resources

Case = TypeVar("Case")

QUICK = {("ffn", True, 64), ("columns", True, 64), ("finish", True, 64), ("attention", True, 64)}


@pytest.fixture(autouse=True)
def _cached_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def _meta(tensor: Tensor) -> Tensor:
    return tensor.to("meta")


def _tokens(rows: int, width: int) -> Tensor:
    return torch.empty(rows, width, dtype=torch.float16, device="meta")


def _some(cases: list[Case], number: int | slice) -> list[Case]:
    return cases[number] if isinstance(number, slice) else [cases[number]]


def _short(row: Row) -> bool:
    return (row.program, row.split, row.rank) in QUICK and (row.length or 128) == 128


def _check(dtype: torch.dtype, capability: int, quick: bool) -> int:
    count, own = 0, {"ffn", "attention"}
    for row, call in calls(dtype):
        if quick and not _short(row):
            continue
        found = resources(call, capability)
        assert found.shared <= (row.config.shared if row.program in own else 101_376), (row, found)
        if (
            row.program in own
            and row.rank <= 64
            and row.config.registers is None
            and (dtype, capability) == (torch.bfloat16, 90)
        ):
            assert found.spilled == 0, (row, found)
        count += 1
    return count


def test_small_configurations_compile_for_hopper_and_fit() -> None:
    assert _check(torch.bfloat16, 90, quick=True) == len(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "capability"), [(torch.bfloat16, 90), (torch.bfloat16, 80), (torch.float32, 90)])
def test_all_configurations_compile_and_fit(dtype: torch.dtype, capability: int) -> None:
    assert _check(dtype, capability, quick=False) > 10


@pytest.mark.parametrize("number", [3, pytest.param(slice(None), marks=pytest.mark.slow)], ids=["one", "all"])
def test_every_variant_of_the_programs_compiles(number: int | slice) -> None:
    """The interpreter lets pass what the compiler does not: branches that name tiles of two shapes alike."""
    config = Config(rows=16, step=32, columns=32, warps=4, stages=2, closing=2, shared=0)
    found: list[Call] = []
    for case in _some(FEEDING, number):
        f = ffn_weights(case.shape, case.activation).constants(torch.float16).map(_meta)
        x, u = _tokens(case.tokens, case.shape.width), _tokens(case.shape.width, case.next_width)
        found += launch.ffn_block(x, x @ f.u, f, u if case.next_width else None, config, case.parts).calls
    for other in _some(ATTENDING, number):
        a, packing = attention_weights(other.shape).constants(torch.float16, other.absorb).map(_meta), other.packing
        x, u = _tokens(packing.total, other.shape.width), _tokens(other.shape.width, other.next_width)
        longest = packing.longest
        bias = torch.empty(other.shape.heads, longest, longest, device="meta") if other.bias else None
        own = replace(config, step=other.keys)
        found += launch.attention_block(x, x @ a.u, a, packing, u if other.next_width else None, bias, own, other.parts).calls
    for call in found:
        assert resources(call, 90).registers > 16


def test_what_the_compiler_asks_for_is_read() -> None:
    """Twice the stages, more shared memory: the numbers are of the program that was asked for."""
    row, call = next((row, call) for row, call in calls(torch.bfloat16) if _short(row))
    assert row.program == "ffn" and isinstance(row.config, Config)
    one, two = (resources(replace(call, constants={**call.constants, "STAGES": stages})) for stages in (1, 3))
    assert 0 < one.shared < two.shared
    assert 16 < one.registers <= 255
