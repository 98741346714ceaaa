"""A dense student with a subset of its teacher's layers: BERT-6layer, and where TinyBERT-IV starts.

Layers are counted from 0 here, as the weights' names count them. The trimmed model is built from a config with fewer layers
and takes the chosen layers' weights under their new numbers, so that whatever a family works out of a layer's number is right
again.
"""

import re
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch

from tenfold.checkpoints import find, load, refuse_compressed
from tenfold.compression import Progress
from tenfold.errors import PlanError
from tenfold.finetuning.blocks import block_list
from tenfold.folders import complete_folder, refuse_existing
from tenfold.pipeline import copy_beside
from tenfold.records import history, stamp, write_history

EVERY = re.compile(r"every-([1-9]\d*)")


def trim_folder(model: str, out: Path, layers: str, force: bool, progress: Progress = lambda _: None) -> tuple[int, ...]:
    """MODEL's chosen layers, its embeddings and its head -> OUT. Which layers those are comes back."""
    refuse_existing(out, force)
    source = find(model, weights=True)
    refuse_compressed(source)
    progress("loading the model")
    network = load(source)
    depth = len(block_list(network)[1])
    chosen = parse_layers(layers, depth)
    trimmed = trim(network, chosen)
    progress("saving")
    assert source.folder is not None
    with complete_folder(out, force) as partial:
        trimmed.save_pretrained(partial)
        copy_beside(source, partial)
        write_history(partial, history(source.folder), stamp("trim", model=model, layers=list(chosen), depth=depth))
    return chosen


def parse_layers(text: str, depth: int) -> tuple[int, ...]:
    """`every-2` is 0, 2, 4, ...; `0,3,6` is itself."""
    if found := EVERY.fullmatch(text.strip()):
        return tuple(range(0, depth, int(found[1])))
    try:
        chosen = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise PlanError(f'layers must be every-K or numbers from 0, got "{text}": write every-2 or 0,3,6') from error
    if list(chosen) != sorted(set(chosen)) or not 0 <= chosen[0] <= chosen[-1] < depth:
        raise PlanError(f"layers must rise from 0 to at most {depth - 1}, each once, got {text}: write every-2 or 0,3,6")
    return chosen


@torch.no_grad()
def trim(model: Any, chosen: Sequence[int]) -> Any:
    """A new model with these layers, in their order."""
    path, blocks = block_list(model)
    config = _shorter(model.config, chosen, len(blocks))
    new = type(model)._from_config(config, dtype=model.dtype)
    if getattr(model.base_model, "pooler", False) is None:
        new.base_model.pooler = None
    state = _renumbered(model.state_dict(), path, chosen)
    if different := sorted(state.keys() ^ new.state_dict().keys()):
        raise PlanError(
            f"every chosen layer must fit its new place, got {different[0]} on one side only: this family's first layer "
            f"differs from the others, so keep layer 0 (got {', '.join(map(str, chosen))})"
        )
    new.load_state_dict(state)
    if model.can_generate():
        new.generation_config = deepcopy(model.generation_config)
    return new.train(model.training)


def _shorter(config: Any, chosen: Sequence[int], depth: int) -> Any:
    """Fewer layers; a setting that lists something for each layer (ModernBERT's layer_types) keeps those of the chosen ones."""
    config = deepcopy(config)
    text = config.get_text_config()
    for name, value in text.to_dict().items():
        if "layer" in name and isinstance(value, list | tuple) and len(value) == depth:
            setattr(text, name, [value[k] for k in chosen])
    text.num_hidden_layers = len(chosen)
    return config


def _renumbered(state: dict[str, Any], path: str, chosen: Sequence[int]) -> dict[str, Any]:
    place = {old: new for new, old in enumerate(chosen)}
    pattern = re.compile(rf"(^|.*\.)({re.escape(path)})\.(\d+)\.(.*)")
    kept = {}
    for key, tensor in state.items():
        if not (found := pattern.fullmatch(key)):
            kept[key] = tensor
        elif int(found[3]) in place:
            kept[f"{found[1]}{found[2]}.{place[int(found[3])]}.{found[4]}"] = tensor
    return kept
