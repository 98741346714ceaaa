"""Compressing: fit every group of a plan to a model's weights and swap the layers, in place."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.algebra.moments import Moments
from tenfold.algebra.weighted import lost_share, residuals
from tenfold.calibration import Batch, Calibration, calibrate
from tenfold.errors import PlanError
from tenfold.forms import Form, Grid
from tenfold.hub import attach_
from tenfold.modules import dense_weight, install_group_
from tenfold.nn import FactorBank, FactoredLinear, hold_during_forward
from tenfold.nn.bank import BANKS
from tenfold.planning.plan import Group, Plan
from tenfold.planning.sites import EMBEDDING, Site
from tenfold.recipe import INITS

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Fit:
    """How close one group came: shares of the weights' and (where calibrated) the outputs' squared norm that are lost.

    `sites` has the same two of each site, by its path.
    """

    group: str
    init: str
    weight_error: float
    output_error: float | None
    seconds: float
    sites: dict[str, tuple[float, float | None]]


@dataclass(frozen=True)
class Report:
    """What compression did."""

    fits: tuple[Fit, ...]

    def to_dict(self) -> list[dict[str, Any]]:
        return [asdict(fit) for fit in self.fits]


@dataclass(frozen=True)
class Originals:
    """What the dense layers held, by path of their site."""

    weights: dict[str, Tensor]
    biases: dict[str, Tensor]

    def matrix(self, site: Site) -> Tensor:
        return dense_weight(site, self.weights[site.path])

    def drop(self, group: Group) -> None:
        for site in group.sites:
            del self.weights[site.path]


class Tiles(Sequence[Tensor]):
    """The tiles of a group, cut from the weights when asked for; only one is ever held in full precision."""

    def __init__(self, group: Group, originals: Originals) -> None:
        self.cuts = [
            (originals.matrix(site), r * group.i, c * group.o)
            for site in group.sites
            for r in range(group.grid_shape(site)[0])
            for c in range(group.grid_shape(site)[1])
        ]
        self.i, self.o = group.i, group.o

    def __len__(self) -> int:
        return len(self.cuts)

    def __getitem__(self, g: int) -> Tensor:  # type: ignore[override]
        weight, r, c = self.cuts[g]
        tile = weight[r : r + self.i, c : c + self.o]
        return tile if tile.dtype == torch.float64 else tile.float()


@torch.no_grad()
def compress_(
    model: Any,
    plan: Plan,
    *,
    init: str = "auto",
    calibration: Calibration | None = None,
    batches: Iterable[Batch] | None = None,
    rounds: int = 3,
    recollect: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Replace the planned matrices of `model` by factors.

    init: random, hosvd, hooi (weight space) or activation (needs `batches` or a `calibration`); auto takes activation where
    it can. recollect: afterwards, layer by layer, fit what each tile owns again to the inputs that the compressed layers
    before it now give (needs `batches`).
    """
    init = _chosen_init(init, calibration is not None or batches is not None)
    if recollect and batches is None:
        raise PlanError("recollect needs text to run, got none: give --text FILE")
    batches = None if batches is None else list(batches)
    say = progress or (lambda _: None)
    if getattr(model.base_model, BANKS, None) is not None:
        raise PlanError(
            "a model is compressed once, got one that already is: start from its dense export (tenfold export --to dense)"
        )
    if init == "activation" and calibration is None:
        assert batches is not None
        say("reading calibration text")
        calibration = calibrate(model, plan, batches)
    base = model.base_model
    originals = _originals(base, plan)
    banks = nn.ModuleDict()
    fits = []
    for index, group in enumerate(plan.groups):
        say(f"fitting group {index + 1} of {len(plan.groups)}: {group.name}, {group.n} tiles of {group.i} x {group.o}")
        fits.append(_compress_group(base, banks, group, originals, init, calibration, rounds, seed + index))
        if not recollect:
            originals.drop(group)
    base.add_module(BANKS, banks)
    hold_during_forward(base)
    if recollect:
        assert batches is not None
        _recollect(model, plan, originals, batches, say)
    attach_(model, plan)
    return Report(tuple(fits))


def _chosen_init(init: str, calibrated: bool) -> str:
    if init not in INITS:
        raise PlanError(f'a start must be one of {", ".join(INITS)}, got "{init}"')
    if init == "auto":
        return "activation" if calibrated else "hosvd"
    if init == "activation" and not calibrated:
        raise PlanError(
            "the start activation needs text to see activations on, got none: give --text FILE, or take --init hosvd"
        )
    return init


def _originals(base: nn.Module, plan: Plan) -> Originals:
    layers: dict[str, Any] = {site.path: base.get_submodule(site.path) for site in plan.factored}
    for path, layer in layers.items():
        if not torch.isfinite(layer.weight).all():
            raise PlanError(f"every weight must be finite, got NaN or infinity in {path}: use a sound checkpoint")
    biases = {path: layer.bias.detach().clone() for path, layer in layers.items() if getattr(layer, "bias", None) is not None}
    return Originals({path: layer.weight.detach() for path, layer in layers.items()}, biases)


def _compress_group(
    base: nn.Module,
    banks: nn.ModuleDict,
    group: Group,
    originals: Originals,
    init: str,
    calibration: Calibration | None,
    rounds: int,
    seed: int,
) -> Fit:
    start = time.perf_counter()
    tiles = Tiles(group, originals)
    table = group.sites[0].kind == EMBEDDING
    moments = None if calibration is None or table else calibration.moments(group)
    factors = _factors(group, tiles, init, None if init != "activation" else moments, rounds, seed)
    bank = install_group_(base, group)
    bank.fill_(factors)
    banks[group.name] = bank
    matrices = _Matrices(bank, tiles[0].dtype)
    of_outputs = None if moments is None else residuals(tiles, moments, matrices)
    if init == "activation" and not table:
        assert calibration is not None
        for site in group.sites:
            _correct_bias(base, site, originals, calibration)
    of_weights = residuals(tiles, None, matrices)
    grids = {site.path: grid for site, grid in group.grids()}
    sites = {path: (_lost(of_weights, grid), _lost_outputs(of_outputs, grid)) for path, grid in grids.items()}
    whole, seconds = [[*range(group.n)]], time.perf_counter() - start
    return Fit(group.name, init, _lost(of_weights, whole), _lost_outputs(of_outputs, whole), seconds, sites)


def _lost(residuals: Sequence[tuple[float, float]], grid: Grid) -> float:
    return lost_share(residuals[g] for row in grid for g in row)


def _lost_outputs(residuals: Sequence[tuple[float, float]] | None, grid: Grid) -> float | None:
    return None if residuals is None else _lost(residuals, grid)


def _factors(group: Group, tiles: Tiles, init: str, moments: Moments | None, rounds: int, seed: int) -> dict[str, Tensor]:
    if init == "random":
        generator = torch.Generator().manual_seed(seed)
        std = torch.tensor([float(tiles[g].std(correction=0)) for g in range(group.n)])
        return group.form.draw(group.n, group.i, group.o, std, generator)
    return group.form.decompose(tiles, moments, 0 if init == "hosvd" else rounds)


class _Matrices(Sequence[Tensor]):
    def __init__(self, bank: FactorBank, dtype: torch.dtype) -> None:
        self.bank, self.dtype = bank, dtype

    def __len__(self) -> int:
        return self.bank.n

    def __getitem__(self, g: int) -> Tensor:  # type: ignore[override]
        return self.bank.matrix(g).to(self.dtype)


def _correct_bias(base: nn.Module, site: Site, originals: Originals, calibration: Calibration) -> None:
    """bias = original + mean(x) (W - W^): the mean output is what the dense layer would give, exactly."""
    layer = base.get_submodule(site.path)
    assert isinstance(layer, FactoredLinear)
    if layer.bias is not None:
        mean = calibration[site].mean
        error = originals.matrix(site).to(mean.dtype) - layer.matrix().to(mean.dtype)
        layer.bias.copy_(originals.biases[site.path] + mean @ error)


def _recollect(model: Any, plan: Plan, originals: Originals, batches: list[Batch], say: Progress) -> None:
    """Layer by layer: collect what its sites read now, fit what its tiles own, restore its mean outputs."""
    for layer in sorted({site.layer for group in plan.matrix_groups for site in group.sites}):
        say(f"fitting layer {layer} again to what it reads now")
        calibration = calibrate(model, plan, batches, layer)
        for group in plan.matrix_groups:
            tiles = Tiles(group, originals)
            for site, grid in group.grids():
                if site.layer == layer:
                    _refit_site(model.base_model, group.form, site, grid, tiles, calibration)
                    _correct_bias(model.base_model, site, originals, calibration)


def _refit_site(base: nn.Module, form: Form, site: Site, grid: Grid, tiles: Tiles, calibration: Calibration) -> None:
    layer = base.get_submodule(site.path)
    assert isinstance(layer, FactoredLinear)
    factors = layer.bank.factors()
    exact = {name: factor.to(tiles[0].dtype) for name, factor in factors.items()}
    for row, indices in enumerate(grid):
        moment = calibration[site].moment(row, centred=site.bias)
        for g in indices:
            for name, value in form.refit(exact, g, tiles[g], moment).items():
                factors[name][g].copy_(value)
