"""What goes on during a run: how far it is, how fast, and what ends it early."""

import math
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

from tenfold.distillation.pace import Pace
from tenfold.errors import TenfoldError


class Watch(TrainerCallback):  # type: ignore[misc]
    """Says how far a run is; ends it at once when a loss is not finite, and after the step under way at Ctrl-C.

    Checkpoints from before a loss that is not finite stay; at Ctrl-C one is written. A second Ctrl-C ends the process.
    """

    def __init__(self, say: Callable[[str], None], pace: Pace) -> None:
        self.say, self.pace = say, pace
        self.begun, self.ended, self.first, self.last = time.monotonic(), 0.0, 0, 0
        self.interrupted = False
        self._before: Any = None

    @property
    def rate(self) -> float:
        """Tokens a second since this process began to train, measurements and checkpoints included."""
        return self.pace.tokens * self._steps_a_second

    @property
    def share(self) -> float | None:
        """Of the card's peak, by FLOPs of matrix products; None on a CPU."""
        peak = self.pace.peak
        return None if peak is None else self.pace.flops * self._steps_a_second / peak.flops

    @property
    def _steps_a_second(self) -> float:
        return (self.last - self.first) / max((self.ended or time.monotonic()) - self.begun, 1e-9)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.begun, self.first, self.last = time.monotonic(), state.global_step, state.global_step
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._stop)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.ended = time.monotonic()
        self.close()

    def close(self) -> None:
        """Give Ctrl-C back its meaning."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _stop(self, number: int, frame: Any) -> None:  # noqa: ARG002 - the signature of a handler
        self.interrupted = True
        self.close()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.last = state.global_step
        if args.world_size > 1:
            self.interrupted = self._anywhere(args.device)
        if self.interrupted:
            control.should_save = control.should_training_stop = True

    def _anywhere(self, device: torch.device) -> bool:
        """Ctrl-C may reach processes in different steps; they must stop after the same one."""
        flag = torch.tensor(float(self.interrupted), device=device)
        torch.distributed.all_reduce(flag)
        return bool(flag)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:  # noqa: ARG002
        for name, value in (logs or {}).items():
            if "loss" in name and not math.isfinite(value):
                raise diverged(f"the loss must stay finite, got {value}", state.global_step, args.output_dir)
        loss = (logs or {}).get("loss")
        if loss is not None and state.is_world_process_zero and self.last > self.first:
            left = (state.max_steps - state.global_step) / self._steps_a_second
            self.say(
                f"step {state.global_step} of {state.max_steps}, loss {loss:.4f}, {self.rate:,.0f} tokens/s, "
                f"about {left / 60:.1f} min left"
            )


def diverged(what: str, step: int, work: str) -> TenfoldError:
    return TenfoldError(
        f"{what} at step {step}: lower lr and lr_rest (to a tenth, say) and start again with --fresh; "
        f"checkpoints in {work} are from before"
    )
