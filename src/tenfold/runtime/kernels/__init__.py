"""Two blocks of a post-LayerNorm encoder as one kernel each: attention, and the two products of the feed-forward part.

Everything is a pure function of tensors. Letters: T tokens of all sequences one after another (no padding), D the width of the
residual stream, p and q ranks, H heads of size e, F the hidden width of the feed-forward part.

    x', z' = attention_block(x, z, constants, packing, next_u, bias)
        q, k, v = columns of z times their matrices;  c = softmax(scale q k' + bias) v  within each sequence
        x' = LayerNorm(x + c left right + b),  z' = x' next_u
    x', z' = ffn_block(x, z, constants, next_u)
        h = activation(z inner + b)
        x' = LayerNorm(x + h left right + b),  z' = x' next_u

    x (T, D)        the residual stream, contiguous
    z (T, p)        x times the block's own `constants.u`; None: the block makes it
    next_u          the `constants.u` of the block that comes next: this one writes its z' on the way out; None: z' is None
    bias (H, n, n)  added to the scores, by the positions of query and key in their sequence; n at least the longest length

How to come by them:

    weights = AttentionWeights(...) or FfnWeights(...)   the folded factors, exact, in any floating precision
    reason = applies(weights, dtype, device)             one line that says why there is no kernel for them, or None
    constants = weights.constants(dtype)                 rounded once, ranks and heads padded, small ranks absorbed
    packing = Packing.of(lengths, device)                lengths are known to the host
    packing = Packing.fixed(bounds, longest)             they are not: cumulative lengths (B + 1) on the device, T = B longest

`constants.map(fn)` gives the same with fn(tensor) for every tensor, to move them. Constants are padded, so z is as wide as
`constants.u`, not as the rank. Anywhere but on a CUDA device the same functions compute with plain torch: `reference.py`,
which also says in the fewest lines what they compute. Sequences in a packing do not see each other; rows that `fixed` leaves
over after the last sequence hold nothing of use.

Triton is imported when a block first runs on a GPU, and needed only there. `with tuning():` around a first call times the
cuts that a program can take and keeps the fastest; without, the table's best guess is taken (configs.py).
"""

from tenfold.runtime.kernels.blocks import applies, attention_block, ffn_block
from tenfold.runtime.kernels.packing import Packing
from tenfold.runtime.kernels.tuning import tuning
from tenfold.runtime.kernels.weights import (
    ACTIVATIONS,
    AttentionConstants,
    AttentionWeights,
    FfnConstants,
    FfnWeights,
    Reader,
    Writer,
)

__all__ = [
    "ACTIVATIONS",
    "AttentionConstants",
    "AttentionWeights",
    "FfnConstants",
    "FfnWeights",
    "Packing",
    "Reader",
    "Writer",
    "applies",
    "attention_block",
    "ffn_block",
    "tuning",
]
