"""optimize_: fold a compressed model's factors for inference, in place."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from tenfold.checkpoints import first_line
from tenfold.errors import CheckpointError, PlanError, nearest
from tenfold.hub import plan_of
from tenfold.modules import factored_layers
from tenfold.nn import FactorBank, FactoredLinear
from tenfold.records import read_json
from tenfold.runtime.bundle import Bundle, Shortcut
from tenfold.runtime.choosing import Choice, Situation, choose, situation
from tenfold.runtime.encoding import WholeChoice, choose_whole_
from tenfold.runtime.fusing import Whole
from tenfold.runtime.reading import find_readers, lone_readers
from tenfold.runtime.ways import (
    AUTO,
    DENSE_BLOCKS,
    ENCODERS,
    FUSED,
    KERNELS,
    LAYERS,
    PATHS,
    PLAIN,
    Readers,
    exact_products,
    folded,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BATCH, LENGTH = 1, 128
FILE, VERSION = "runtime.json", 1
"""What `tenfold optimize --save` leaves in a folder."""


@dataclass(frozen=True)
class Optimized:
    """What each kind of layer multiplies with now, whether they run one by one or as one chain, and for which batch, length,
    precision and device that was chosen."""

    where: Situation
    choices: tuple[Choice, ...]
    whole: WholeChoice

    @property
    def summary(self) -> str:
        """`blocks: attn.q k v chain, attn.o dense, ...`"""
        ways = ", ".join(f"{choice.roles} {choice.path}" for choice in self.choices)
        return self.whole.path if self.whole.path in (KERNELS, DENSE_BLOCKS) else f"{self.whole.path}: {ways}"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self.where), "choices": [each.to_dict() for each in self.choices], "whole": self.whole.to_dict()}


def optimize_(
    model: "PreTrainedModel",
    batch: int | None = None,
    length: int | None = None,
    path: str = AUTO,
    inputs: Mapping[str, Any] | None = None,
    measure: bool = True,
    saved: bool = True,
) -> Optimized:
    """Let a compressed model answer faster, with the same outputs, through constants made of its factors.

    batch, length   what it will mostly be called with; default 1 and 128 (or as long as the model goes)
    path            auto: the fastest way, for each kind of layer and for the encoder as a whole; dense, chain or plain for all
                    layers; fused: the encoder as one chain of blocks, by kernels where there are some for it
    inputs          arguments for the pass that shows which layers read the same x; by default the smallest possible
    measure         False: choose by the cost model alone
    saved           follow the runtime.json of the folder that the model was loaded from, where there is one

    The constants serve calls without gradients, are not saved, and go with `train()`, `restore_` or when factors change.
    """
    roles = {site.path: site.role for site in plan_of(model).factored}
    _check(model, batch, length, path)
    restore_(model)
    kept = _kept(model) if saved and path == AUTO else {}
    batch, length = batch or kept.get("batch", BATCH), length or kept.get("length", min(LENGTH, _longest(model)))
    where = situation(model, batch, length)
    readers = _readers(model.base_model, inputs)
    kinds: dict[str, list[Readers]] = {}
    for each in readers:
        kinds.setdefault(each.kind, []).append(each)
    ways = _ways(kept, where)
    layers, timed = (AUTO, False) if path == FUSED else (path, measure)
    choices = {name: choose(kind, roles, where, ways.get(name, layers), timed) for name, kind in kinds.items()}
    for bank in {each.bank for each in readers}:
        own = [each for each in readers if each.bank is bank]
        _fold_(bank, own, {each: choices[each.kind].path for each in own})
    taken = {layer: choices[each.kind].path for each in readers for layer in each.layers}
    names = "; ".join(f"{kind} {choice.path}" for kind, choice in choices.items())
    whole = choose_whole_(model, taken, where, _whole(kept, where) or path, measure, names)
    return Optimized(where, tuple(choices.values()), whole)


def restore_(model: nn.Module) -> None:
    """Take the constants away: the model computes with its factors as it did before."""
    for whole in [module for module in model.modules() if isinstance(module, Whole)]:
        whole.remove_()
    for layer in _linears(model):
        layer.drop_shortcut()


@torch.no_grad()
def _fold_(bank: FactorBank, readers: Iterable[Readers], paths: Mapping[Readers, str]) -> None:
    """Give the layers of one bank their shortcuts."""
    products, idle = exact_products(bank), True
    dtype = next(bank.parameters()).dtype
    for each in readers:
        if paths[each] == PLAIN:
            idle = False
            continue
        bundle = Bundle(folded(each, paths[each], products)).to(dtype)
        for index, layer in enumerate(each.layers):
            layer.shortcut = Shortcut(bundle, index).eval()
    bank.fold_(idle)


def _kept(model: "PreTrainedModel") -> dict[str, Any]:
    """runtime.json of the folder that the model came from."""
    name = model.config._name_or_path
    found = read_json(Path(name) / FILE) if name and Path(name).is_dir() else None
    if found is None:
        return {}
    known = isinstance(found, dict) and found.get("version") == VERSION
    whole = found["whole"]["path"] if known and "whole" in found else LAYERS
    if not known or whole not in ENCODERS or not all(choice["path"] in PATHS for choice in found["choices"]):
        raise CheckpointError(
            f"{FILE} must have version {VERSION} and known ways: run tenfold optimize --save again, or remove {name}/{FILE}"
        )
    return found


def _ways(kept: Mapping[str, Any], where: Situation) -> dict[str, str]:
    """The saved way of each kind, where it was chosen for this situation."""
    return {choice["kind"]: choice["path"] for choice in kept["choices"]} if _made_for(kept, where) else {}


def _whole(kept: Mapping[str, Any], where: Situation) -> str | None:
    """The saved way of the encoder."""
    return kept["whole"]["path"] if _made_for(kept, where) and "whole" in kept else None


def _made_for(kept: Mapping[str, Any], where: Situation) -> bool:
    return all(kept.get(key) == value for key, value in asdict(where).items())


def _readers(base: Any, inputs: Mapping[str, Any] | None) -> list[Readers]:
    try:
        return find_readers(base, inputs)
    except Exception as error:  # whatever a model that wants other inputs raises
        if inputs is not None:
            raise PlanError(
                f"inputs must be arguments that the model runs with, got ones that fail with: {first_line(error)}"
            ) from error
        warnings.warn(
            f"a smallest input did not run ({first_line(error)}): no layers share products; give inputs=",
            stacklevel=3,
        )
        return lone_readers(base)


def _check(model: "PreTrainedModel", batch: int | None, length: int | None, path: str) -> None:
    if path not in PATHS:
        raise PlanError(f'the path must be one of {", ".join(PATHS)}, got "{path}": {nearest(path, PATHS)}')
    for name, value in (("batch", batch), ("length", length)):
        if value is not None and value < 1:
            raise PlanError(f"the {name} must be 1 or more, got {value}: leave it out for the default")
    if model.training:
        raise PlanError("optimize_ serves inference, got a model in training mode: call model.eval() first")
    if any(p.is_meta for p in model.parameters()):
        raise PlanError("constants are made of weights, got a model without (on the meta device): load it first")


def _longest(model: "PreTrainedModel") -> int:
    found = getattr(model.config, "max_position_embeddings", None)
    return found if isinstance(found, int) and found > 0 else LENGTH


def _linears(model: nn.Module) -> list[FactoredLinear]:
    return [layer for layer in factored_layers(model).values() if isinstance(layer, FactoredLinear)]
