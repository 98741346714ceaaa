"""What a model has and what it multiplies: counted on the model itself, and predicted from its plan.

FLOPs are 2 x multiply-adds of matrix products, attention's two included, of one sequence without padding. What no plan speaks
of (poolers, heads, patches, rotary angles) is counted too, and told apart as the rest.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tenfold.archs import AUTO
from tenfold.checkpoints import Source, build
from tenfold.errors import PlanError
from tenfold.forms import macs
from tenfold.hub import plan_of
from tenfold.measurement.memory import weights_bytes
from tenfold.measurement.paths import Ready
from tenfold.measurement.record import Counts, Flops, Role
from tenfold.measurement.shapes import Shape
from tenfold.modules import factored_layers
from tenfold.nn.bank import BANKS
from tenfold.planning import MATRICES, MODEL, PAPER, Plan, Site
from tenfold.planning.build import totals
from tenfold.planning.sites import EMBEDDING, find_sites
from tenfold.runtime.fusing import Whole

DENSE = "dense"
RELATIVE = {"deberta-v2"}
"""Model types that also send relative positions through their matrices: a plan counts tokens."""


@dataclass(frozen=True)
class Anatomy:
    """All sites of a model, factored or not, and its plan with the original's counts; that of a dense model has no groups."""

    sites: tuple[Site, ...]
    plan: Plan

    @property
    def blocks(self) -> str:
        """Where the repeated blocks are, under the base model: encoder.layer."""
        path = self.sites[0].path.split(".")
        return ".".join(path[: next(k for k, name in enumerate(path) if name.isdigit())])


def anatomy(model: Any) -> Anatomy | None:
    """None where no sites are known."""
    compressed = hasattr(model.base_model, BANKS)
    dense = _skeleton(model) if compressed else model
    try:
        sites = _sites(dense)
    except PlanError:
        return None
    plan = plan_of(model) if compressed else Plan(DENSE, ())
    return Anatomy(tuple(sites), replace(plan, totals=totals(dense, sites)))


def _skeleton(model: Any) -> Any:
    """The dense model that a compressed one stands for, without weights."""
    config = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    dense = build(type(model), type(model.config).from_dict(config))
    if getattr(model.base_model, "pooler", False) is None:
        dense.base_model.pooler = None
    return dense


def _sites(dense: Any) -> list[Site]:
    try:
        return find_sites(dense.base_model, dense.config.model_type, None)
    except PlanError:
        return find_sites(dense.base_model, dense.config.model_type, AUTO)


def counts(source: Source, model: Any, known: Anatomy | None) -> Counts:
    assert source.header is not None
    return Counts(
        name=source.name,
        method=known.plan.method if known is not None and known.plan.groups else None,
        cls=type(model).__name__,
        parameters=parameters(model, known),
        disk_bytes=sum(file.stat().st_size for file in source.header.files),
        memory_bytes={str(model.dtype).removeprefix("torch."): weights_bytes(model)},
    )


def parameters(model: Any, known: Anatomy | None) -> dict[str, int]:
    """By scope, on the model as it lies in memory; of a model without known sites the whole only."""
    everything = _size(model.parameters())
    if known is None:
        return {MODEL: everything}
    base, banks, plan = model.base_model, getattr(model.base_model, BANKS, {}), known.plan
    factored = {site.path for site in plan.factored}
    left = _size(base.get_submodule(site.path).weight for site in known.sites if site.path not in factored)
    factors = {group.name: _size(banks[group.name].parameters()) for group in plan.groups}
    inside = sum(factors[group.name] for group in plan.matrix_groups)
    tables = sum(factors.values()) - inside
    return {MATRICES: inside + left, PAPER: _size(base.parameters()) - (tables or _table(base)), MODEL: everything}


def _table(base: Any) -> int:
    """The word table that is not factored; pictures have none."""
    weight = getattr(base.get_input_embeddings(), "weight", None)
    return weight.numel() if weight is not None and weight.ndim == 2 else 0


def _size(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def flops(role: Role, path: str, ready: Ready, known: Anatomy | None, shape: Shape) -> Flops:
    """Counted while a path that torch itself runs answers one full sequence."""
    assert ready.model is not None and shape.batch == 1 and shape.tokens == shape.length
    with FlopCounterMode(display=False, custom_mapping=_CPU_ATTENTION) as counter:
        ready.run(shape.inputs)
    by_module = {name: sum(found.values()) for name, found in counter.get_flop_counts().items()}
    rest = 0 if known is None else _rest(ready.model, known, by_module)
    told = None if known is None else predicted(ready.model, known.plan, shape.length)
    return Flops(role, path, shape.length, told, counter.get_total_flops(), rest)


def predicted(model: Any, plan: Plan, length: int) -> int | None:
    """The matrices, attention, and the mixing of the banks whose factors the path multiplies with as they are. None where
    nobody predicts them: for some attentions, and for encoders that compute whole."""
    if model.config.model_type in RELATIVE or any(isinstance(module, Whole) for module in model.modules()):
        return None
    layers: dict[str, Any] = dict(factored_layers(model.base_model))
    total = plan.flops(1, length)[1]
    for group in plan.matrix_groups:
        cuts = {site: shortcut for site in group.sites if (shortcut := layers[site.path].shortcut) is not None}
        bundles = {id(cut.bundle): cut.bundle for cut in cuts.values()}
        spared = sum(macs(group.form, group.n, group.i, group.o, *group.grid_shape(site)) for site in cuts)
        total += 2 * length * (sum(bundle.macs for bundle in bundles.values()) - spared)
        total += 2 * group.fold_macs * (len(cuts) < len(group.sites))
    return total + 2 * sum(group.fold_macs for group in plan.groups if group not in plan.matrix_groups)


def _rest(model: Any, known: Anatomy, by_module: dict[str, int]) -> int:
    """Of what is neither the blocks nor a factored table nor holds them."""
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    tables = [site.path for site in known.plan.factored if site.kind == EMBEDDING]
    return _outside(model, "", {prefix + path for path in (known.blocks, *tables)}, by_module, type(model).__name__)


def _outside(module: nn.Module, path: str, inside: set[str], by_module: dict[str, int], root: str) -> int:
    total = 0
    for name, child in module.named_children():
        here = f"{path}.{name}" if path else name
        if any(each.startswith(f"{here}.") for each in inside):
            total += _outside(child, here, inside, by_module, root)
        elif here not in inside:
            total += by_module.get(f"{root}.{here}", 0)
    return total


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """2 b h n m (d + e): the scores of n queries with m keys of size d, and their sums of values of size e."""
    *heads, n, d = query
    return 2 * torch.Size(heads).numel() * n * key[-2] * (d + value[-1])


_CPU_ATTENTION: dict[Any, Any] = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
"""torch's counter knows the fused attention of GPUs, not that of CPUs."""
