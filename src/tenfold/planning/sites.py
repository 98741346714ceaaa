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
    chosen = _auto(base) if family == AUTO else _known(family, model_type)
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


def find_embedding(base: Any) -> Site:
    """The table of word vectors."""
    table = base.get_input_embeddings()
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
    module = _walk(block, path)
    i, o = site_shape(module)
    kind = CONV1D if _is_conv1d(module) else LINEAR
    return Site(f"{prefix}.{path}", role, layer, i, o, module.bias is not None, kind)


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


def _auto(base: nn.Module) -> Family:
    """Every Linear inside the longest list of equal blocks."""
    lists = [(name, m) for name, m in base.named_modules() if isinstance(m, nn.ModuleList) and len({type(b) for b in m}) == 1]
    if not lists:
        raise PlanError(
            "--family auto needs repeated blocks (a ModuleList of one class), got a model without: add a family file"
        )
    name, blocks = max(lists, key=lambda pair: len(pair[1]))
    paths = [path for path, module in blocks[0].named_modules() if is_site(module)]
    sites: dict[str, tuple[str, ...]] = {(ATTENTION if "att" in path.lower() else FFN) + path: (path,) for path in paths}
    return Family(AUTO, (), (name,), sites)
