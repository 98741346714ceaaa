"""The end of a split block, for few tokens: x' and z' from partial sums, by many programs.

`columns` makes some columns of y = x + sum(partial) right + bias, their mean and spread, and what they give z'; `finish` knows
mean and spread of whole rows and puts the rest together. With m and r of whole rows, m_c of the columns c,

    z' = sum_c ((y_c - m) r gamma + beta) u_c = r sum_c (((y_c - m_c) gamma) u_c + (m_c - m) gamma u_c) + sum_c beta u_c
"""

import triton
import triton.language as tl

from tenfold.runtime.kernels.programs.tiles import across, merged, pair, spread_of, store_pair, sums, zeros


@triton.jit(do_not_specialize=["tokens", "parts"])
def columns(
    x, partial, right, bias, gamma, beta, next_u, y_out, means, spreads, z_parts, shifts, tokens, parts,
    D: tl.constexpr, Q0: tl.constexpr, Q1: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """y_out (T, D), means and spreads (C, T), z_parts (C, T, N), shifts (2, C, N): gamma u_c and beta u_c."""
    kind = x.dtype.element_ty
    cut: tl.constexpr = D % COLUMNS != 0
    number, chunks = tl.program_id(1), tl.num_programs(1)
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < tokens
    own = number * COLUMNS + tl.arange(0, COLUMNS)
    here = own < D
    first, second = zeros(ROWS, Q0, Q1)
    for part in tl.range(0, parts):
        more, rest = pair(partial, part * tokens + rows, inside, Q0 + Q1, 0, Q0, Q1)
        first += more
        if Q1 > 0:
            second += rest
    y = sums(first.to(kind), second.to(kind), x, right, bias, rows, inside, own, D, Q0, Q1, cut, HOW)
    _, mean, spread = spread_of(y, own, D, cut)
    tl.store(y_out + rows[:, None] * D + own[None, :], y, mask=inside[:, None] & here[None, :])
    at = number.to(tl.int64) * tokens + rows
    tl.store(means + at, mean, mask=inside)
    tl.store(spreads + at, spread, mask=inside)
    if N0 > 0:
        factor = tl.load(gamma + own, mask=here, other=0.0)
        z0, z1 = zeros(ROWS, N0, N1)
        z0, z1 = across(((y - mean[:, None]) * factor[None, :]).to(kind), next_u, own, z0, z1, D, N0, N1, cut, HOW)
        store_pair(z_parts + number.to(tl.int64) * tokens * (N0 + N1), z0, z1, rows, inside, N0 + N1, N0, N1)
        if tl.program_id(0) == 0:
            shift = tl.load(beta + own, mask=here, other=0.0)
            u0, u1 = pair(next_u, own, here, N0 + N1, 0, N0, N1)
            above = shifts + number * (N0 + N1)
            below = above + chunks * (N0 + N1)
            tl.store(above + tl.arange(0, N0), tl.sum(factor[:, None] * u0, axis=0))
            tl.store(below + tl.arange(0, N0), tl.sum(shift[:, None] * u0, axis=0))
            if N1 > 0:
                tl.store(above + N0 + tl.arange(0, N1), tl.sum(factor[:, None] * u1, axis=0))
                tl.store(below + N0 + tl.arange(0, N1), tl.sum(shift[:, None] * u1, axis=0))


@triton.jit(do_not_specialize=["tokens"])
def finish(
    y, means, spreads, z_parts, shifts, gamma, beta, x_out, z_out, tokens, eps,
    D: tl.constexpr, N: tl.constexpr, WIDE: tl.constexpr, CHUNKS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Columns c of x' by program c, and z' by the one after the last. WIDE: N or more, a power of two."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < tokens
    seen, mean, spread = 0.0, tl.zeros((ROWS,), dtype=tl.float32), tl.zeros((ROWS,), dtype=tl.float32)
    for c in tl.static_range(CHUNKS):
        own_mean = tl.load(means + c * tokens + rows, mask=inside, other=0.0)
        own_spread = tl.load(spreads + c * tokens + rows, mask=inside, other=0.0)
        count = 1.0 * (COLUMNS if (c + 1) * COLUMNS <= D else D - c * COLUMNS)
        seen, mean, spread = merged(seen, mean, spread, count, own_mean, own_spread)
    scale = 1.0 / tl.sqrt(spread / D + eps)
    number = tl.program_id(1)
    if number < CHUNKS:
        own = number * COLUMNS + tl.arange(0, COLUMNS)
        here = own < D
        valid = inside[:, None] & here[None, :]
        factor, shift = tl.load(gamma + own, mask=here, other=0.0), tl.load(beta + own, mask=here, other=0.0)
        value = tl.load(y + rows[:, None] * D + own[None, :], mask=valid, other=0.0)
        made = (value - mean[:, None]) * scale[:, None] * factor[None, :] + shift[None, :]
        tl.store(x_out + rows[:, None] * D + own[None, :], made.to(x_out.dtype.element_ty), mask=valid)
    elif N > 0:
        wide = tl.arange(0, WIDE)
        kept = wide < N
        within = inside[:, None] & kept[None, :]
        found = tl.zeros((ROWS, WIDE), dtype=tl.float32)
        below = tl.zeros((WIDE,), dtype=tl.float32)
        for c in tl.static_range(CHUNKS):
            gap = tl.load(means + c * tokens + rows, mask=inside, other=0.0) - mean
            below += tl.load(shifts + (CHUNKS + c) * N + wide, mask=kept, other=0.0)
            found += gap[:, None] * tl.load(shifts + c * N + wide, mask=kept, other=0.0)[None, :]
            found += tl.load(z_parts + (c * tokens + rows)[:, None] * N + wide[None, :], mask=within, other=0.0)
        found = found * scale[:, None] + below[None, :]
        tl.store(z_out + rows[:, None] * N + wide[None, :], found.to(z_out.dtype.element_ty), mask=within)
