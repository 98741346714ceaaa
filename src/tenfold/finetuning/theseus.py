"""Module replacing: a student's blocks stand in, by chance, for groups of its teacher's (BERT-of-Theseus, 2002.02925)."""

from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from tenfold.errors import TenfoldError
from tenfold.finetuning.blocks import block_list
from tenfold.finetuning.settings import Theseus
from tenfold.nn.bank import BANKS


class Replacing:
    """In training, block k of the student runs with probability p, else the teacher's blocks k m to (k + 1) m - 1, m = depth of
    the teacher / depth of the student. In eval mode the student is itself.

    Draws come from torch's random state. The teacher's blocks do not learn; gradients pass through them.
    """

    def __init__(self, student: Any, teacher: Any, p: float) -> None:
        self.student, self.teacher, self.p = student, teacher.eval().requires_grad_(False), p
        ours, theirs = (list(block_list(model)[1]) for model in (student, teacher))
        _refuse(student, teacher, len(ours), len(theirs))
        width = len(theirs) // len(ours)
        self.blocks = ours
        for k, block in enumerate(ours):
            block.forward = self._either(block.forward, theirs[k * width : (k + 1) * width])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for block in self.blocks:
            del block.forward  # the class's own shows again

    def _either(self, own: Any, others: list[nn.Module]) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            if not self.student.training or torch.rand(()) < self.p:
                return own(*args, **kwargs)
            return _chain(others, args, kwargs)

        return forward


def _chain(blocks: list[nn.Module], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One block after the other, all with what the first was given, but for a decoder's cache, which is the student's."""
    kwargs = {key: None if key.startswith("past_key_value") else value for key, value in kwargs.items()}
    output: Any = None
    for block in blocks:
        if output is not None:
            hidden = output if isinstance(output, Tensor) else output[0]
            args, kwargs = ((hidden, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": hidden})
        output = block(*args, **kwargs)
    return output


def _refuse(student: Any, teacher: Any, ours: int, theirs: int) -> None:
    if theirs % ours:
        raise TenfoldError(
            f"module replacing gives each layer of the student as many of the teacher's, got {ours} and {theirs}: trim the "
            "student to a depth that divides the teacher's"
        )
    a, b = (model.config.get_text_config() for model in (student, teacher))
    if (a.model_type, a.hidden_size) != (b.model_type, b.hidden_size):
        raise TenfoldError(
            f"module replacing needs blocks that fit each other, got {a.model_type} of width {a.hidden_size} and "
            f"{b.model_type} of width {b.hidden_size}: take a student of the teacher's family and width"
        )
    if len(set(getattr(b, "layer_types", None) or [None])) > 1:
        raise TenfoldError(
            f"module replacing gives all blocks of a group the same mask, got {b.model_type}, whose layers differ in theirs: "
            "take kd or pkd"
        )


@torch.no_grad()
def inherit_(student: Any, teacher: Any) -> set[int]:
    """Embeddings, pooler and head from the teacher, where name and shape agree; the ids of the parameters that are left."""
    inside = f"{block_list(student)[0]}."
    theirs, left = dict(teacher.named_parameters()), set()
    for name, parameter in student.named_parameters():
        below = name.removeprefix(f"{student.base_model_prefix}.")
        if BANKS in name.split(".") or below.startswith(inside):
            left.add(id(parameter))
        elif name in theirs and theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name])
    return left


class Schedule(TrainerCallback):  # type: ignore[misc]
    """p at step s of n: min(1, start + (1 - start) s / (share n))."""

    def __init__(self, replacing: Replacing, settings: Theseus) -> None:
        self.replacing, self.settings = replacing, settings

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        start, until = self.settings.start, self.settings.share * state.max_steps
        self.replacing.p = min(1.0, start + (1 - start) * state.global_step / until)
