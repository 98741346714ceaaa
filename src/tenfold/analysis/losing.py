"""What a form would lose of n tiles, found without fitting it: from spectra that all ranks share.

In weight space sum_g |W_g - W^_g|^2; under moments sum_g |S_g^(1/2) (W_g - W^_g)|^2, what the outputs lose.

- II: the tails of the tiles' spectra, exactly what its fit loses.
- III, IV in weight space: HOSVD's corners, exactly what `--init hosvd` loses.
- III under moments: U from the mean moment, then the best V and cores; IV: a bank for the mean Gram, then the best P.
- the sum of a shared form and II: II first, the shared form of what is left.

The last two bound what `--init activation` and the mixed form lose once their rounds are done (measured, not proved).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from tenfold.algebra import weighted
from tenfold.algebra.linear import solve_positive, top_eigenvectors
from tenfold.algebra.low_rank import truncate
from tenfold.algebra.moments import Moments, identity_moments
from tenfold.analysis.blocks import Remainder, Stack
from tenfold.analysis.modes import corners, modes
from tenfold.forms import Form, LowRank, Mixed, TensorTrain, Tucker

STEPS = 5
"""Conjugate gradients towards the best mixes of a bank."""


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
    shared = [form for form in forms if isinstance(form, TensorTrain | Tucker)]
    banks = [(form.p, form.q) for form in shared if isinstance(form, Tucker)]
    largest = max(form.p for form in shared), max(form.q for form in shared)
    sums, grams = corners(stack, modes(stack), banks, largest)
    keep: dict[Form, float] = {}
    for form in forms:
        if isinstance(form, Tucker):
            keep[form] = float(torch.linalg.eigvalsh(grams[form.p, form.q])[-form.l :].sum())
        elif isinstance(form, TensorTrain):
            keep[form] = float(sums[form.p, form.q])
    return keep


def _kept_in_outputs(stack: Stack, forms: Sequence[Form], moments: Moments) -> Mapping[Form, float]:
    """All ranks from one factor: with G_s = L_s L_s', the first p rows of L_s^-1 R_g are those of the ranks p alone.

    Y_g = L_s^-1 R_g; free cores of ranks (p, q) keep the q largest eigenvalues of sum_g Y_g[:p]' Y_g[:p].
    """
    tall = sorted({form.p for form in forms if isinstance(form, TensorTrain | Tucker)})
    grams, r = weighted.projected(stack, moments, weighted.start(stack, moments, tall[-1]))
    lower = [_cholesky(gram) for gram in grams]
    y = [
        torch.linalg.solve_triangular(lower[s], x.double(), upper=False).to(x.dtype) for x, s in zip(r, moments.of, strict=True)
    ]
    keep: dict[Form, float] = {}
    gram = torch.zeros_like(y[0][:1].T @ y[0][:1])
    for below, p in pairwise((0, *tall)):
        for rows in y:
            gram += rows[below:p].T @ rows[below:p]
        values, vectors = torch.linalg.eigh(gram.double())
        for form in forms:
            if isinstance(form, TensorTrain) and form.p == p:
                keep[form] = float(values[-form.q :].sum())
            elif isinstance(form, Tucker) and form.p == p:
                v = vectors[:, -form.q :].to(gram.dtype)
                keep[form] = _kept_by_bank([g[:p, :p] for g in grams], *_cores(lower, r, y, moments, p, v), moments, form.l)
    return keep


def _cholesky(gram: Tensor) -> Tensor:
    """L (p, p), float64, lower; what a tile that no input reached is worth does not matter."""
    m = gram.double()
    level = m.diagonal().mean().clamp_min(1e-30)
    return torch.linalg.cholesky(m + 1e-12 * level * torch.eye(len(m), dtype=m.dtype, device=m.device))


def _cores(
    lower: Sequence[Tensor], r: Sequence[Tensor], y: Sequence[Tensor], moments: Moments, p: int, v: Tensor
) -> tuple[Tensor, Tensor]:
    """The free cores G^-1 R V' and what they aim at, R V', both (n, p, q); v (o, q) has orthonormal columns."""
    solved = [
        torch.linalg.solve_triangular(lower[s][:p, :p].T, (x[:p] @ v).double(), upper=True).to(v.dtype)
        for x, s in zip(y, moments.of, strict=True)
    ]
    return torch.stack(solved), torch.stack([x[:p] @ v for x in r])


def _kept_by_bank(grams: list[Tensor], core: Tensor, targets: Tensor, moments: Moments, size: int) -> float:
    """By good mixes of the bank that would fit best if a tile's moment were the mean one times a number."""
    mean = torch.stack([grams[s] for s in moments.of]).mean(0)
    weighted_core = mean @ core
    own, common = (core * targets).sum((1, 2)), (core * weighted_core).sum((1, 2))
    scales = (own / common.clamp_min(torch.finfo(core.dtype).tiny)).clamp_min(0).sqrt()
    gram = torch.outer(scales, scales) * (core.flatten(1) @ weighted_core.flatten(1).T)
    mix = top_eigenvectors(gram, size)
    scaled = core * scales[:, None, None]
    return _kept_by_mixes(grams, targets, moments.of, torch.einsum("gk,gab->kab", mix, scaled), mean)


def _kept_by_mixes(grams: Sequence[Tensor], targets: Tensor, of: Sequence[int], bank: Tensor, mean: Tensor) -> float:
    """max over P of sum_g 2 <P_g C, R_g V'> - <P_g C, G_g P_g C>, nearly: a few conjugate gradients for each tile.

    Preconditioned with the mean moment; every step adds what it keeps, so stopping early keeps less, never too much.
    """
    flat = bank.flatten(1)
    normal = (mean @ bank).flatten(1) @ flat.T
    rest = (targets.flatten(1) @ flat.T).double()
    kept, way, before = rest.new_zeros(len(rest)), torch.zeros_like(rest), rest.new_ones(len(rest))
    for _ in range(STEPS):
        ahead = solve_positive(normal, rest.T).T
        now = (rest * ahead).sum(1)
        way = ahead + (now / before)[:, None] * way
        moved = torch.einsum("gk,kab->gab", way.to(bank.dtype), bank)
        pull = torch.stack([grams[s] @ moved[g] for g, s in enumerate(of)]).flatten(1) @ flat.T
        step = now / (way * pull.double()).sum(1).clamp_min(torch.finfo(now.dtype).tiny)
        kept += step * now
        rest = rest - step[:, None] * pull.double()
        before = now.clamp_min(torch.finfo(now.dtype).tiny)
    return float(kept.sum())


def _fitted(stack: Stack, form: Form, moments: Moments | None, rounds: int) -> float:
    factors = form.decompose(stack, moments, rounds)
    weights = moments or identity_moments(stack.n, stack.shape[0], stack[0])
    total = 0.0
    for g in range(stack.n):
        error = stack[g] - form.matrix(factors, g)
        total += float((error * (weights[g] @ error)).sum(dtype=torch.float64))
    return total
