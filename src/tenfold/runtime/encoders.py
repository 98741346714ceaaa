"""The encoder of a BERT-like model as its family file describes it: matrices by role, norms, heads, activation, bias."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.archs import PARTS, Block, Family, families
from tenfold.nn import FactoredLinear
from tenfold.runtime.kernels import ACTIVATIONS

NAMES = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""What transformers calls an activation, and what blocks do."""


class NoBlocks(Exception):
    """Why a model has no blocks that can be computed whole."""


@dataclass(frozen=True, eq=False)
class Layer:
    """`linears` by role."""

    linears: dict[str, Any]
    attention_norm: nn.LayerNorm
    ffn_norm: nn.LayerNorm


@dataclass(frozen=True, eq=False)
class Encoder:
    """`module` holds the layers, as its child called `name`; `bias` gives (1, heads, n, n) for an x of (1, n, width)."""

    base: Any
    module: Any
    name: str
    layers: tuple[Layer, ...]
    heads: int
    activation: str
    bias: str | None

    def __post_init__(self) -> None:
        assert self.activation in ACTIVATIONS

    @property
    def width(self) -> int:
        return self.layers[0].attention_norm.normalized_shape[0]

    @property
    def scale(self) -> float:
        return (self.layers[0].linears["attn.q"].out_features / self.heads) ** -0.5

    def parameters(self) -> Iterator[Tensor]:
        """All but factors: what constants copy beside these."""
        for name, parameter in self.module.named_parameters():
            if not name.startswith("whole."):
                yield parameter


def find_encoder(model: Any) -> Encoder:
    """Raises NoBlocks."""
    base = model.base_model
    config = base.config
    family = next((each for each in families().values() if config.model_type in each.model_types), None)
    if family is None or family.block is None:
        raise NoBlocks(f"the blocks of {config.model_type} are not those of BERT")
    if getattr(config, "is_decoder", False) or getattr(config, "add_cross_attention", False):
        raise NoBlocks("it decodes")
    name = getattr(config, family.block.activation)
    if not isinstance(name, str) or name not in NAMES:
        raise NoBlocks(f"blocks know the activations {', '.join(NAMES)}, got {name}")
    path = _spelling(base, family.layers)
    owner, _, child = path.rpartition(".")
    layers = tuple(_layer(each, family, family.block) for each in base.get_submodule(path))
    bias = None if family.block.bias is None else family.block.bias
    return Encoder(base, base.get_submodule(owner), child, layers, getattr(config, family.block.heads), NAMES[name], bias)


@torch.no_grad()
def position_bias(encoder: Encoder, x: Tensor, length: int) -> Tensor | None:
    """(heads, length, length)."""
    if encoder.bias is None:
        return None
    owner, _, method = encoder.bias.rpartition(".")
    make: Callable[[Tensor], Tensor] = getattr(encoder.base.get_submodule(owner), method)
    return make(x.new_empty(1, length, 1))[0]


def _layer(module: Any, family: Family, block: Block) -> Layer:
    linears = {role: module.get_submodule(_spelling(module, family.sites[role])) for role in PARTS}
    for role, linear in linears.items():
        if not isinstance(linear, nn.Linear | FactoredLinear):
            raise NoBlocks(f"{role} is a {type(linear).__name__}")
    return Layer(linears, module.get_submodule(block.attention_norm), module.get_submodule(block.ffn_norm))


def _spelling(module: nn.Module, spellings: tuple[str, ...]) -> str:
    for path in spellings:
        try:
            module.get_submodule(path)
        except AttributeError:
            continue
        return path
    raise NoBlocks(f"it has no {spellings[0]}")
