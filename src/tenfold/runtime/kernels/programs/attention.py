"""The attention block: one program a block of queries, for all heads or, split, for some."""

import triton
import triton.language as tl

from tenfold.runtime.kernels.programs.tiles import across, both, close, down, pair, store_pair, weights, zeros


@triton.jit
def scored(
    query, key, scores, head, rows, keys, inside, low, high, own_low, own_high, over_heads, over_rows, over_keys,
    BIAS: tl.constexpr, MIXED: tl.constexpr, EVEN: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """query key', plus the bias, and far below all others where a query does not see a key; powers of two."""
    s = tl.dot(query, tl.trans(key), input_precision=HOW)
    seen = (keys < high)[None, :]
    if MIXED:
        seen = (keys[None, :] >= own_low[:, None]) & (keys[None, :] < own_high[:, None])
    if BIAS:
        begin = own_low if MIXED else low
        place = (rows - begin).to(tl.int64)
        at = scores + head.to(tl.int64) * over_heads + place[:, None] * over_rows
        if MIXED:
            at += (keys[None, :] - begin[:, None]).to(tl.int64) * over_keys
        else:
            at += ((keys - begin).to(tl.int64) * over_keys)[None, :]
        s += 1.4426950408889634 * tl.load(at, mask=seen & inside[:, None], other=0.0).to(tl.float32)
    if not EVEN:
        s = tl.where(seen, s, -1.0e30)
    return s


@triton.jit
def keys_and_values(
    z, keys, known, WIDTH: tl.constexpr,
    K_START: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr, V_START: tl.constexpr, V0: tl.constexpr, V1: tl.constexpr,
):  # fmt: skip
    """The columns of z that keys and values are made of; read once where they are the same."""
    k0, k1 = pair(z, keys, known, WIDTH, K_START, K0, K1)
    v0, v1 = k0, k1
    if V_START != K_START:
        v0, v1 = pair(z, keys, known, WIDTH, V_START, V0, V1)
    return k0, k1, v0, v1


@triton.jit(do_not_specialize=["tokens"])
def attention(
    x, z, q, q_bias, k, v, left, right, bias, gamma, beta, next_u, x_out, z_out, partial, table, starts, ends, scores,
    tokens, over_heads, over_rows, over_keys, eps,
    D: tl.constexpr, HEADS: tl.constexpr, SPAN: tl.constexpr, HEAD: tl.constexpr, WIDTH: tl.constexpr,
    Q_START: tl.constexpr, P0: tl.constexpr, P1: tl.constexpr,
    K_START: tl.constexpr, K0: tl.constexpr, K1: tl.constexpr, V_START: tl.constexpr, V0: tl.constexpr, V1: tl.constexpr,
    Q0: tl.constexpr, Q1: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr,
    ABSORBED: tl.constexpr, SINGLE: tl.constexpr, MIXED: tl.constexpr, EVEN: tl.constexpr, BIAS: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, COLUMNS: tl.constexpr,
    STAGES: tl.constexpr, CLOSING: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """SPAN of the HEADS heads; where that is not all of them, what they add to c left goes to partial (HEADS / SPAN, T, q)."""
    block = table + 4 * tl.program_id(0)
    begin, end, low, high = tl.load(block), tl.load(block + 1), tl.load(block + 2), tl.load(block + 3)
    if begin >= end:
        return
    kind = x_out.dtype.element_ty
    places = begin + tl.arange(0, ROWS)
    inside = places < end
    rows = places.to(tl.int64)
    own_low, own_high = low, high
    if MIXED:
        own_low, own_high = tl.load(starts + rows, mask=inside, other=0), tl.load(ends + rows, mask=inside, other=0)
    q0, q1 = pair(z, rows, inside, WIDTH, Q_START, P0, P1)
    keys = low + tl.arange(0, KEYS)
    if SINGLE:
        k0, k1, v0, v1 = keys_and_values(z, keys.to(tl.int64), keys < high, WIDTH, K_START, K0, K1, V_START, V0, V1)
    first, second = zeros(ROWS, Q0, Q1)
    for number in tl.range(0, SPAN, num_stages=STAGES):
        head = tl.program_id(1) * SPAN + number
        columns = head * HEAD + tl.arange(0, HEAD)
        query = (down(q0, q1, q, columns, HEADS * HEAD, P0, P1, False, HOW) + tl.load(q_bias + columns)[None, :]).to(kind)
        if SINGLE:
            key, value = k0, v0
            if not ABSORBED:
                key = down(k0, k1, k, columns, HEADS * HEAD, K0, K1, False, HOW).to(kind)
                value = down(v0, v1, v, columns, HEADS * HEAD, V0, V1, False, HOW).to(kind)
            s = scored(
                query, key, scores, head, places, keys, inside, low, high, own_low, own_high,
                over_heads, over_rows, over_keys, BIAS, MIXED, EVEN, HOW,
            )  # fmt: skip
            p = tl.exp2(s - tl.max(s, axis=1)[:, None])
            total = tl.sum(p, axis=1)
            context = tl.dot(p.to(kind), value, input_precision=HOW)
        else:
            if not ABSORBED:
                wk0, wk1 = weights(k, columns, HEADS * HEAD, K0, K1, False)
                wv0, wv1 = weights(v, columns, HEADS * HEAD, V0, V1, False)
            most = tl.full((ROWS,), -1.0e30, dtype=tl.float32)
            total = tl.zeros((ROWS,), dtype=tl.float32)
            context = tl.zeros((ROWS, HEAD), dtype=tl.float32)
            for start in tl.range(low, high, KEYS):
                keys = start + tl.arange(0, KEYS)
                k0, k1, v0, v1 = keys_and_values(z, keys.to(tl.int64), keys < high, WIDTH, K_START, K0, K1, V_START, V0, V1)
                key, value = k0, v0
                if not ABSORBED:
                    key = both(k0, k1, wk0, wk1, K1, HOW).to(kind)
                    value = both(v0, v1, wv0, wv1, V1, HOW).to(kind)
                s = scored(
                    query, key, scores, head, places, keys, inside, low, high, own_low, own_high,
                    over_heads, over_rows, over_keys, BIAS, MIXED, EVEN, HOW,
                )  # fmt: skip
                higher = tl.maximum(most, tl.max(s, axis=1))
                p = tl.exp2(s - higher[:, None])
                fade = tl.exp2(most - higher)
                total = total * fade + tl.sum(p, axis=1)
                context = tl.dot(p.to(kind), value, context * fade[:, None], input_precision=HOW)
                most = higher
        context = (context / total[:, None]).to(kind)
        first, second = across(context, left, columns, first, second, HEADS * HEAD, Q0, Q1, False, HOW)
    if SPAN < HEADS:
        own = partial + tl.program_id(1).to(tl.int64) * tokens * (Q0 + Q1)
        store_pair(own, first, second, rows, inside, Q0 + Q1, Q0, Q1)
    else:
        close(
            first, second, x, right, bias, gamma, beta, next_u, x_out, z_out, rows, inside, eps,
            D, Q0, Q1, N0, N1, ROWS, COLUMNS, CLOSING, HOW,
        )  # fmt: skip
