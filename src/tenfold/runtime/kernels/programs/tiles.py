"""What the programs are made of.

A width that is a rank comes as two powers of two, the second of which may be 0 (`weights.pieces`): a matrix of that width is a
pair of tiles, and the second of a pair stands for nothing, a copy of the first, where it is 0.
Matrices lie row after row. Row numbers are 64 bits wide: tokens times width may pass 2^31. HOW: the precision of products of
float32; other types have only one.
"""

import triton
import triton.language as tl

from tenfold.runtime.kernels import gelu

GELU, GELU_TANH = tl.constexpr(gelu.GELU), tl.constexpr(gelu.GELU_TANH)


@triton.jit
def pair(matrix, rows, inside, WIDTH: tl.constexpr, START: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr):
    """Columns START : START + K0 + K1 of these rows; 0 where a row is not inside."""
    at = matrix + rows[:, None] * WIDTH + START
    first = tl.load(at + tl.arange(0, K0)[None, :], mask=inside[:, None], other=0.0)
    second = first
    if K1 > 0:
        second = tl.load(at + K0 + tl.arange(0, K1)[None, :], mask=inside[:, None], other=0.0)
    return first, second


@triton.jit
def store_pair(matrix, first, second, rows, inside, WIDTH: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr):
    kind = matrix.dtype.element_ty
    at = matrix + rows[:, None] * WIDTH
    tl.store(at + tl.arange(0, K0)[None, :], first.to(kind), mask=inside[:, None])
    if K1 > 0:
        tl.store(at + K0 + tl.arange(0, K1)[None, :], second.to(kind), mask=inside[:, None])


@triton.jit
def weights(matrix, columns, WIDTH: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr, CUT: tl.constexpr):
    """matrix[:, columns]. CUT: some columns are WIDTH or more, and give 0."""
    inside = columns[None, :] < WIDTH
    at = matrix + tl.arange(0, K0)[:, None] * WIDTH + columns[None, :]
    first = tl.load(at, mask=inside, other=0.0) if CUT else tl.load(at)
    second = first
    if K1 > 0:
        at = matrix + (K0 + tl.arange(0, K1))[:, None] * WIDTH + columns[None, :]
        second = tl.load(at, mask=inside, other=0.0) if CUT else tl.load(at)
    return first, second


@triton.jit
def both(a0, a1, b0, b1, K1: tl.constexpr, HOW: tl.constexpr):
    """(a0 | a1) times b0 over b1."""
    found = tl.dot(a0, b0, input_precision=HOW)
    if K1 > 0:
        found = tl.dot(a1, b1, found, input_precision=HOW)
    return found


@triton.jit
def down(
    first,
    second,
    matrix,
    columns,
    WIDTH: tl.constexpr,
    K0: tl.constexpr,
    K1: tl.constexpr,
    CUT: tl.constexpr,
    HOW: tl.constexpr,
):
    """(first | second) matrix[:, columns]"""
    w0, w1 = weights(matrix, columns, WIDTH, K0, K1, CUT)
    return both(first, second, w0, w1, K1, HOW)


@triton.jit
def across(
    tile,
    matrix,
    rows,
    first,
    second,
    HEIGHT: tl.constexpr,
    K0: tl.constexpr,
    K1: tl.constexpr,
    CUT: tl.constexpr,
    HOW: tl.constexpr,
):
    """first, second + tile matrix[rows]. CUT: some rows are HEIGHT or more, and count as 0."""
    at = matrix + rows[:, None] * (K0 + K1)
    inside = rows[:, None] < HEIGHT
    columns = tl.arange(0, K0)[None, :]
    weight = tl.load(at + columns, mask=inside, other=0.0) if CUT else tl.load(at + columns)
    first = tl.dot(tile, weight, first, input_precision=HOW)
    if K1 > 0:
        columns = K0 + tl.arange(0, K1)[None, :]
        weight = tl.load(at + columns, mask=inside, other=0.0) if CUT else tl.load(at + columns)
        second = tl.dot(tile, weight, second, input_precision=HOW)
    return first, second


@triton.jit
def zeros(ROWS: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr):
    first = tl.zeros((ROWS, K0), dtype=tl.float32)
    second = first
    if K1 > 0:
        second = tl.zeros((ROWS, K1), dtype=tl.float32)
    return first, second


@triton.jit
def activated(x, NAME: tl.constexpr):
    if NAME == "relu":
        return tl.maximum(x, 0.0)
    if NAME == "silu":
        return x / (1.0 + tl.exp2(-1.4426950408889634 * x))
    c: tl.constexpr = GELU if NAME == "gelu" else GELU_TANH
    size = tl.abs(x)
    tail = c[0] + size * (c[1] + size * (c[2] + size * (c[3] + size * (c[4] + size * c[5]))))
    return tl.maximum(x, 0.0) - size * tl.exp2(tail)


@triton.jit
def sums(
    first,
    second,
    x,
    right,
    bias,
    rows,
    inside,
    columns,
    D: tl.constexpr,
    K0: tl.constexpr,
    K1: tl.constexpr,
    CUT: tl.constexpr,
    HOW: tl.constexpr,
):
    """Columns of x + (first | second) right + bias; 0 beyond D."""
    y = down(first, second, right, columns, D, K0, K1, CUT, HOW)
    here = columns < D
    valid = inside[:, None] & here[None, :] if CUT else inside[:, None]
    y += tl.load(x + rows[:, None] * D + columns[None, :], mask=valid, other=0.0).to(tl.float32)
    return y + (tl.load(bias + columns, mask=here, other=0.0) if CUT else tl.load(bias + columns))[None, :]


@triton.jit
def spread_of(y, columns, D: tl.constexpr, CUT: tl.constexpr):
    """Of the columns before D of each row: how many, their mean, the sum of squares around it."""
    if CUT:
        here = (columns < D)[None, :]
        count = tl.sum(tl.where(columns < D, 1.0, 0.0), axis=0)
        mean = tl.sum(tl.where(here, y, 0.0), axis=1) / count
        away = tl.where(here, y - mean[:, None], 0.0)
    else:
        count = y.shape[1] * 1.0
        mean = tl.sum(y, axis=1) / count
        away = y - mean[:, None]
    return count, mean, tl.sum(away * away, axis=1)


@triton.jit
def merged(seen, mean, spread, count, own_mean, own_spread):
    """Count, mean and sum of squares of both."""
    total = seen + count
    gap = own_mean - mean
    return total, mean + gap * (count / total), spread + own_spread + gap * gap * (seen * count / total)


@triton.jit
def close(
    first, second, x, right, bias, gamma, beta, next_u, x_out, z_out, rows, inside, eps,
    D: tl.constexpr, Q0: tl.constexpr, Q1: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, STAGES: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """x' = LayerNorm(x + (first | second) right + bias) and z' = x' next_u. A row is made twice: it is too long to keep."""
    kind = x_out.dtype.element_ty
    cut: tl.constexpr = D % COLUMNS != 0
    first, second = first.to(kind), second.to(kind)
    seen, mean, spread = 0.0, tl.zeros((ROWS,), dtype=tl.float32), tl.zeros((ROWS,), dtype=tl.float32)
    for start in tl.range(0, D, COLUMNS, num_stages=STAGES):
        columns = start + tl.arange(0, COLUMNS)
        y = sums(first, second, x, right, bias, rows, inside, columns, D, Q0, Q1, cut, HOW)
        count, own_mean, own_spread = spread_of(y, columns, D, cut)
        seen, mean, spread = merged(seen, mean, spread, count, own_mean, own_spread)
    scale = 1.0 / tl.sqrt(spread / D + eps)
    z0, z1 = zeros(ROWS, N0 if N0 > 0 else 16, N1)
    for start in tl.range(0, D, COLUMNS, num_stages=STAGES):
        columns = start + tl.arange(0, COLUMNS)
        here = columns < D
        y = sums(first, second, x, right, bias, rows, inside, columns, D, Q0, Q1, cut, HOW)
        factor = tl.load(gamma + columns, mask=here, other=0.0) if cut else tl.load(gamma + columns)
        shift = tl.load(beta + columns, mask=here, other=0.0) if cut else tl.load(beta + columns)
        made = ((y - mean[:, None]) * scale[:, None] * factor[None, :] + shift[None, :]).to(kind)
        valid = inside[:, None] & here[None, :] if cut else inside[:, None]
        tl.store(x_out + rows[:, None] * D + columns[None, :], made, mask=valid)
        if N0 > 0:
            z0, z1 = across(made, next_u, columns, z0, z1, D, N0, N1, cut, HOW)
    if N0 > 0:
        store_pair(z_out, z0, z1, rows, inside, N0 + N1, N0, N1)
