"""Which layers read the same x: seen in one forward pass, not told by names."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.modules import factored_layers
from tenfold.nn import FactoredLinear
from tenfold.runtime.ways import Readers


def find_readers(base: nn.Module, inputs: Mapping[str, Any] | None = None) -> list[Readers]:
    """All factored linear layers, those together that read one tensor, in the order in which they run.

    Only layers of one bank that run once a pass go together: DeBERTa's keys run on tokens and on positions.
    """
    layers = _linears(base)
    calls = _watch(base, layers, probe(base) if inputs is None else inputs)
    together: dict[Any, list[str]] = {}
    for path, layer in layers.items():
        seen = calls.get(path, [])
        key = (id(layer.bank), *_name(seen[0])) if len(seen) == 1 else path
        together.setdefault(key, []).append(path)
    order = {path: number for number, path in enumerate(calls)}
    ordered = [sorted(paths, key=lambda path: order.get(path, 0)) for paths in together.values()]
    return [Readers(tuple(paths), tuple(layers[path] for path in paths)) for paths in ordered]


def lone_readers(base: nn.Module) -> list[Readers]:
    """Each layer by itself."""
    return [Readers((path,), (layer,)) for path, layer in _linears(base).items()]


def probe(base: Any) -> dict[str, Tensor]:
    """The smallest input that the model takes."""
    config, device = base.config, base.device
    if base.main_input_name == "pixel_values":
        size = config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        return {"pixel_values": torch.zeros(1, config.num_channels, height, width, device=device, dtype=base.dtype)}
    ids = torch.zeros(1, 2, dtype=torch.long, device=device)
    return {base.main_input_name: ids, "attention_mask": torch.ones_like(ids)}


def _watch(base: nn.Module, layers: Mapping[str, nn.Module], inputs: Mapping[str, Any]) -> dict[str, list[tuple[Tensor, int]]]:
    """What each layer was called with: the tensor, and how often it had been written to by then."""
    calls: dict[str, list[tuple[Tensor, int]]] = {}

    def note(path: str) -> Any:
        return lambda _, args: calls.setdefault(path, []).append((args[0], args[0]._version))

    hooks = [layer.register_forward_pre_hook(note(path)) for path, layer in layers.items()]
    try:
        with torch.inference_mode(False), torch.no_grad():
            base(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def _name(call: tuple[Tensor, int]) -> tuple[int, int]:
    return id(call[0]), call[1]


def _linears(base: nn.Module) -> dict[str, FactoredLinear]:
    return {path: layer for path, layer in factored_layers(base).items() if isinstance(layer, FactoredLinear)}
