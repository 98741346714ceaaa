"""Constants of a few layers that read the same x, and how each layer gets its output from them."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.runtime.fold import Folded, add_terms, joined


class Constants(nn.Module):
    """What is multiplied with, as buffers that a state dict leaves out: they move with the model and are never saved."""

    def __init__(self, folded: Folded) -> None:
        super().__init__()
        for number, step in enumerate(folded.steps()):
            self.register_buffer(f"weight_{number}", step.weight.detach().contiguous(), persistent=False)
        self._folded = folded
        self._point()

    @property
    def folded(self) -> Folded:
        """It multiplies with the buffers, wherever these went."""
        if torch.compiler.is_compiling():  # through the buffers: what a compiler knows not to change
            return self._folded.with_weights(self.buffers(recurse=False))
        return self._folded

    def _point(self) -> None:
        self._folded = self._folded.with_weights(self.buffers(recurse=False))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._point()
        return moved

    def extra_repr(self) -> str:
        return " ".join(str(tuple(step.weight.shape)) for step in self._folded.steps())


@dataclass(frozen=True)
class _Memo:
    """The left products of one x, kept until the last layer that reads it. It does not keep x alive."""

    x: "weakref.ref[Tensor]"
    version: int
    lefts: list[Tensor]

    def holds(self, x: Tensor) -> bool:
        return self.x() is x and self.version == _version(x)


class Bundle(nn.Module):
    """Layers that are called one by one.

    The left products are worked out by the first layer that comes with an x and taken by the others. In a graph that is
    compiled every layer writes them down for itself and the compiler finds that they are the same.
    """

    def __init__(self, folded: Folded) -> None:
        super().__init__()
        self.constants = Constants(folded)
        self._memo: _Memo | None = None

    @property
    def macs(self) -> int:
        """Multiply-adds a token, for all its layers together."""
        return self.constants.folded.macs

    def site(self, index: int, x: Tensor, bias: Tensor | None) -> Tensor:
        """The output of layer number `index`."""
        folded = self.constants.folded
        lefts = [step(x) for step in folded.lefts] if torch.compiler.is_compiling() else self._lefts(folded, index, x)
        return add_terms(folded.sites[index], x, lefts, bias)

    def _lefts(self, folded: Folded, index: int, x: Tensor) -> list[Tensor]:
        memo = self._memo  # read once: another thread may be at work
        if not folded.lefts or len(folded.sites) == 1:
            return [step(x) for step in folded.lefts]
        if memo is None or not memo.holds(x):
            memo = _Memo(weakref.ref(x), _version(x), [step(x) for step in folded.lefts])
        self._memo = None if index == len(folded.sites) - 1 else memo
        return memo.lefts

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._memo = None
        return moved

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_memo": None}


class Joined(nn.Module):
    """Layers that are called together: x -> their outputs side by side, in one product where they multiply the same."""

    bias: Tensor | None

    def __init__(self, folded: Folded, biases: Sequence[Tensor | None], widths: Sequence[int]) -> None:
        super().__init__()
        one = joined(folded)
        self.widths = list(widths) if len(one.sites) == 1 else None
        self.constants = Constants(one)
        rows = [one.steps()[0].weight.new_zeros(width) if b is None else b for b, width in zip(biases, widths, strict=True)]
        self.register_buffer("bias", torch.cat([row.detach() for row in rows]), persistent=False)
        self._starts = [sum(widths[:number]) for number in range(len(widths) + 1)]

    def forward(self, x: Tensor) -> list[Tensor]:
        folded, bias = self.constants.folded, self.bias
        assert bias is not None
        lefts = [step(x) for step in folded.lefts]
        if self.widths is not None:
            return list(add_terms(folded.sites[0], x, lefts, bias).split(self.widths, dim=-1))
        return [
            add_terms(terms, x, lefts, bias[low:high])
            for terms, low, high in zip(folded.sites, self._starts, self._starts[1:], strict=False)
        ]


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
