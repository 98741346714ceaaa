"""What of a model goes into an ONNX graph: inputs, outputs by name, and factors that are folded inside of it.

The graph holds the factors and the products that fold them (tenfold.runtime.fold). A runtime works these out once, when it
loads the file, so the file is small and the session computes with folded constants.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.runtime import restore_
from tenfold.runtime.bundle import Shortcut
from tenfold.runtime.fold import Folded, add_terms, fold
from tenfold.runtime.reading import find_readers, lone_readers
from tenfold.runtime.ways import Readers

BATCH, LENGTH = 3, 7
"""Of the traced example: sizes that a graph cannot mistake for constants of its own."""


class Traced(nn.Module):
    """Layers that read the same x, folded anew in every trace: constants of the factors become nodes of the graph."""

    def __init__(self, readers: Readers) -> None:
        super().__init__()
        object.__setattr__(self, "_readers", readers)
        self._memo: tuple[Tensor, Folded, list[Tensor]] | None = None

    def site(self, index: int, x: Tensor, bias: Tensor | None) -> Tensor:
        readers: Readers = self._readers  # type: ignore[assignment]
        if self._memo is None or self._memo[0] is not x:
            folded = fold(readers.bank.products(), [layer.grid for layer in readers.layers])
            self._memo = x, folded, [step(x) for step in folded.lefts]
        _, folded, lefts = self._memo
        if index == len(readers.layers) - 1:
            self._memo = None
        return add_terms(folded.sites[index], x, lefts, bias)


class Positional(nn.Module):
    """A model called with its inputs in a fixed order, whose outputs are its tensors alone."""

    def __init__(self, model: Any, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs, self.outputs = model, inputs, outputs

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        found = self.model(**dict(zip(self.inputs, values, strict=True)))
        return tuple(found[name] for name in self.outputs)


@contextmanager
def folding_in_the_graph(model: Any) -> Iterator[None]:
    """Let the layers of a compressed model be traced as folds of its factors; nothing happens to a dense one."""
    try:
        readers = find_readers(model.base_model)
    except Exception:  # a model that wants other inputs than the smallest: every layer by itself
        readers = lone_readers(model.base_model)
    for each in readers:
        bundle = Traced(each)
        for index, layer in enumerate(each.layers):
            layer.shortcut = Shortcut(bundle, index)
            layer.bank.fold_(idle=False)
    try:
        yield
    finally:
        restore_(model)


def example(model: Any, batch: int = BATCH, length: int = LENGTH, seed: int = 0) -> dict[str, Tensor]:
    """Random inputs; every row after the first ends in padding."""
    generator, config = torch.Generator().manual_seed(seed), model.config
    if model.main_input_name == "pixel_values":
        size = config.image_size
        height, width = (size, size) if isinstance(size, int) else size
        return {"pixel_values": torch.randn(batch, config.num_channels, height, width, generator=generator)}
    ids = torch.randint(1, config.vocab_size, (batch, length), generator=generator)
    lengths = torch.randint((length + 1) // 2, length + 1, (batch,), generator=generator)
    lengths[0] = length
    found = {"input_ids": ids, "attention_mask": (torch.arange(length) < lengths[:, None]).long()}
    if takes_segments(model):
        found["token_type_ids"] = torch.randint(config.type_vocab_size, (batch, length), generator=generator)
    return found


def takes_segments(model: Any) -> bool:
    """Whether the model tells the first text of a pair from the second by ids."""
    return getattr(model.config, "type_vocab_size", 0) > 1 and "token_type_ids" in inspect.signature(model.forward).parameters


def axes(name: str) -> dict[int, str]:
    """The axes of an input that may have any size."""
    return {0: "batch"} if name == "pixel_values" else {0: "batch", 1: "length"}


@torch.no_grad()
def output_names(model: Any, inputs: dict[str, Tensor]) -> tuple[str, ...]:
    """The tensors among a model's outputs."""
    return tuple(name for name, value in model(**inputs).items() if isinstance(value, Tensor))
