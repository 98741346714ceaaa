"""Swapping layers: dense to factored by a plan, and back."""

from typing import Any

import torch
from torch import Tensor, nn

from tenfold.nn import FactorBank, FactoredEmbedding, FactoredLinear, hold_during_forward
from tenfold.nn.bank import BANKS
from tenfold.planning.plan import Group, Plan
from tenfold.planning.sites import CONV1D, EMBEDDING, Site


def install_(base: nn.Module, plan: Plan) -> nn.ModuleDict:
    """Replace every planned layer by an empty factored one on the same device and in the same precision."""
    banks = nn.ModuleDict()
    for group in plan.groups:
        banks[group.name] = install_group_(base, group)
    base.add_module(BANKS, banks)
    hold_during_forward(base)
    return banks


def install_group_(base: nn.Module, group: Group) -> FactorBank:
    """The bank of one group, with its layers swapped in; the caller registers it."""
    first: Any = base.get_submodule(group.sites[0].path)
    like = first.weight
    with torch.device(like.device):
        bank = FactorBank(group.form, group.n, group.i, group.o).to(like.dtype)
    for site, grid in group.grids():
        old: Any = base.get_submodule(site.path)
        with torch.device(like.device):
            new: nn.Module
            if site.kind == EMBEDDING:
                new = FactoredEmbedding(bank, grid, old.padding_idx)
            else:
                new = FactoredLinear(bank, grid, bias=False)
                new.bias = old.bias
        new.train(old.training)
        base.set_submodule(site.path, new)
    return bank


def factored_layers(base: nn.Module) -> dict[str, FactoredLinear | FactoredEmbedding]:
    return {name: m for name, m in base.named_modules() if isinstance(m, FactoredLinear | FactoredEmbedding)}


def dense_weight(site: Site, matrix: Tensor) -> Tensor:
    """A matrix as its site stores it: a Linear holds the transpose."""
    return matrix if site.kind in (CONV1D, EMBEDDING) else matrix.T


def site_matrix(base: nn.Module, site: Site) -> Tensor:
    """W (i, o) of an uncompressed site."""
    weight: Any = base.get_submodule(site.path).weight
    return dense_weight(site, weight.detach())
