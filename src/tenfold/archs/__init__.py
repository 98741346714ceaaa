"""Which linear weights a model family has. Data: one YAML file a family, shapes always read from the model.

family: bert
model_types: [bert]                    # config.model_type values
layers: [encoder.layer]                # the repeated blocks, under the base model; several spellings may be listed
sites:                                 # role: path inside a block; several spellings may be listed
  attn.q: [attention.self.query]
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml

from tenfold.errors import PlanError

AUTO = "auto"
ATTENTION, FFN = "attn.", "ffn."


@dataclass(frozen=True)
class Family:
    name: str
    model_types: tuple[str, ...]
    layers: tuple[str, ...]
    sites: dict[str, tuple[str, ...]]


@cache
def families() -> dict[str, Family]:
    """Every family by its name."""
    found = {}
    for file in sorted(resources.files(__name__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".yaml"):
            family = _read(yaml.safe_load(file.read_text(encoding="utf-8")))
            found[family.name] = family
    return found


def _read(data: dict[str, object]) -> Family:
    sites, types, layers = data["sites"], data["model_types"], data["layers"]
    assert isinstance(sites, dict) and isinstance(types, list) and isinstance(layers, list)
    for role in sites:
        assert role.startswith((ATTENTION, FFN)), f"a role starts with {ATTENTION} or {FFN}, got {role}"
    return Family(str(data["family"]), tuple(types), tuple(layers), {k: tuple(v) for k, v in sites.items()})


def family_for(model_type: str) -> Family:
    for family in families().values():
        if model_type in family.model_types:
            return family
    known = sorted(t for family in families().values() for t in family.model_types)
    raise PlanError(
        f'the model type must have a family file, got "{model_type}" (known: {", ".join(known)}): pass --family auto to take '
        "every Linear inside the repeated blocks, or add src/tenfold/archs/NAME.yaml as CONTRIBUTING.md describes"
    )
