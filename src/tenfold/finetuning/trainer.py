"""transformers' Trainer for a task's own labels: factors at their own rate, rows weighed by class."""

from collections.abc import Callable, Container, Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer

from tenfold.evaluation.predicting import Pooling, outputs_of
from tenfold.finetuning.callbacks import SCORE
from tenfold.finetuning.losses import Scale, row_losses, row_weights
from tenfold.finetuning.settings import Finetune
from tenfold.nn import FactorBank
from tenfold.tasks.task import Task

Scorer = Callable[[Any], Mapping[str, float]]


class Tuner(Trainer):  # type: ignore[misc]
    """A step's loss is the weighted sum of its rows' losses over the sum of their weights, as torch's cross-entropy has it,
    taken over all micro-batches of the step, so that it does not change when a batch is split.

    `scorer` says what the model scores on the rows that the state is chosen by; its first number is the headline. `learning`:
    the parameters (by id) that are trained; None for all.
    """

    def __init__(
        self,
        model: Any,
        task: Task,
        settings: Finetune,
        lr: float,
        scorer: Scorer,
        weights: Tensor | None,
        scale: Scale | None,
        pooling: Pooling = "mean",
        learning: Container[int] | None = None,
        **trainer: Any,
    ) -> None:
        super().__init__(model=model, **trainer)
        self.model_accepts_loss_kwargs = True  # compute_loss divides by the whole step's weight itself
        self.task, self.settings, self.lr = task, settings, lr
        self.scorer, self.weights, self.scale, self.pooling, self.learning = scorer, weights, scale, pooling, learning

    def compute_loss(
        self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        assert not return_outputs
        labels = inputs["labels"]
        texts = {key: value for key, value in inputs.items() if key != "labels"}
        outputs = outputs_of(model, texts, self.task.kind, self.pooling)
        losses = row_losses(self.task, outputs.float(), labels, self.scale)
        weights = row_weights(labels, self.weights)
        total = weights.sum() if num_items_in_batch is None else num_items_in_batch
        return (losses * weights).sum() / total

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device) -> tuple[list[Any], Any]:
        """The micro-batches of one step, and what their rows weigh."""
        samples = list(islice(epoch_iterator, num_batches))
        weights = [row_weights(batch["labels"].cpu(), self.weights).sum() for batch in samples]
        return samples, torch.stack(weights).sum().to(device)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Factors at a multiple of the rate; matrices decay, vectors do not."""
        self.optimizer: torch.optim.Optimizer | None
        if self.optimizer is None:
            kind, options = self.get_optimizer_cls_and_kwargs(self.args)
            groups = parameter_groups(self.model if model is None else model, self.lr, self.settings, self.learning)
            self.optimizer = kind(groups, **{**options, "lr": self.lr})
        return self.optimizer

    @torch.no_grad()
    def evaluate(self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval") -> dict[str, float]:  # noqa: ARG002
        """What the scorer says; `score` is the headline."""
        found = dict(self.scorer(self.model))
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in found.items()}
        metrics[f"{metric_key_prefix}_{SCORE}"] = next(iter(found.values()))
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def parameter_groups(
    model: nn.Module, lr: float, settings: Finetune, learning: Container[int] | None = None
) -> list[dict[str, Any]]:
    factors = {id(p) for module in model.modules() if isinstance(module, FactorBank) for p in module.parameters()}
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad and (learning is None or id(parameter) in learning):
            groups.setdefault((id(parameter) in factors, parameter.ndim > 1), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": lr * settings.factors if factor else lr,
            "weight_decay": settings.weight_decay if decays else 0.0,
        }
        for (factor, decays), parameters in groups.items()
    ]
