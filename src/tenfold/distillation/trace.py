"""What a model's layers compute, kept by hooks during one forward pass: the model's own fused attention stays as it is.

Layers are counted so that one map serves everything: 0 is the embedding output, layer k in 1..depth is the k-th block, with
`hidden[k]` what it puts out and `queries[k]`, `keys[k]`, `values[k]`, `scores[k]` what is made inside of it; -1 is the last.
The last hidden state is the model's output, after its final norm where it has one; those before are what the next block reads.
Queries and keys are as projected, before rotary positions and norms of their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from tenfold.distillation.blocks import arguments, find_blocks, head_size, unwrap
from tenfold.distillation.losses import EMBEDDING, HIDDEN, LABELS, LAST_HIDDEN, LOGITS, SCORES, VECTORS, loss_named
from tenfold.distillation.parts import at_least_float32, pair_mask
from tenfold.errors import TenfoldError

FUSED = "qkv"
INTERLEAVED = {"gpt_neox"}
"""Families whose fused matrix gives queries, keys and values head by head; the others give three blocks of columns."""
OUTPUT, STACK = ("output", 0), ("stack", 0)

Key = tuple[str, int]


@dataclass(frozen=True)
class Wanted:
    """The layers of each kind of tensor (hidden, queries, keys, values, scores), and whether the head's logits are needed."""

    layers: dict[str, frozenset[int]]
    logits: bool = False

    @classmethod
    def of(cls, losses: Mapping[str, Iterable[int]]) -> Self:
        """What losses read: by name, each with the layers that it compares (none for a loss of the whole model)."""
        layers: dict[str, set[int]] = {}
        for name, chosen in losses.items():
            for what in loss_named(name).reads:
                if what in (HIDDEN, SCORES, *VECTORS):
                    layers.setdefault(what, set()).update(chosen)
                elif what in (EMBEDDING, LAST_HIDDEN):
                    layers.setdefault(HIDDEN, set()).add(0 if what == EMBEDDING else -1)
        logits = any({LOGITS, LABELS} & set(loss_named(name).reads) for name in losses)
        return cls({what: frozenset(chosen) for what, chosen in layers.items()}, logits)


@dataclass
class Trace:
    """The tensors of one forward pass. `mask` (b, t) is true at real tokens; `labels` are those of the batch."""

    depth: int
    mask: Tensor
    causal: bool = False
    hidden: dict[int, Tensor] = field(default_factory=dict)
    queries: dict[int, Tensor] = field(default_factory=dict)
    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    scores: dict[int, Tensor] = field(default_factory=dict)
    logits: Tensor | None = None
    labels: Tensor | None = None

    @property
    def pairs(self) -> Tensor:
        """(b, t, t): true where a real query sees a real key."""
        return pair_mask(self.mask, self.causal)

    def read(self, what: str, layer: int = -1) -> Tensor:
        """A field by the name under which a loss reads it."""
        if what in (LOGITS, LABELS):
            found = self.logits if what == LOGITS else self.labels
        else:
            layer = {EMBEDDING: 0, LAST_HIDDEN: self.depth}.get(what, layer if layer >= 0 else self.depth + 1 + layer)
            kept: dict[int, Tensor] = getattr(self, HIDDEN if what in (EMBEDDING, LAST_HIDDEN) else what)
            found = kept.get(layer)
        if found is None:
            where = "the batch had none" if what == LABELS else "it was not wanted"
            raise TenfoldError(
                f"a loss reads what was kept, got no {what}{'' if what in (LOGITS, LABELS) else f' of layer {layer}'}: {where}"
            )
        return found


def trace(model: Any, batch: Mapping[str, Tensor], wanted: Wanted, family: str | None = None) -> Trace:
    """One forward pass of `model` (base or with a head, dense or factored, wrapped by DDP or not) and what was wanted of it.

    The caller chooses no_grad, eval mode and autocast. For many batches, and always under torch.compile, keep a `Tracer`.
    """
    with Tracer(model, wanted, family) as tracer:
        return tracer(batch, through=None if unwrap(model) is model else model)


class Tracer:
    """The hooks of `trace`, put on once: before torch.compile, which need not look for hooks that come later."""

    def __init__(self, model: Any, wanted: Wanted, family: str | None = None) -> None:
        self.model = unwrap(model)
        self.blocks = find_blocks(self.model, family)
        self.logits = wanted.logits
        self.layers = {what: self._resolved(what, chosen) for what, chosen in wanted.layers.items()}
        if self.logits and self.model.base_model is self.model:
            raise TenfoldError(f"logits need a model with a head, got {type(self.model).__name__}: load it for its task")
        if self.layers.get(SCORES):
            self.blocks.check_scores()
        self._seen: dict[Key, Tensor] = {}
        self._recording = False
        self._handles = [
            *(self._before(self.blocks.modules[k], (HIDDEN, k)) for k in self.layers.get(HIDDEN, []) if k < self.blocks.depth),
            *(self._after(module, key) for key, module in self._projections().items()),
            self._after(self.blocks.owner, STACK),
            self._after(self.model.base_model, OUTPUT),
        ]

    def __call__(self, batch: Mapping[str, Tensor], through: Any = None) -> Trace:
        """A pass of the model, without its head where no logits are wanted; or of a wrapper, `through` which it must go.

        Labels are kept apart: the model does not compute a loss of its own.
        """
        if through is None:
            through = self.model if self.logits else self.model.base_model
        self._recording = True
        try:
            output = through(**arguments(self.model, batch))
            return self._trace(output, batch)
        finally:
            self._recording = False
            self._seen.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _resolved(self, what: str, layers: Iterable[int]) -> list[int]:
        depth, lowest = self.blocks.depth, 0 if what == HIDDEN else 1
        found = {layer if layer >= 0 else depth + 1 + layer for layer in layers}
        if wrong := sorted(layer for layer in found if not lowest <= layer <= depth):
            raise TenfoldError(f"{what} can be had of layers {lowest} to {depth} of this model, got {wrong}")
        return sorted(found)

    def _projections(self) -> dict[Key, nn.Module]:
        found: dict[Key, nn.Module] = {}
        for what, name in zip(VECTORS, "qkv", strict=True):
            scores = self.layers.get(SCORES, []) if name != "v" else []
            for layer in {*self.layers.get(what, []), *scores}:
                fused = self.blocks.site(layer, f"attn.{FUSED}")
                if fused is None:
                    found[what, layer] = self.blocks.required(layer, f"attn.{name}")
                else:
                    found[FUSED, layer] = fused
        return found

    def _before(self, module: nn.Module, key: Key) -> Any:
        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG001
            if self._recording:
                self._seen.setdefault(key, args[0] if args else kwargs["hidden_states"])

        return module.register_forward_pre_hook(keep, with_kwargs=True)

    def _after(self, module: nn.Module, key: Key) -> Any:
        """Keeps the first call's output: DeBERTa sends its relative positions through q and k after the tokens.

        Nothing is computed here: gradient checkpointing runs blocks twice and wants the same each time.
        """

        def keep(module: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG001
            if self._recording:
                self._seen.setdefault(key, output if isinstance(output, Tensor) else output[0])

        return module.register_forward_hook(keep)

    def _trace(self, output: Any, batch: Mapping[str, Tensor]) -> Trace:
        last = self._kept(OUTPUT if OUTPUT in self._seen else STACK)  # OPT's causal head does not call the base model
        mask = batch.get("attention_mask")
        mask = torch.ones(last.shape[:2], dtype=torch.bool, device=last.device) if mask is None else mask.bool()
        if mask.shape != last.shape[:2]:
            raise TenfoldError(f"a mask says which of the tokens {tuple(last.shape[:2])} are real, got {tuple(mask.shape)}")
        made = Trace(self.blocks.depth, mask, self.blocks.causal, labels=batch.get(LABELS))
        made.hidden = {k: self._kept((HIDDEN, k)) if k < made.depth else last for k in self.layers.get(HIDDEN, [])}
        for index, what in enumerate(VECTORS):
            setattr(made, what, {layer: self._vectors(index, layer) for layer in self.layers.get(what, [])})
        made.scores = {layer: self._scores(layer, last) for layer in self.layers.get(SCORES, [])}
        if self.logits:
            made.logits = getattr(output, LOGITS, None)
            if made.logits is None:
                raise TenfoldError(f"{type(self.model).__name__} gives no logits: take hidden states, vectors or relations")
        return made

    def _kept(self, key: Key) -> Tensor:
        if key not in self._seen:
            raise TenfoldError(
                f"hooks must run in every pass, got none for {key[0]} {key[1]}: make the Tracer before torch.compile"
            )
        return self._seen[key]

    def _vectors(self, index: int, layer: int) -> Tensor:
        size = head_size(self.model)
        fused = self._seen.get((FUSED, layer))
        if fused is None:
            return self._kept((VECTORS[index], layer)).unflatten(-1, (-1, size)).transpose(1, 2)
        if self.blocks.family.name in INTERLEAVED:
            return fused.unflatten(-1, (-1, 3, size)).select(-2, index).transpose(1, 2)
        return fused.unflatten(-1, (3, -1, size)).select(-3, index).transpose(1, 2)

    def _scores(self, layer: int, last: Tensor) -> Tensor:
        """Queries times keys, scaled (GPT-2 has switches for that), plus MPNet's bias of positions."""
        config, size = self.model.config, head_size(self.model)
        scale = size**-0.5 if getattr(config, "scale_attn_weights", True) else 1.0
        scale = scale / layer if getattr(config, "scale_attn_by_inverse_layer_idx", False) else scale
        with torch.autocast(last.device.type, enabled=False):
            queries, keys = (at_least_float32(self._vectors(index, layer)) for index in (0, 1))
            scores = queries @ keys.transpose(-1, -2) * scale
            bias = getattr(self.blocks.owner, "compute_position_bias", None)
            return scores if bias is None else scores + bias(last[:1])
