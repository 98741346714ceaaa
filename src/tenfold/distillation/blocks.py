"""Where a model's blocks and their projections are, dense or factored, and how its heads are cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from tenfold.archs import AUTO, Family, families, family_for
from tenfold.distillation.losses import LABELS
from tenfold.errors import PlanError, TenfoldError, nearest

SEGMENTS = "token_type_ids"
SCORED = {"bert", "distilbert", "electra", "gpt2", "mpnet", "opt", "roberta", "vit"}
"""Families whose scores are products of queries and keys as projected; MPNet adds a bias of positions."""


@dataclass(frozen=True)
class Blocks:
    """The repeated blocks of a model and the module that runs them; layers are counted from 1."""

    owner: nn.Module
    modules: list[nn.Module]
    family: Family

    @property
    def depth(self) -> int:
        return len(self.modules)

    @property
    def causal(self) -> bool:
        """Does a query see no later key? As the attention module says of itself."""
        for role in ("attn.q", "attn.qkv"):
            for path in self.family.sites.get(role, ()):
                if (attention := _walk(self.modules[0], path.rpartition(".")[0])) is not None:
                    return bool(getattr(attention, "is_causal", False))
        return False

    def site(self, layer: int, role: str) -> nn.Module | None:
        """The module in a role; of any type, as a factored layer takes the place of the dense one."""
        found = (_walk(self.modules[layer - 1], path) for path in self.family.sites.get(role, ()))
        return next((module for module in found if module is not None), None)

    def required(self, layer: int, role: str) -> nn.Module:
        if (module := self.site(layer, role)) is None:
            raise TenfoldError(
                f'losses on attention need a family that knows {role}, got "{self.family.name}", and nothing in layer {layer}: '
                "take losses on hidden states or logits, or add the role to its file in src/tenfold/archs"
            )
        return module

    def check_scores(self) -> None:
        if self.family.name not in SCORED:
            raise TenfoldError(
                f'attention scores are had where they are products of queries and keys, got "{self.family.name}", where '
                'positions enter them in other ways (rotary, disentangled): take "relations" or "vectors", which read queries, '
                "keys and values as projected"
            )


def find_blocks(model: Any, family: str | None = None) -> Blocks:
    """By the family's data file; `auto` takes the longest list of equal blocks and knows no roles in them."""
    base = model.base_model
    chosen = _longest(base) if family == AUTO else family_for(model.config.model_type) if family is None else _named(family)
    for path in chosen.layers:
        if isinstance(found := _walk(base, path), nn.ModuleList):
            return Blocks(base.get_submodule(path.rpartition(".")[0]), list(found), chosen)
    raise PlanError(
        f'the family "{chosen.name}" expects blocks at {" or ".join(chosen.layers)}, got none there: pass family="{AUTO}"'
    )


def unwrap(model: Any) -> Any:
    """The transformers model inside of torch.compile, DistributedDataParallel and the like."""
    while not isinstance(model, PreTrainedModel):
        if isinstance(model, nn.DataParallel):
            raise TenfoldError(
                "distillation needs one process for each device, got one for all (DataParallel): start it with torchrun"
            )
        inner = model._modules.get("_orig_mod", model._modules.get("module"))
        if inner is None:
            raise TenfoldError(f"distillation reads the layers of a transformers model, got {type(model).__name__}")
        model = inner
    return model


def arguments(model: Any, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A batch without its labels, and without segments where the model has none (DistilBERT)."""
    known = signature(unwrap(model).forward).parameters
    return {name: value for name, value in batch.items() if name != LABELS and (name in known or name != SEGMENTS)}


def head_count(model: Any) -> int:
    """Heads of the queries; grouped-query attention has fewer for keys and values."""
    return int(unwrap(model).config.num_attention_heads)


def head_size(model: Any) -> int:
    config = unwrap(model).config
    return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)


def _named(family: str) -> Family:
    if family not in families():
        raise PlanError(f'a family must have a data file or be {AUTO}, got "{family}": {nearest(family, [*families(), AUTO])}')
    return families()[family]


def _longest(base: nn.Module) -> Family:
    lists = [(name, m) for name, m in base.named_modules() if isinstance(m, nn.ModuleList) and len({type(b) for b in m}) == 1]
    if not lists:
        raise PlanError(f'family "{AUTO}" needs repeated blocks (a ModuleList of one class), got a model without')
    return Family(AUTO, (), (max(lists, key=lambda pair: len(pair[1]))[0],), {})


def _walk(module: Any, path: str) -> nn.Module | None:
    for name in path.split(".") if path else ():
        module = getattr(module, name, None)
    return module if isinstance(module, nn.Module) else None
