"""What a program takes of a GPU, as its compiler says. No GPU is needed for that.

`calls` has one call for every row of the table of configurations, and for the programs that end a split block, in the shape of
BERT-base: D = 768, 12 heads of 64, F = 3072, and a rank for all of p, q and the next block's.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from tenfold.runtime.kernels import configs
from tenfold.runtime.kernels.configs import Config
from tenfold.runtime.kernels.launch import Block, Call, attention_block, ffn_block
from tenfold.runtime.kernels.packing import Packing
from tenfold.runtime.kernels.weights import AttentionConstants, FfnConstants, Reader, Writer

TYPES = {
    torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int32: "*i32",
}  # fmt: skip

WIDTH, HEADS, HEAD, HIDDEN = 768, 12, 64, 3072
RANKS = {64: (64,), 128: (96, 128), 256: (192, 256)}
"""Of each class, those with the most and the fewest pieces."""
PARTS = 12


@dataclass(frozen=True)
class Resources:
    """registers a thread, bytes of shared memory a block, bytes that each thread spills (stores)."""

    registers: int
    shared: int
    spilled: int


@dataclass(frozen=True)
class Row:
    """A configuration at work: which program (of a split block or a whole one), at which rank, for sequences how long."""

    program: str
    split: bool
    rank: int
    length: int | None
    config: Config


def calls(dtype: torch.dtype) -> Iterator[tuple[Row, Call]]:
    single = dtype == torch.float32
    for split in (False, True):
        whole = configs.FFN_SINGLE if single else configs.FFN
        for rank, config in _rows(configs.FFN_SPLIT if split and not single else whole):
            block = _feeding(dtype, rank, config, PARTS if split else 1)
            for call in block.calls:
                yield Row(call.program.__name__, split, rank, None, config), call
        whole = configs.ATTENTION_SINGLE if single else configs.ATTENTION
        for rank, config in _rows(configs.ATTENTION_SPLIT if split and not single else whole):
            length = 128 if config.step == 128 else 512
            first = _attending(dtype, rank, config, PARTS if split else 1, length).calls[0]
            yield Row(first.program.__name__, split, rank, length, config), first


def _rows(table: configs.Table) -> list[tuple[int, Config]]:
    return [(rank, config) for widest, found in table.items() for config in found for rank in RANKS[widest]]


def _feeding(dtype: torch.dtype, rank: int, config: Config, parts: int) -> Block:
    x, u, out = _meta(4096, WIDTH, dtype), _meta(WIDTH, rank, dtype), _writer(HIDDEN, rank, dtype)
    inner = Reader(_meta(rank, HIDDEN, dtype), _row(HIDDEN))
    return ffn_block(x, _meta(4096, rank, dtype), FfnConstants(u, inner, "gelu", out), u, config, parts)


def _attending(dtype: torch.dtype, rank: int, config: Config, parts: int, length: int) -> Block:
    packing, wide = Packing.of([length] * 4), HEADS * HEAD
    x, u, absorbed = _meta(packing.total, WIDTH, dtype), _meta(WIDTH, rank, dtype), rank <= HEAD
    q, other = Reader(_meta(rank, wide, dtype), _row(wide)), None if absorbed else Reader(_meta(rank, wide, dtype))
    w = AttentionConstants(u, q, other, other, _writer(wide, rank, dtype), HEADS, HEAD, 0, 0)
    return attention_block(x, _meta(packing.total, rank, dtype), w, packing, u, None, config, parts)


def _writer(height: int, rank: int, dtype: torch.dtype) -> Writer:
    return Writer(_meta(height, rank, dtype), _meta(rank, WIDTH, dtype), _row(WIDTH), _row(WIDTH), _row(WIDTH), 1e-12)


def _meta(rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    return torch.empty(rows, columns, dtype=dtype, device="meta")


def _row(width: int) -> Tensor:
    return torch.empty(width, device="meta")


def resources(call: Call, capability: int = 90) -> Resources:
    """capability: 80, 86, 89, 90. Tensors may be on the meta device: only their types count."""
    names = call.program.arg_names
    arguments = {**call.arguments, **call.constants}
    constants = {name: value for name, value in arguments.items() if name in call.constants or value is None}
    signature = {name: "constexpr" if name in constants else _type(arguments[name]) for name in names}
    aligned = {(names.index(name),): [["tt.divisibility", 16]] for name, kind in signature.items() if kind[0] == "*"}
    source = ASTSource(call.program, signature, {(names.index(name),): value for name, value in constants.items()}, aligned)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=call.options)
    registers, spilled = _assembled(made.asm["ptx"], capability)
    return Resources(registers, made.metadata.shared, spilled)


def _type(value: Any) -> str:
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def _assembled(ptx: str, capability: int) -> tuple[int, int]:
    """Registers and spilled bytes."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "program.ptx"
        source.write_text(ptx, encoding="utf-8")
        target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
        assert target
        command = [get_ptxas(capability).path, "-v", f"--gpu-name={target[1]}", str(source), "-o", f"{folder}/program.cubin"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    registers, spilled = re.search(r"Used (\d+) registers", said), re.search(r"(\d+) bytes spill stores", said)
    assert registers and spilled, said
    return int(registers[1]), int(spilled[1])
