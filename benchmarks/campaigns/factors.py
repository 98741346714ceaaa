"""A student as a file of what it does not share with its teacher: factors, biases and norms that changed, a few megabytes.

Everything else (the word table above all) is the original's, so a file belongs to one set of original weights.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tenfold.checkpoints import Source, load
from tenfold.errors import CheckpointError
from tenfold.experiments.trimming import parse_layers, trim
from tenfold.finetuning.blocks import block_list
from tenfold.hub import attach_
from tenfold.modules import install_
from tenfold.planning import Plan, plan_from_dict

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def skeleton_of(original: Source, plan: Plan | None, layers: str | None) -> Any:
    """The original in float32 with empty factors, or with some of its layers alone."""
    network = load(original).float()
    if plan is None:
        assert layers is not None
        return trim(network, parse_layers(layers, len(block_list(network)[1])))
    install_(network.base_model, plan)
    attach_(network, plan)
    return network


def own_tensors(network: Any, original: Source, layers: str | None) -> dict[str, Tensor]:
    """Those that the original, or those layers of it, has not or has otherwise."""
    theirs = (load(original).float() if layers is None else skeleton_of(original, None, layers)).state_dict()
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in network.state_dict().items()
        if name not in theirs or theirs[name].shape != tensor.shape or not torch.equal(theirs[name].cpu(), tensor.cpu())
    }


def rounded(tensors: Mapping[str, Tensor], dtype: str) -> tuple[dict[str, Tensor], float]:
    """In a shorter precision, and the norm of what that loses over the norm of all."""
    short = {name: tensor.to(DTYPES[dtype]) for name, tensor in tensors.items()}
    if name := next((name for name, tensor in short.items() if not torch.isfinite(tensor).all()), None):
        raise CheckpointError(f"a student's weights must fit {dtype}, got numbers too large in {name}: take bfloat16")
    lost = sum(float((short[name].double() - tensor.double()).square().sum()) for name, tensor in tensors.items())
    whole = sum(float(tensor.double().square().sum()) for tensor in tensors.values())
    return short, (lost / whole) ** 0.5 if whole else 0.0


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.partial-{os.getpid()}")
    save_file(dict(tensors), beside, metadata={"campaign": json.dumps(facts)})
    beside.replace(path)


def read_facts(path: Path) -> dict[str, Any]:
    with safe_open(path, "pt") as file:
        found: dict[str, Any] = json.loads(file.metadata()["campaign"])
    return found


def read_student(path: Path, original: Source, model: str) -> Any:
    """The student of a file. model: the hash of the original's weights."""
    facts = read_facts(path)
    if facts["model"] != model:
        raise CheckpointError(
            f"a student's file belongs to the weights that it was made from, got {path} with others: use its original"
        )
    plan = None if facts["plan"] is None else plan_from_dict(facts["plan"])
    network = skeleton_of(original, plan, facts["layers"])
    fill_(network, load_file(path), plan)
    return network.eval()


@torch.no_grad()
def fill_(network: Any, tensors: Mapping[str, Tensor], plan: Plan | None) -> None:
    found = network.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=False)
    banks = [name for name, _ in network.named_parameters() if "factor_banks." in name] if plan is not None else []
    if wrong := [*found.unexpected_keys, *(name for name in banks if name not in tensors)]:
        raise CheckpointError(f"a student's file must hold its factors and nothing strange, got {wrong[0]} on one side only")
