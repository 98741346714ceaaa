"""Which linear weights a model family has, and what is around them.

Data: one YAML file a family, shapes always read from the model.

family: bert
model_types: [bert]                    # config.model_type values
layers: [encoder.layer]                # the repeated blocks, under the base model; several spellings may be listed
sites:                                 # role: path inside a block; several spellings may be listed
  attn.q: [attention.self.query]
block:                                 # only where a block is all of x = N(x + attention(x)), then y = N(x + ffn(x))
  attention_norm: attention.output.LayerNorm     # the first N, inside a block
  ffn_norm: output.LayerNorm           # the second
  heads: num_attention_heads           # in the config
  activation: hidden_act               # in the config
  bias: encoder.compute_position_bias  # under the base model: (1, n, D) -> (1, heads, n, n), added to scores; may be left out
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any

import yaml

from tenfold.errors import PlanError, nearest

AUTO = "auto"
ATTENTION, FFN = "attn.", "ffn."
PARTS = ("attn.q", "attn.k", "attn.v", "attn.o", "ffn.in", "ffn.out")
"""The roles that a family with a `block` has: its matrices, all of them."""


@dataclass(frozen=True)
class Block:
    """What stands around the matrices of a post-LayerNorm encoder: dotted paths, and keys of a config."""

    attention_norm: str
    ffn_norm: str
    heads: str
    activation: str
    bias: str | None = None


@dataclass(frozen=True)
class Family:
    name: str
    model_types: tuple[str, ...]
    layers: tuple[str, ...]
    sites: dict[str, tuple[str, ...]]
    block: Block | None = None


@cache
def families() -> dict[str, Family]:
    """Every family by its name."""
    found = {}
    for file in sorted(resources.files(__name__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".yaml"):
            family = parse(yaml.safe_load(file.read_text(encoding="utf-8")), file.name)
            found[family.name] = family
    return found


def parse(data: Any, name: str) -> Family:
    """A family's file, which is called `name`."""
    _keys(data, ("family", "model_types", "layers", "sites"), ("block",), name)
    sites = data["sites"]
    _need(isinstance(sites, dict) and bool(sites), f"{name}: sites must be roles with paths, got {sites!r}")
    for role in sites:
        _need(str(role).startswith((ATTENTION, FFN)), f"{name}: a role starts with {ATTENTION} or {FFN}, got {role}")
    block = _block(data["block"], sites, name) if "block" in data else None
    words = {key: _words(data[key], f"{name}: {key}") for key in ("model_types", "layers")}
    return Family(
        _word(data["family"], f"{name}: family"),
        words["model_types"],
        words["layers"],
        {role: _words(paths, f"{name}: {role}") for role, paths in sites.items()},
        block,
    )


def _block(data: Any, sites: Mapping[str, Any], name: str) -> Block:
    keys = [field.name for field in fields(Block)]
    _keys(data, keys[:-1], keys[-1:], f"{name}: block")
    _need(set(sites) == set(PARTS), f"{name}: a block needs the roles {', '.join(PARTS)} and no other, got {', '.join(sites)}")
    return Block(**{key: _word(value, f"{name}: block.{key}") for key, value in data.items()})


def _keys(data: Any, needed: Iterable[str], allowed: Iterable[str], where: str) -> None:
    _need(isinstance(data, dict), f"{where} must be keys with values, got {data!r}")
    needed, known = list(needed), [*needed, *allowed]
    for key in data:
        _need(key in known, f"{where} has an unknown key, {key}: {nearest(str(key), known)}")
    for key in needed:
        _need(key in data, f"{where} must have {key}, got {', '.join(map(str, data)) or 'nothing'}")


def _words(value: Any, where: str) -> tuple[str, ...]:
    _need(isinstance(value, list) and bool(value), f"{where} must be a list of words, got {value!r}")
    return tuple(_word(each, where) for each in value)


def _word(value: Any, where: str) -> str:
    _need(isinstance(value, str) and bool(value), f"{where} must be a word, got {value!r}")
    return str(value)


def _need(holds: bool, why: str) -> None:
    if not holds:
        raise PlanError(why)


def family_for(model_type: str) -> Family:
    for family in families().values():
        if model_type in family.model_types:
            return family
    known = sorted(t for family in families().values() for t in family.model_types)
    raise PlanError(
        f'the model type must have a family file, got "{model_type}" (known: {", ".join(known)}): pass --family auto to take '
        "every Linear inside the repeated blocks, or add src/tenfold/archs/NAME.yaml as CONTRIBUTING.md describes"
    )
