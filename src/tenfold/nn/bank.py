"""The single owner of a group's factors."""

import warnings
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from tenfold.forms import Form, Product

BANKS = "factor_banks"
"""The attribute of the base model that holds them all, and so the first word of their keys in a state dict."""


class FactorBank(nn.Module):
    """The factors of n tiles of (i, o) as parameters, once; the layers that use them hold an unregistered reference.

    `products` is what the layers multiply with. While the base model runs it is made once for all of them: a tucker's
    P C costs as much as many tokens, and slicing a stacked parameter in every layer would cost a full-size zero gradient
    for each slice. Outside of the base model's forward (a layer called by itself, a checkpointed block run again in the
    backward pass) it is made on demand, apart from what autograd saves there: gradient checkpointing wants the second run
    of a block to save what the first did.
    """

    def __init__(self, form: Form, n: int, i: int, o: int) -> None:
        super().__init__()
        form.check(n, i, o)
        self.form, self.n, self.i, self.o = form, n, i, o
        self._held: tuple[Product, ...] | None = None
        self._folded: tuple[int, ...] | None = None
        self._idle = False
        for name, shape in form.shapes(n, i, o).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def factors(self) -> dict[str, Tensor]:
        return dict(self.named_parameters(recurse=False))

    def products(self) -> tuple[Product, ...]:
        if self._held is not None:
            return self._held
        apart = nullcontext() if torch.compiler.is_compiling() else saved_tensors_hooks(_as_it_is, _as_it_is)
        with apart:
            return self.form.products(self.factors())

    def matrix(self, g: int) -> Tensor:
        return self.form.matrix(self.factors(), g)

    @torch.no_grad()
    def fill_(self, factors: Mapping[str, Tensor]) -> None:
        """Copy values in; the names and shapes must be the form's."""
        own = self.factors()
        assert own.keys() == factors.keys()
        for name, value in factors.items():
            assert own[name].shape == value.shape, (name, own[name].shape, value.shape)
            own[name].copy_(value)

    def hold(self) -> None:
        self._forget_if_changed()
        if self._folded is not None and torch.is_grad_enabled() and not torch.compiler.is_compiling():
            warnings.warn("optimize_ serves calls without gradients only: use torch.inference_mode()", stacklevel=2)
        if not (self._idle and self._folded is not None and not torch.is_grad_enabled()):
            self._held = self.form.products(self.factors())

    def release(self) -> None:
        self._held = None

    @property
    def folded(self) -> bool:
        """Whether layers may use the constants that were made of the factors."""
        return self._folded is not None

    def fold_(self, idle: bool) -> None:
        """Constants were made of the factors as they are now. `idle`: all layers have theirs, so no products are needed."""
        self._folded, self._idle = self._versions(), idle

    def unfold_(self) -> None:
        self._folded, self._idle = None, False

    def _versions(self) -> tuple[int, ...]:
        """How often each factor was written to."""
        return tuple(-1 if factor.is_inference() else factor._version for factor in self.parameters(recurse=False))

    def _forget_if_changed(self) -> None:
        if self._folded is not None and not torch.compiler.is_compiling() and self._folded != self._versions():
            self.unfold_()
            warnings.warn("factors changed after optimize_: their constants are not used any more, call it again", stacklevel=2)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._forget_if_changed()
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if self._folded is not None:
            self._folded = self._versions()
        return moved

    def __getstate__(self) -> dict[str, Any]:
        self._forget_if_changed()
        return self.__dict__.copy()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self._folded is not None:
            self._folded = self._versions()

    def extra_repr(self) -> str:
        return f"{self.form}, n={self.n}, i={self.i}, o={self.o}"


def _as_it_is(saved: Tensor) -> Tensor:
    return saved


def hold_during_forward(model: nn.Module) -> None:
    """Let every forward pass of the base model make its banks' products once."""
    model.register_forward_pre_hook(_hold)
    model.register_forward_hook(_release, always_call=True)


def _banks(model: nn.Module) -> Iterable[FactorBank]:
    return getattr(model, BANKS).children()


def _hold(model: nn.Module, args: Any) -> None:  # noqa: ARG001 - the signature of a hook
    for bank in _banks(model):
        bank.hold()


def _release(model: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG001
    for bank in _banks(model):
        bank.release()
