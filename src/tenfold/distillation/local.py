"""Block-local matching: every block of the student is fed what the teacher's block reads, so that all train independently.

A fast first phase: no error runs from block to block, and the gradient of one block's loss reaches that block only (and what
blocks share: factor banks, MPNet's bias of positions, DeBERTa's relative embeddings).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from tenfold.distillation.blocks import arguments, find_blocks, unwrap
from tenfold.distillation.losses import hidden_mse
from tenfold.distillation.matching import layer_map
from tenfold.distillation.parts import Part
from tenfold.errors import TenfoldError


def block_local(
    student: Any,
    teacher: Any,
    batch: Mapping[str, Tensor],
    layers: Iterable[int] | None = None,
    choice: str | Mapping[int, int] | None = None,
    scales: Mapping[int, float] | None = None,
    family: str | None = None,
) -> dict[int, Part]:
    """{student layer: MSE between what its block and the teacher's put out}; for many batches keep a `BlockLocal`."""
    with BlockLocal(student, teacher, layers, choice, scales, family) as local:
        return local(batch, through=None if unwrap(student) is student else student)


class BlockLocal:
    """The hooks of block-local matching, put on once: before torch.compile, as those of a `Tracer`.

    The student runs its own forward pass, in which the input of block k is replaced by what the teacher's layer map[k - 1]
    hands on; its output is compared with that of the teacher's block map[k]. So masks and positions are the student's own, a
    bank's products are made once, depths may differ, and DDP sees an ordinary pass. Outputs are those of blocks, before a final
    norm. scales: the variance of the teacher's output by student layer (`Spread`).
    """

    def __init__(
        self,
        student: Any,
        teacher: Any,
        layers: Iterable[int] | None = None,
        choice: str | Mapping[int, int] | None = None,
        scales: Mapping[int, float] | None = None,
        family: str | None = None,
    ) -> None:
        self.student, self.teacher, self.scales = unwrap(student), unwrap(teacher), scales or {}
        own, other = find_blocks(self.student, family), find_blocks(self.teacher, family)
        self.pairs = _pairs(layer_map(own.depth, other.depth, choice), own.depth, layers)
        self._recording = False
        self._inputs: dict[int, Tensor] = {}
        self._targets: dict[int, Tensor] = {}
        self._outputs: dict[int, Tensor] = {}
        self._handles = []
        for k, (source, target) in self.pairs.items():
            self._handles += [
                other.modules[source].register_forward_pre_hook(self._keep_input(k), with_kwargs=True),
                other.modules[target - 1].register_forward_hook(self._keep_output(k, self._targets)),
                own.modules[k - 1].register_forward_pre_hook(self._replace_input(k), with_kwargs=True),
                own.modules[k - 1].register_forward_hook(self._keep_output(k, self._outputs)),
            ]

    def __call__(self, batch: Mapping[str, Tensor], through: Any = None) -> dict[int, Part]:
        if self.teacher.training:
            raise TenfoldError("a teacher answers without dropout, got one in training mode: call teacher.eval()")
        if self.student.training and any(getattr(m, "gradient_checkpointing", False) for m in self.student.modules()):
            raise TenfoldError(
                "block-local matching cannot run blocks again with inputs that are not theirs: turn gradient checkpointing off"
            )
        self._recording = True
        try:
            with torch.no_grad():
                self.teacher.base_model(**arguments(self.teacher, batch))
            (self.student.base_model if through is None else through)(**arguments(self.student, batch))
            return {k: self._part(k, batch.get("attention_mask")) for k in self.pairs}
        finally:
            self._recording = False
            for kept in (self._inputs, self._targets, self._outputs):
                kept.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _part(self, k: int, mask: Tensor | None) -> Part:
        if k not in self._outputs:
            raise TenfoldError(
                f"hooks must run in every pass, got none for layer {k}: make the BlockLocal before torch.compile"
            )
        output = self._outputs[k]
        mask = torch.ones_like(output[..., 0], dtype=torch.bool) if mask is None else mask
        return hidden_mse(output, self._targets[k], mask, self.scales.get(k, 1.0))

    def _keep_input(self, k: int) -> Any:
        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:  # noqa: ARG001
            if self._recording:
                self._inputs[k] = (args[0] if args else kwargs["hidden_states"]).detach()

        return keep

    def _keep_output(self, k: int, kept: dict[int, Tensor]) -> Any:
        def keep(module: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG001
            if self._recording:
                kept[k] = output if isinstance(output, Tensor) else output[0]

        return keep

    def _replace_input(self, k: int) -> Any:
        def replace(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
            if not self._recording:
                return None
            old: Tensor = args[0] if args else kwargs["hidden_states"]
            new = self._inputs[k].to(old.dtype)
            if new.shape != old.shape:
                raise TenfoldError(
                    f"block-local matching feeds the teacher's states to the student, got widths {old.shape[-1]} of the "
                    f"student and {new.shape[-1]} of the teacher: take a student as wide, or losses with a projection"
                )
            return ((new, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": new})

        return replace


def _pairs(pairs: Mapping[int, int], depth: int, layers: Iterable[int] | None) -> dict[int, tuple[int, int]]:
    """{student layer: (the teacher's layer whose output it is fed, the one whose output it copies)}."""
    pairs = {0: 0, **pairs}
    chosen = range(1, depth + 1) if layers is None else [k if k >= 0 else depth + 1 + k for k in layers]
    for k in chosen:
        if not 1 <= k <= depth or not {k - 1, k} <= pairs.keys() or pairs[k - 1] >= pairs[k]:
            raise TenfoldError(
                f"block-local matching of layer {k} needs a later layer of the teacher for it than for layer {k - 1}, got "
                f"{pairs}: give a map of every layer (uniform), or leave this one out"
            )
    return {k: (pairs[k - 1], pairs[k]) for k in chosen}
