"""What goes on while a cell trains: which state is kept, when to stop, how far it is."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from tenfold.errors import TenfoldError
from tenfold.finetuning.settings import Finetune

SCORE = "score"


class Diverged(TenfoldError):
    """A loss or an output that is not finite: one cell of a grid may end so, a whole run may not."""


class Best(TrainerCallback):  # type: ignore[misc]
    """Scores every `every` steps and after the last, keeps the weights of the best score (or the last), and ends a run when
    `patience` scores in a row were no better than the best."""

    def __init__(self, settings: Finetune, every: int) -> None:
        self.settings, self.every = settings, every
        self.curve: list[dict[str, float]] = []
        self.kept: dict[str, float] = {}
        self.state: dict[str, Tensor] = {}
        self.best, self.without = float("-inf"), 0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        control.should_evaluate = state.global_step % self.every == 0 or state.global_step >= state.max_steps

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, model: Any = None, **kwargs: Any) -> None:  # noqa: ARG002
        row = {name.removeprefix("eval_"): value for name, value in metrics.items() if name.startswith("eval_")}
        self.curve.append({"step": state.global_step, "epoch": round(float(state.epoch or 0), 4), **row})
        better = row[SCORE] > self.best
        self.best, self.without = max(self.best, row[SCORE]), 0 if better else self.without + 1
        if better or self.settings.keep == "last":
            self.kept = self.curve[-1]
            self.state = {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
        if self.settings.patience is not None and self.without >= self.settings.patience:
            control.should_training_stop = True

    def restore_(self, model: nn.Module) -> None:
        model.load_state_dict(self.state)


class Watch(TrainerCallback):  # type: ignore[misc]
    """Says how far a cell is, and ends it when its loss is not finite."""

    def __init__(self, say: Callable[[str], None], name: str) -> None:
        self.say, self.name, self.begun = say, name, time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.begun = time.monotonic()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:  # noqa: ARG002
        loss = (logs or {}).get("loss")
        if loss is None:
            return
        if not torch.isfinite(torch.tensor(loss)):
            raise Diverged(f"the loss must stay finite, got {loss} at step {state.global_step} of {self.name}: lower lr")
        left = (time.monotonic() - self.begun) / max(state.global_step, 1) * (state.max_steps - state.global_step)
        self.say(f"{self.name}: step {state.global_step} of {state.max_steps}, loss {loss:.4f}, about {left / 60:.1f} min left")
