"""Constants of a few layers that read the same x, and how each layer gets its output from them."""

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.runtime.fold import Folded, add_terms


@dataclass(frozen=True)
class _Memo:
    """The left products of one x, kept until the last layer that reads it. It does not keep x alive."""

    x: "weakref.ref[Tensor]"
    version: int
    lefts: list[Tensor]

    def holds(self, x: Tensor) -> bool:
        return self.x() is x and self.version == _version(x)


class Bundle(nn.Module):
    """The constants as buffers that a state dict leaves out: they move with the model and are never saved.

    The left products are worked out by the first layer that comes with an x and taken by the others. In a graph that is
    compiled every layer writes them down for itself and the compiler finds that they are the same.
    """

    def __init__(self, folded: Folded) -> None:
        super().__init__()
        for number, step in enumerate(folded.steps()):
            self.register_buffer(f"weight_{number}", step.weight.detach(), persistent=False)
        self._folded = folded
        self._memo: _Memo | None = None
        self._point()

    @property
    def macs(self) -> int:
        """Multiply-adds a token, for all its layers together."""
        return self._folded.macs

    def site(self, index: int, x: Tensor, bias: Tensor | None) -> Tensor:
        """The output of layer number `index`."""
        folded = self._folded
        if torch.compiler.is_compiling():  # through the buffers: what a compiler knows not to change
            folded = folded.with_weights(self.buffers(recurse=False))
            return add_terms(folded.sites[index], x, [step(x) for step in folded.lefts], bias)
        return add_terms(folded.sites[index], x, self._lefts(index, x), bias)

    def _lefts(self, index: int, x: Tensor) -> list[Tensor]:
        folded, memo = self._folded, self._memo  # read once: another thread may be at work
        if not folded.lefts or len(folded.sites) == 1:
            return [step(x) for step in folded.lefts]
        if memo is None or not memo.holds(x):
            memo = _Memo(weakref.ref(x), _version(x), [step(x) for step in folded.lefts])
        self._memo = None if index == len(folded.sites) - 1 else memo
        return memo.lefts

    def _point(self) -> None:
        """The terms multiply with the buffers, wherever these went."""
        self._folded, self._memo = self._folded.with_weights(self.buffers(recurse=False)), None

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._point()
        return moved

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_memo": None}

    def extra_repr(self) -> str:
        return " ".join(str(tuple(step.weight.shape)) for step in self._folded.steps())


class Shortcut(nn.Module):
    """Layer number `index` of a bundle: of a module with the method `site`."""

    def __init__(self, bundle: Any, index: int) -> None:
        super().__init__()
        self.bundle, self.index = bundle, index

    def forward(self, x: Tensor, bias: Tensor | None) -> Tensor:
        return self.bundle.site(self.index, x, bias)


def _version(x: Tensor) -> int:
    """How often x was written to, where that is counted."""
    return -1 if x.is_inference() else x._version
