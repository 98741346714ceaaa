"""Shared factors under input moments: minimise sum_g |S_g^(1/2) (W_g - U M_g V)|^2 by alternating exact steps.

U (i, p), V (q, o), M (n, p, q); with a bank M_g = sum_k P_gk C_k. G_s = U' S_s U, R_g = U' S_s(g) W_g.

- free cores: for given U the best V and M are closed form. V holds the top eigenvectors of sum_g R_g' G^-1 R_g,
  M_g = G^-1 R_g V'.
- U for given M V solves sum_g S_g U K_g = sum_g S_g W_g (M_g V)', K_g = (M_g V)(M_g V)': linear in U, positive, solved by
  a few conjugate gradients with a Kronecker preconditioner (mean S, mean K).
- a bank: P_g in closed form, C by conjugate gradients, V by its (q, q) normal equations.

Tiles that read the same input share S, so everything that depends on S alone is done once for each distinct S.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from tenfold.algebra.linear import conjugate_gradient, solve_positive, top_eigenvectors
from tenfold.algebra.moments import Moments

STEPS = 6  # conjugate gradients a step: the preconditioner leaves little to do, and the next round goes on from there


def residual(tiles: Sequence[Tensor], moments: Moments | None, matrices: Sequence[Tensor]) -> float:
    """sum_g |S_g^(1/2)(W_g - W^_g)|^2 / sum_g |S_g^(1/2) W_g|^2: the share that is lost of the outputs (weights: S = I)."""
    return lost_share(residuals(tiles, moments, matrices))


def residuals(tiles: Sequence[Tensor], moments: Moments | None, matrices: Sequence[Tensor]) -> list[tuple[float, float]]:
    """|S_g^(1/2)(W_g - W^_g)|^2 and |S_g^(1/2) W_g|^2, tile by tile; None stands for S = I."""
    found = []
    for g in range(len(tiles)):
        w = tiles[g]
        error = w - matrices[g]
        pair = [float((x * (x if moments is None else moments[g] @ x)).sum()) for x in (error, w)]
        found.append((pair[0], pair[1]))
    return found


def lost_share(pairs: Iterable[tuple[float, float]]) -> float:
    """The sum of what is lost / the sum of what there was."""
    pairs = list(pairs)
    total = sum(whole for _, whole in pairs)
    return sum(lost for lost, _ in pairs) / total if total else 0.0


def start(tiles: Sequence[Tensor], moments: Moments, p: int) -> Tensor:
    """U that would be best if all tiles read the mean input: S^-1/2 times the top eigenvectors of S^1/2 (sum W W') S^1/2."""
    i = tiles[0].shape[0]
    gram = tiles[0].new_zeros(i, i)
    mean = torch.zeros_like(gram)
    for g in range(len(tiles)):
        gram += tiles[g] @ tiles[g].T
        mean += moments[g]
    root = torch.linalg.cholesky(mean.double() / len(tiles), upper=True).to(gram.dtype)
    u = torch.linalg.solve_triangular(root, top_eigenvectors(root @ gram @ root.T, p), upper=True)
    return torch.linalg.qr(u)[0]


def projected(tiles: Sequence[Tensor], moments: Moments, u: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """G_s for each distinct moment, R_g for each tile."""
    weighted = [s @ u for s in moments.matrices]
    return [u.T @ x for x in weighted], [weighted[moments.of[g]].T @ tiles[g] for g in range(len(tiles))]


def free_cores(grams: list[Tensor], r: list[Tensor], of: Sequence[int], q: int) -> tuple[Tensor, Tensor]:
    """The best V (orthonormal rows) and M for given U."""
    solved = [solve_positive(grams[of[g]], r[g]) for g in range(len(r))]
    gram = sum(a.T @ b for a, b in zip(r, solved, strict=True))
    assert isinstance(gram, Tensor)
    v = top_eigenvectors(gram, q).T
    return v, torch.stack([m @ v.T for m in solved])


def solve_core(tile: Tensor, moment: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """The best M_g for given U and V, V not necessarily orthonormal."""
    m = solve_positive(u.T @ moment @ u, u.T @ moment @ tile @ v.T)
    return solve_positive(v @ v.T, m.T).T


def solve_left(tiles: Sequence[Tensor], moments: Moments, u: Tensor, core: Tensor, v: Tensor) -> Tensor:
    """U improved for given M and V."""
    right = [core[g] @ v for g in range(len(tiles))]
    targets = [torch.zeros_like(u) for _ in moments.matrices]
    k = [u.new_zeros(u.shape[1], u.shape[1]) for _ in moments.matrices]
    for g, s in enumerate(moments.of):
        targets[s] += tiles[g] @ right[g].T
        k[s] += right[g] @ right[g].T
    shares = torch.stack([x.diagonal().sum() for x in k])
    shares = shares / shares.sum().clamp_min(torch.finfo(shares.dtype).tiny)  # cores of zeros have none
    mean_s = sum(c * s for c, s in zip(shares, moments.matrices, strict=True))
    mean_k = sum(k)
    assert isinstance(mean_s, Tensor) and isinstance(mean_k, Tensor)
    return conjugate_gradient(
        lambda x: sum((s @ x @ y for s, y in zip(moments.matrices, k, strict=True)), torch.zeros_like(x)),
        sum((s @ t for s, t in zip(moments.matrices, targets, strict=True)), torch.zeros_like(u)),
        u,
        lambda x: solve_positive(mean_k, solve_positive(mean_s, x).T).T,
        STEPS,
    )


def orthonormal(u: Tensor, core: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same product with orthonormal U and V: their scales move into the cores."""
    u, a = torch.linalg.qr(u)
    vt, b = torch.linalg.qr(v.T)
    return u, a @ core @ b.T, vt.T


def fit(tiles: Sequence[Tensor], moments: Moments, p: int, q: int, rounds: int) -> tuple[Tensor, Tensor, Tensor]:
    """U, V, M (free cores: the paper's III)."""
    u = start(tiles, moments, p)
    grams, r = projected(tiles, moments, u)
    v, core = free_cores(grams, r, moments.of, q)
    for _ in range(rounds):
        u = torch.linalg.qr(solve_left(tiles, moments, u, core, v))[0]
        grams, r = projected(tiles, moments, u)
        v, core = free_cores(grams, r, moments.of, q)
    return u, v, core


def solve_mix(grams: Sequence[Tensor], targets: Sequence[Tensor] | Tensor, of: Sequence[int], bank: Tensor) -> Tensor:
    """P (n, l): each tile's best weights on the bank, in closed form. targets[g] is R_g V' (p, q)."""
    flat = bank.flatten(1)
    normal = [(gram @ bank).flatten(1) @ flat.T for gram in grams]
    rows = [solve_positive(normal[s], bank.flatten(1) @ targets[g].flatten()[:, None])[:, 0] for g, s in enumerate(of)]
    return torch.stack(rows)


def solve_bank(grams: Sequence[Tensor], targets: Tensor, of: Sequence[int], mix: Tensor, bank: Tensor) -> Tensor:
    """C (l, p, q) improved for given P."""
    stacked = torch.stack([grams[s] for s in of])
    mean = stacked.mean(0)
    overlap = mix.T @ mix

    def operator(c: Tensor) -> Tensor:
        return torch.einsum("gk,gab->kab", mix, stacked @ torch.einsum("gk,kab->gab", mix, c))

    def precondition(c: Tensor) -> Tensor:
        inner = solve_positive(mean, c.transpose(0, 1).flatten(1)).unflatten(1, (c.shape[0], -1)).transpose(0, 1)
        return solve_positive(overlap, inner.flatten(1)).unflatten(1, c.shape[1:])

    return conjugate_gradient(operator, torch.einsum("gk,gab->kab", mix, targets), bank, precondition, STEPS)


def solve_right(grams: Sequence[Tensor], r: Sequence[Tensor], of: Sequence[int], core: Tensor) -> Tensor:
    """V (q, o) for given U and M: (sum M' G M) V = sum M' R."""
    normal = sum(core[g].T @ grams[s] @ core[g] for g, s in enumerate(of))
    target = sum(core[g].T @ r[g] for g in range(len(r)))
    assert isinstance(normal, Tensor) and isinstance(target, Tensor)
    return solve_positive(normal, target)


def fit_bank(
    tiles: Sequence[Tensor], moments: Moments, p: int, q: int, size: int, rounds: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """U, V, P, C (the paper's IV). Starts from free cores and the bank that fits them best under the mean moment."""
    u, v, core = fit(tiles, moments, p, q, rounds=1)
    of = moments.of
    grams, r = projected(tiles, moments, u)
    mean = torch.stack([grams[s] for s in of]).mean(0)
    mix = top_eigenvectors(core.flatten(1) @ (mean @ core).flatten(1).T, size)
    bank = torch.einsum("gk,gab->kab", mix, core)
    for _ in range(max(rounds, 1)):
        targets = torch.stack([x @ v.T for x in r])
        mix = solve_mix(grams, targets, of, bank)
        bank = solve_bank(grams, targets, of, mix, bank)
        core = torch.einsum("gk,kab->gab", mix, bank)
        u = solve_left(tiles, moments, u, core, v)
        grams, r = projected(tiles, moments, u)
        v = solve_right(grams, r, of, core)
        u, bank, v = orthonormal(u, bank, v)
        grams, r = projected(tiles, moments, u)
    return u, v, solve_mix(grams, [x @ v.T for x in r], of, bank), bank
