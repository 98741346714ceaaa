"""The linear weights of a model that may take part, found through its family's data file."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from tenfold.archs import ATTENTION, AUTO, FFN, Family, families, family_for
from tenfold.errors import PlanError, nearest

LINEAR, CONV1D, EMBEDDING = "linear", "conv1d", "embedding"


@dataclass(frozen=True)
class Site:
    """One weight. `path` is relative to the base model; (i, o) is its shape in y = x W, whatever way it is stored."""

    path: str
    role: str
    layer: int
    i: int
    o: int
    bias: bool
    kind: str

    @property
    def size(self) -> int:
        return self.i * self.o


def find_sites(base: nn.Module, model_type: str, family: str | None) -> list[Site]:
    """All sites, layer by layer, in the order in which a block uses them.

    A role that no block has is left out: DeBERTa has matrices for positions only where it does not share those for tokens.
    """
    if family == AUTO:
        return _auto(base)
    chosen = _known(family, model_type)
    for layers in chosen.layers:
        blocks = _walk(base, layers)
        if isinstance(blocks, nn.ModuleList):
            break
    else:
        raise PlanError(
            f'the family "{chosen.name}" expects blocks at {" or ".join(chosen.layers)}, got none there: pass --family auto'
        )
    present = {role: spellings for role, spellings in chosen.sites.items() if any(_find(block, spellings) for block in blocks)}
    if not present:
        raise PlanError(f'the family "{chosen.name}" names no matrix that this model has: pass --family auto')
    return [
        _site(block, f"{layers}.{index}", role, spellings, index)
        for index, block in enumerate(blocks)
        for role, spellings in present.items()
    ]


def word_table(base: Any) -> Any:
    """The module with the vectors that a model's input is looked up in, or None: speech and pictures have none."""
    try:
        return base.get_input_embeddings()
    except NotImplementedError:
        return None


def find_embedding(base: Any) -> Site:
    """The table of word vectors."""
    table = word_table(base)
    path = next((name for name, module in base.named_modules() if module is table), None)
    if path is None or not isinstance(table, nn.Embedding):
        raise PlanError(
            f"this model has no table of word vectors to factor, got {type(table).__name__}: leave --embeddings out"
        )
    return Site(path, "embed", -1, table.num_embeddings, table.embedding_dim, False, EMBEDDING)


def _known(family: str | None, model_type: str) -> Family:
    if family is None:
        return family_for(model_type)
    if family not in families():
        raise PlanError(
            f'--family must be one with a data file or auto, got "{family}": {nearest(family, [*families(), AUTO])}'
        )
    return families()[family]


def _site(block: nn.Module, prefix: str, role: str, spellings: tuple[str, ...], layer: int) -> Site:
    path = _find(block, spellings)
    if path is None:
        raise PlanError(f"layer {layer} must have {role} at {' or '.join(spellings)}, got a block without: pass --family auto")
    return _made(f"{prefix}.{path}", role, layer, _walk(block, path))


def _made(path: str, role: str, layer: int, module: Any) -> Site:
    kind = CONV1D if _is_conv1d(module) else LINEAR
    return Site(path, role, layer, *site_shape(module), module.bias is not None, kind)


def _find(block: nn.Module, spellings: tuple[str, ...]) -> str | None:
    return next((path for path in spellings if isinstance(m := _walk(block, path), nn.Module) and is_site(m)), None)


def is_site(module: nn.Module) -> bool:
    return type(module) is nn.Linear or _is_conv1d(module)


def site_shape(module: nn.Module) -> tuple[int, int]:
    """(i, o) as in y = x W; a Linear stores the transpose, GPT-2's Conv1D does not."""
    weight: Any = module.weight
    a, b = weight.shape
    return (a, b) if _is_conv1d(module) else (b, a)


def _is_conv1d(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D"


def _walk(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def _auto(base: nn.Module) -> list[Site]:
    """Every Linear inside the repeated blocks; an encoder's layers, then a decoder's, are counted through."""
    stacks = _stacks(base)
    if not stacks:
        raise PlanError(
            f"--family auto needs repeated blocks (a ModuleList of one class) with a Linear inside, got none in "
            f"{type(base).__name__}: its matrices cannot be compressed without changing its code"
        )
    blocks = [(f"{name}.{index}", block) for name, stack in stacks for index, block in enumerate(stack)]
    return [
        _made(f"{prefix}.{path}", (ATTENTION if "att" in path.lower() else FFN) + path, layer, module)
        for layer, (prefix, block) in enumerate(blocks)
        for path, module in block.named_modules()
        if path and is_site(module)
    ]


def _stacks(base: nn.Module) -> list[tuple[str, nn.ModuleList]]:
    """The lists of equal blocks that hold a Linear and lie in no other such list: two for an encoder and its decoder."""
    found: list[tuple[str, nn.ModuleList]] = []
    for name, module in base.named_modules():
        inside = any(name.startswith(f"{other}.") for other, _ in found)
        if isinstance(module, nn.ModuleList) and not inside and _repeats(module):
            found.append((name, module))
    return found


def _repeats(blocks: nn.ModuleList) -> bool:
    inside = (module for block in blocks for module in block.modules() if module is not block)
    return len({type(block) for block in blocks}) == 1 and any(map(is_site, inside))
