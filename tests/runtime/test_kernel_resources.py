"""Configurations compile and take what the table says, as far as a compiler can tell without a GPU."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

from tenfold.runtime.kernels.configs import Config
from tenfold.runtime.kernels.resources import Row, calls, resources

QUICK = {("ffn", True, 64), ("columns", True, 64), ("finish", True, 64), ("attention", True, 64)}


@pytest.fixture(autouse=True)
def _cached_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def _short(row: Row) -> bool:
    return (row.program, row.split, row.rank) in QUICK and (row.length or 128) == 128


def _check(dtype: torch.dtype, capability: int, quick: bool) -> int:
    count, own = 0, {"ffn", "attention"}
    for row, call in calls(dtype):
        if quick and not _short(row):
            continue
        found = resources(call, capability)
        assert found.shared <= (row.config.shared if row.program in own else 101_376), (row, found)
        if row.program in own and row.rank <= 64 and dtype != torch.float32:
            assert found.spilled == 0, (row, found)
        count += 1
    return count


def test_small_configurations_compile_for_hopper_and_fit() -> None:
    assert _check(torch.bfloat16, 90, quick=True) == len(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 86, 90])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_all_configurations_compile_and_fit(dtype: torch.dtype, capability: int) -> None:
    assert _check(dtype, capability, quick=False) > 10


def test_what_the_compiler_asks_for_is_read() -> None:
    """Twice the stages, more shared memory: the numbers are of the program that was asked for."""
    row, call = next((row, call) for row, call in calls(torch.bfloat16) if _short(row))
    assert row.program == "ffn" and isinstance(row.config, Config)
    one, two = (resources(replace(call, constants={**call.constants, "STAGES": stages})) for stages in (1, 3))
    assert 0 < one.shared < two.shared
    assert 16 < one.registers <= 255
