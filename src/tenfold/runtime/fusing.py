"""An encoder computed whole, inside the ordinary model: its layers as one chain of blocks on the real tokens alone.

`install_` gives the module that holds the layers another forward. The model around it stays: embeddings, pooler, heads, outputs
and their types. Whatever a chain cannot give (hidden states of every layer, attentions, masks with holes, gradients) takes the
ordinary way through the layers, which is said once. At padding the outputs are zeros, where the ordinary ones mean nothing.
"""

import copy
import inspect
import warnings
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.nn import FactorBank, FactoredLinear
from tenfold.runtime.blocks import KernelChain, TorchChain
from tenfold.runtime.encoders import Encoder, NoBlocks, position_bias
from tenfold.runtime.graphs import TOKENS, Graphs, bucket
from tenfold.runtime.kernels import Packing
from tenfold.runtime.padding import Runs, Unpacked, runs

CHILD = "whole"
"""What the chain is called in the module of the layers."""
HARMLESS = ("input_ids", "inputs_embeds", "attention_mask", "token_type_ids", "position_ids", "return_dict")
"""Arguments of a base model that do not change what its layers compute from their input and the mask."""
CAPTURING = "transformers.utils.output_capturing"

Chain = KernelChain | TorchChain


@dataclass(frozen=True, eq=False)
class _Call:
    """What the base model was called with, for the encoder inside it."""

    of: "Whole"
    given: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Around:
    """The banks, other weights and modules that a chain stands for, and how often the weights had been written to."""

    banks: tuple[FactorBank, ...]
    weights: tuple[Tensor, ...]
    versions: tuple[int, ...]
    inside: tuple[nn.Module, ...]

    @classmethod
    def of(cls, encoder: Encoder) -> "_Around":
        linears = [each for layer in encoder.layers for each in layer.linears.values()]
        banks = {linear.bank: None for linear in linears if isinstance(linear, FactoredLinear)}
        weights = tuple(encoder.parameters())
        inside = [module for module in encoder.module.children() if not isinstance(module, Whole)]
        return cls(tuple(banks), weights, _versions(weights), tuple(each for module in inside for each in module.modules()))

    @property
    def changed(self) -> bool:
        return self.versions != _versions(self.weights)

    @property
    def hooked(self) -> bool:
        """transformers leaves its own hooks for hidden states behind: they do nothing where none are asked for."""
        hooks = [hook for m in self.inside for each in (m._forward_hooks, m._forward_pre_hooks) for hook in each.values()]
        return any(getattr(hook, "__module__", "") != CAPTURING for hook in hooks)


_call: ContextVar[_Call | None] = ContextVar("call", default=None)


class Whole(nn.Module):
    """The chain of an encoder, and when to take it."""

    _encoder: Encoder

    def __init__(self, encoder: Encoder, chain: Chain, token_0: bool) -> None:
        super().__init__()
        self.chain: Chain | None = chain
        self.__dict__["_encoder"] = encoder  # no child: the encoder holds this module
        self._token_0 = token_0
        self._names = tuple(inspect.signature(encoder.base.forward).parameters)
        self._said: set[str] = set()
        self._forget()
        self._look()

    def _forget(self) -> None:
        self._graphs = Graphs()
        self._bias: tuple[int, Tensor] | None = None
        self._around: _Around | None = None

    def _look(self) -> "_Around":
        """What is around the chain; seen anew by a copy, when it is first called."""
        if self._around is None:
            self._around = _Around.of(self._encoder)
        return self._around

    # What the model calls

    def note(self, base: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG002 - a hook's signature
        """Before the base model's forward."""
        if not torch.compiler.is_compiling():
            _call.set(_Call(self, dict(zip(self._names, args, strict=False)) | kwargs))

    def encode(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """The encoder's forward."""
        encoder = self._encoder
        if torch.compiler.is_compiling():
            return _ordinary(encoder, hidden_states, *args, **kwargs)
        call = _call.get()
        _call.set(None)
        if torch.is_grad_enabled() or not self._holds():
            return _ordinary(encoder, hidden_states, *args, **kwargs)
        try:
            if call is None or call.of is not self:
                raise Unpacked("the encoder called by itself")
            y = self._run(hidden_states, self._runs(call.given, hidden_states))
        except Unpacked as why:
            self._say(str(why))
            return _ordinary(encoder, hidden_states, *args, **kwargs)
        return _wrapped(encoder, y, *args, **kwargs)

    def _runs(self, given: dict[str, Any], x: Tensor) -> Runs:
        """Raises Unpacked where the layers themselves are wanted."""
        config = self._encoder.base.config
        for name in ("output_hidden_states", "output_attentions"):
            wanted = given.get(name)
            if getattr(config, name, False) if wanted is None else wanted:
                raise Unpacked(name)
        for name, value in given.items():
            if name not in HARMLESS and value is not None and value is not False:
                raise Unpacked(name)
        if x.dtype != self._dtype or torch.is_autocast_enabled(x.device.type):
            raise Unpacked("another precision than the constants have")
        if self._look().hooked:
            raise Unpacked("hooks on its layers")
        found = runs(given.get("attention_mask"), *x.shape[:2])
        if self._token_0 and not found.at_start:
            raise Unpacked("padding on the left of what is read there")
        return found

    def full(self, x: Tensor) -> Tensor:
        """The chain of sequences without padding."""
        return self._run(x, Runs((x.shape[1],) * x.shape[0], None, True))

    def _run(self, x: Tensor, real: Runs) -> Tensor:
        chain, longest = self.chain, max(real.lengths)
        packed = real.pack(x)
        if isinstance(chain, KernelChain) and x.is_cuda and len(real.lengths) * bucket(longest) <= TOKENS:
            y = self._graphed(chain, packed, real.lengths, bucket(longest))
        elif isinstance(chain, TorchChain) and x.is_cuda and real.index is None and len(packed) <= TOKENS:
            bias, lengths, torch_chain = self.bias(x, longest), real.lengths, chain
            key = (len(lengths), longest)
            y = self._graphs(key, len(packed), lambda given: torch_chain(given, lengths, bias), packed)
        elif isinstance(chain, TorchChain) and x.is_cuda and len(set(real.lengths)) > 1:
            raise Unpacked("sequences of different lengths on a GPU, which no kernels serve here")
        else:
            assert chain is not None
            y = chain(packed, real.lengths, self.bias(x, longest))
        return real.unpack(y, x)

    def _graphed(self, chain: KernelChain, x: Tensor, lengths: tuple[int, ...], size: int) -> Tensor:
        bias = self.bias(x, size)
        ends = torch.tensor((0, *lengths), dtype=torch.int32).cumsum(0, dtype=torch.int32).to(x.device)

        def compute(given: Tensor, bounds: Tensor) -> Tensor:
            return chain.packed(given, Packing.fixed(bounds, size), bias)

        return self._graphs((len(lengths), size), len(lengths) * size, compute, x, ends)

    def bias(self, x: Tensor, length: int) -> Tensor | None:
        """The last one is kept."""
        kept = self._bias
        if kept is None or kept[0] != length:
            made = position_bias(self._encoder, x, length)
            if made is None:
                return None
            kept = self._bias = length, made.contiguous()
        return kept[1]

    def _say(self, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            warnings.warn(f"{why}: the layers compute one by one, not as whole blocks", stacklevel=4)

    # When it holds

    @property
    def _dtype(self) -> torch.dtype:
        return self._encoder.layers[0].attention_norm.weight.dtype

    def _holds(self) -> bool:
        """Whether the constants are still those of the weights; where not, the encoder gets its own forward back."""
        folded = self.chain is not None and all(bank.folded for bank in self._look().banks)
        if folded and not self._look().changed:
            return True
        if folded:
            warnings.warn("weights changed after optimize_: their constants are not used any more, call it again", stacklevel=4)
        self.remove_()
        return False

    def remove_(self) -> None:
        """Give the encoder its own forward back."""
        module, hooks = self._encoder.module, self._encoder.base._forward_pre_hooks
        if module._modules.pop(CHILD, None) is not None:
            del module.forward
        for key in [key for key, hook in hooks.items() if getattr(hook, "__self__", None) is self]:
            del hooks[key]
            self._encoder.base._forward_pre_hooks_with_kwargs.pop(key, None)

    def train(self, mode: bool = True) -> "Whole":
        if mode:
            self.chain = None
            self._forget()
        return super().train(mode)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        moved = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._forget()
        return moved

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_graphs": None, "_bias": None, "_around": None}
        return state | {"_modules": {"chain": None}} if self._around is not None and self._around.changed else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._graphs = Graphs()

    def extra_repr(self) -> str:
        return "gone" if self.chain is None else ""


@torch.no_grad()
def install_(encoder: Encoder, chain: Chain, token_0: bool) -> None:
    """Let the encoder compute with a chain. token_0: something above reads the first position, padded or not."""
    module = encoder.module
    if "forward" in module.__dict__:
        raise NoBlocks("its encoder has a forward of its own already")
    whole = Whole(encoder, chain, token_0).eval()
    module.add_module(CHILD, whole)
    module.forward = whole.encode
    encoder.base.register_forward_pre_hook(whole.note, with_kwargs=True)


def reads_token_0(model: Any) -> bool:
    """Whether a pooler or head may look at the first position without asking the mask."""
    base = model.base_model
    return base is not model or getattr(base, "pooler", None) is not None


def _ordinary(encoder: Encoder, *args: Any, **kwargs: Any) -> Any:
    return type(encoder.module).forward(encoder.module, *args, **kwargs)


def _wrapped(encoder: Encoder, y: Tensor, *args: Any, **kwargs: Any) -> Any:
    """What the encoder gives for y as its last hidden states: its own forward, without layers."""
    shell = copy.copy(encoder.module)
    shell.__dict__["_modules"] = encoder.module._modules | {encoder.name: nn.ModuleList()}
    if encoder.bias is not None:
        setattr(shell, encoder.bias.rpartition(".")[2], lambda _: None)
    return type(shell).forward(shell, y, *args, **kwargs)


def _versions(tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    return tuple(-1 if tensor.is_inference() else tensor._version for tensor in tensors)
