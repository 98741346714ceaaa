"""What a form would lose of n tiles, found without fitting it: from spectra that all ranks share.

In weight space sum_g |W_g - W^_g|^2; under moments sum_g |S_g^(1/2) (W_g - W^_g)|^2, what the outputs lose.

- II: the tails of the tiles' spectra, exactly what its fit loses.
- III, IV in weight space: HOSVD's corners, exactly what `--init hosvd` loses.
- III under moments: U from the mean moment, then the best V and cores; IV: a bank for the mean Gram, then the best P.
- the sum of a shared form and II: II first, the shared form of what is left.

The last two bound what `--init activation` and the mixed form lose once their rounds are done (measured, not proved).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from tenfold.algebra import weighted
from tenfold.algebra.linear import top_eigenvectors
from tenfold.algebra.low_rank import truncate
from tenfold.algebra.moments import Moments, identity_moments
from tenfold.analysis.blocks import Remainder, Stack
from tenfold.analysis.modes import corners, modes
from tenfold.forms import Form, LowRank, Mixed, TensorTrain, Tucker


def lost(
    stack: Stack,
    spectra: Sequence[Tensor],
    forms: Sequence[Form],
    moments: Moments | None = None,
    rounds: int | None = None,
) -> dict[Form, float]:
    """The energy that each form loses; `spectra` are those of the tiles, in weight space or under the same moments.

    rounds: fit every shared form with so many rounds instead, as compress does. Takes minutes on a large model.
    """
    wanted = list(dict.fromkeys(forms))
    found: dict[Form, float] = {f: sum(float(s[f.d :].sum()) for s in spectra) for f in wanted if isinstance(f, LowRank)}
    if rounds is None:
        total = sum(float(s.sum()) for s in spectra)
        found |= _shared(stack, [f for f in wanted if isinstance(f, TensorTrain | Tucker)], moments, total)
        sums = [f for f in wanted if isinstance(f, Mixed) and isinstance(f.shared, TensorTrain | Tucker)]
        found |= _sums(stack, spectra, sums, moments)
    for form in wanted:
        if form not in found:
            found[form] = _fitted(stack, form, moments, rounds or 0)
    return {form: max(found[form], 0.0) for form in wanted}


def _sums(stack: Stack, spectra: Sequence[Tensor], forms: Sequence[Mixed], moments: Moments | None) -> dict[Form, float]:
    pairs = _private(stack, max((f.private.d for f in forms), default=0), moments)
    found: dict[Form, float] = {}
    for form in forms:
        d = form.private.d
        rest = Remainder(stack, [a[:, :d] for a, _ in pairs], [b[:d] for _, b in pairs])
        left = sum(float(s[d:].sum()) for s in spectra)
        found[form] = _shared(rest, [form.shared], moments, left)[form.shared]
    return found


def _private(stack: Stack, d: int, moments: Moments | None) -> list[tuple[Tensor, Tensor]]:
    """A_g (i, d), B_g (d, o) of every tile: the first columns and rows are the best ones of every smaller rank."""
    return [truncate(stack[g], d, None if moments is None else moments[g]) for g in range(stack.n if d else 0)]


def _shared(stack: Stack, forms: Sequence[Form], moments: Moments | None, total: float) -> dict[Form, float]:
    if not forms:
        return {}
    keep = _kept_in_weights(stack, forms) if moments is None else _kept_in_outputs(stack, forms, moments)
    return {form: total - keep[form] for form in forms}


def _kept_in_weights(stack: Stack, forms: Sequence[Form]) -> Mapping[Form, float]:
    banks = [(f.p, f.q) for f in forms if isinstance(f, Tucker)]
    sums, grams = corners(stack, modes(stack), banks)
    keep: dict[Form, float] = {}
    for form in forms:
        if isinstance(form, Tucker):
            keep[form] = float(torch.linalg.eigvalsh(grams[form.p, form.q])[-form.l :].sum())
        elif isinstance(form, TensorTrain):
            keep[form] = float(sums[form.p, form.q])
    return keep


def _kept_in_outputs(stack: Stack, forms: Sequence[Form], moments: Moments) -> Mapping[Form, float]:
    ranks = {(f.p, f.q) for f in forms if isinstance(f, TensorTrain | Tucker)}
    u = weighted.start(stack, moments, max(p for p, _ in ranks))
    keep: dict[Form, float] = {}
    for p, q in sorted(ranks):
        grams, r = weighted.projected(stack, moments, u[:, :p])
        v, core = weighted.free_cores(grams, r, moments.of, q)
        targets = torch.stack([x @ v.T for x in r])
        for form in forms:
            if form == TensorTrain(p, q):
                keep[form] = float((core * targets).sum(dtype=torch.float64))
            elif isinstance(form, Tucker) and (form.p, form.q) == (p, q):
                keep[form] = _kept_by_bank(grams, targets, moments, core, form.l)
    return keep


def _kept_by_bank(grams: list[Tensor], targets: Tensor, moments: Moments, core: Tensor, size: int) -> float:
    """Under the best mixes of the bank that would fit best if a tile's moment were the mean one times a number."""
    mean = torch.stack([grams[s] for s in moments.of]).mean(0)
    own, common = (core * targets).sum((1, 2)), (core * (mean @ core)).sum((1, 2))
    scaled = core * (own / common.clamp_min(torch.finfo(core.dtype).tiny)).clamp_min(0).sqrt()[:, None, None]
    mix = top_eigenvectors(scaled.flatten(1) @ (mean @ scaled).flatten(1).T, size)
    bank = torch.einsum("gk,gab->kab", mix, scaled)
    mix = weighted.solve_mix(grams, targets, moments.of, bank)
    return float((torch.einsum("gk,kab->gab", mix, bank) * targets).sum(dtype=torch.float64))


def _fitted(stack: Stack, form: Form, moments: Moments | None, rounds: int) -> float:
    factors = form.decompose(stack, moments, rounds)
    weights = moments or identity_moments(stack.n, stack.shape[0], stack[0])
    total = 0.0
    for g in range(stack.n):
        error = stack[g] - form.matrix(factors, g)
        total += float((error * (weights[g] @ error)).sum(dtype=torch.float64))
    return total
