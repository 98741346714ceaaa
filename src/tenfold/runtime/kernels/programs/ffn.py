"""The feed-forward block: one program a block of rows, for the whole hidden width or, split, for a range of it."""

import triton
import triton.language as tl

from tenfold.runtime.kernels.programs.tiles import across, activated, close, down, pair, store_pair, zeros


@triton.jit(do_not_specialize=["tokens"])
def ffn(
    x, z, inner, inner_bias, left, right, bias, gamma, beta, next_u, x_out, z_out, partial, tokens, eps,
    D: tl.constexpr, F: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr, START: tl.constexpr,
    P0: tl.constexpr, P1: tl.constexpr, Q0: tl.constexpr, Q1: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr,
    ACT: tl.constexpr, ROWS: tl.constexpr, HIDDEN: tl.constexpr, COLUMNS: tl.constexpr,
    STAGES: tl.constexpr, CLOSING: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """SPAN of the F hidden columns; where that is not all of them, what they add to h left goes to partial (F / SPAN, T, q)."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = rows < tokens
    z0, z1 = pair(z, rows, inside, WIDTH, START, P0, P1)
    first, second = zeros(ROWS, Q0, Q1)
    low = tl.program_id(1) * SPAN
    for start in tl.range(0, SPAN, HIDDEN, num_stages=STAGES):
        hidden = low + start + tl.arange(0, HIDDEN)
        h = down(z0, z1, inner, hidden, F, P0, P1, False, HOW) + tl.load(inner_bias + hidden)[None, :]
        h = activated(h, ACT).to(x_out.dtype.element_ty)
        first, second = across(h, left, hidden, first, second, F, Q0, Q1, False, HOW)
    if SPAN < F:
        own = partial + tl.program_id(1).to(tl.int64) * tokens * (Q0 + Q1)
        store_pair(own, first, second, rows, inside, Q0 + Q1, Q0, Q1)
    else:
        close(
            first, second, x, right, bias, gamma, beta, next_u, x_out, z_out, rows, inside, eps,
            D, Q0, Q1, N0, N1, ROWS, COLUMNS, CLOSING, HOW,
        )  # fmt: skip
