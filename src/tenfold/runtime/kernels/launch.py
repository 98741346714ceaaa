"""Calls of the programs: which one, with what, on how many blocks. Nothing here asks where the tensors lie."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tenfold.runtime.kernels.configs import Config
from tenfold.runtime.kernels.packing import Packing
from tenfold.runtime.kernels.programs.attention import attention
from tenfold.runtime.kernels.programs.ffn import ffn
from tenfold.runtime.kernels.programs.split import columns, finish
from tenfold.runtime.kernels.weights import AttentionConstants, FfnConstants, Writer, pieces

FINISH_ROWS = 4


@dataclass(frozen=True, eq=False)
class Call:
    """One launch: program[grid](**arguments, **constants)."""

    program: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]
    constants: dict[str, Any]
    options: dict[str, Any]

    def __call__(self) -> None:
        self.program[self.grid](**self.arguments, **self.constants, **self.options)


@dataclass(frozen=True, eq=False)
class Block:
    """The calls that make x' and z', in order."""

    x: Tensor
    z: Tensor | None
    calls: tuple[Call, ...]

    def __call__(self) -> tuple[Tensor, Tensor | None]:
        for call in self.calls:
            call()
        return self.x, self.z


def ffn_block(x: Tensor, z: Tensor, w: FfnConstants, next_u: Tensor | None, config: Config, parts: int = 1) -> Block:
    """parts: into how many ranges the hidden width is cut; it divides F / config.step."""
    tokens, hidden = len(x), w.out.left.shape[0]
    assert hidden % (parts * config.step) == 0
    ends = _Ends.of(x, w.out, next_u, parts)
    arguments = {
        "x": x, "z": z, "inner": w.inner.weight, "inner_bias": w.inner.bias, "left": w.out.left,
        **ends.arguments(), "tokens": tokens, "eps": w.out.eps,
    }  # fmt: skip
    constants = {
        "F": hidden, "SPAN": hidden // parts, "WIDTH": z.shape[1], "START": w.inner.start, **_two("P", w.inner.width),
        **ends.constants(), "ACT": w.activation, "ROWS": config.rows, "HIDDEN": config.step, "COLUMNS": config.columns,
        "STAGES": config.stages, "CLOSING": config.closing,
    }  # fmt: skip
    first = Call(ffn, (math.ceil(tokens / config.rows), parts), arguments, constants, _options(config))
    return ends.block(first, config)


def attention_block(
    x: Tensor,
    z: Tensor,
    w: AttentionConstants,
    packing: Packing,
    next_u: Tensor | None,
    bias: Tensor | None,
    config: Config,
    parts: int = 1,
) -> Block:
    """parts: into how many groups the heads are cut; it divides their number."""
    assert w.heads % parts == 0
    ends, blocks = _Ends.of(x, w.out, next_u, parts), packing.blocks(config.rows, config.step)
    k, v = (w.head if reader is None else reader.width for reader in (w.k, w.v))
    over = (0, 0, 0) if bias is None else bias.stride()
    arguments = {
        "x": x, "z": z, "q": w.q.weight, "q_bias": w.q.bias, "k": w.k and w.k.weight, "v": w.v and w.v.weight,
        "left": w.out.left, **ends.arguments(), "table": blocks.table, "starts": packing.starts, "ends": packing.ends,
        "scores": bias,
        "tokens": len(x), "over_heads": over[0], "over_rows": over[1], "over_keys": over[2], "eps": w.out.eps,
    }  # fmt: skip
    constants = {
        "HEADS": w.heads, "SPAN": w.heads // parts, "HEAD": w.head, "WIDTH": z.shape[1], "Q_START": w.q.start,
        **_two("P", w.q.width), "K_START": w.k_start, **_two("K", k), "V_START": w.v_start, **_two("V", v),
        **ends.constants(), "ABSORBED": w.absorbed, "SINGLE": blocks.single, "MIXED": blocks.mixed, "EVEN": blocks.even,
        "BIAS": bias is not None, "ROWS": config.rows, "KEYS": config.step, "COLUMNS": config.columns,
        "STAGES": config.stages, "CLOSING": config.closing,
    }  # fmt: skip
    first = Call(attention, (len(blocks.table), parts), arguments, constants, _options(config))
    return ends.block(first, config)


@dataclass(frozen=True, eq=False)
class _Ends:
    """How a block ends: what its last product and LayerNorm read, what they write."""

    x: Tensor
    out: Writer
    next_u: Tensor | None
    partial: Tensor | None
    x_out: Tensor
    z_out: Tensor | None

    @classmethod
    def of(cls, x: Tensor, out: Writer, next_u: Tensor | None, parts: int) -> "_Ends":
        assert x.is_contiguous(), "rows lie one after another"
        partial = _scratch(x, parts, len(x), out.left.shape[1]) if parts > 1 else None
        z_out = None if next_u is None else x.new_empty(len(x), next_u.shape[1])
        return cls(x, out, next_u, partial, torch.empty_like(x), z_out)

    def arguments(self) -> dict[str, Any]:
        out = self.out
        return {
            "right": out.right, "bias": out.bias, "gamma": out.gamma, "beta": out.beta, "next_u": self.next_u,
            "x_out": self.x_out, "z_out": self.z_out, "partial": self.partial,
        }  # fmt: skip

    def constants(self) -> dict[str, Any]:
        width = 0 if self.next_u is None else self.next_u.shape[1]
        how = "tf32x3" if self.x.dtype == torch.float32 else "tf32"
        return {"D": self.x.shape[1], **_two("Q", self.out.left.shape[1]), **_two("N", width), "HOW": how}

    def block(self, first: Call, config: Config) -> Block:
        return Block(self.x_out, self.z_out, (first, *self._rest(config)))

    def _rest(self, config: Config) -> Iterator[Call]:
        """What is left after the first call: nothing, or the end of a split block."""
        if self.partial is None:
            return
        tokens, width = self.x.shape
        chunks, read = math.ceil(width / config.columns), self.arguments()
        n = 0 if self.next_u is None else self.next_u.shape[1]
        y, means, spreads = _scratch(self.x, tokens, width), *_scratch(self.x, 2, chunks, tokens)
        z_parts, shifts = _scratch(self.x, chunks, tokens, n), _scratch(self.x, 2, chunks, n)
        made = {"means": means, "spreads": spreads, "z_parts": z_parts, "shifts": shifts, "tokens": tokens}
        rows = min(config.rows, 16)
        yield Call(
            columns,
            (math.ceil(tokens / rows), chunks),
            {
                "x": self.x, **{name: read[name] for name in ("partial", "right", "bias", "gamma", "beta", "next_u")},
                "y_out": y, **made, "parts": len(self.partial),
            },
            {**self.constants(), "ROWS": rows, "COLUMNS": config.columns},
            {"num_warps": 4, "num_stages": config.stages},
        )  # fmt: skip
        yield Call(
            finish,
            (math.ceil(tokens / FINISH_ROWS), chunks + (n > 0)),
            {
                "y": y, **made, **{name: read[name] for name in ("gamma", "beta", "x_out", "z_out")}, "eps": self.out.eps,
            },
            {
                "D": width, "N": n, "WIDE": 1 << max(n - 1, 0).bit_length(), "CHUNKS": chunks,
                "ROWS": FINISH_ROWS, "COLUMNS": config.columns,
            },
            {"num_warps": 4, "num_stages": 1},
        )  # fmt: skip


def _two(name: str, width: int) -> dict[str, int]:
    found = (0, 0) if width == 0 else pieces(width)
    assert found is not None, "constants are padded to two pieces"
    return {f"{name}0": found[0], f"{name}1": found[1]}


def _options(config: Config) -> dict[str, Any]:
    found = {"num_warps": config.warps, "num_stages": config.stages}
    return found if config.registers is None else {**found, "maxnreg": config.registers}


def _scratch(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape, dtype=torch.float32)
