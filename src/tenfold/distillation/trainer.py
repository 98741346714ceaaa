"""transformers' Trainer with losses between a student and a teacher. Everything else about training is transformers' own."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, Subset
from transformers import Trainer, TrainerCallback

from tenfold.distillation.losses import LABELS, LOGITS, loss_named
from tenfold.distillation.matching import Projections, compare
from tenfold.distillation.parts import Part, pair_mask
from tenfold.distillation.stage import Stage
from tenfold.distillation.trace import Trace, Tracer, Wanted
from tenfold.errors import TenfoldError
from tenfold.nn import FactorBank

ROWS, TOKENS, PAIRS = 0, 1, 2
Scales = Mapping[tuple[str, int], float]


@dataclass(frozen=True)
class Term:
    """One loss between pairs of layers; `items` is what it counts: rows, tokens or pairs of tokens."""

    name: str
    weight: float
    pairs: tuple[tuple[int, int], ...]
    items: int
    options: Mapping[str, Any]

    @property
    def size(self) -> int:
        """Of how many pairs of layers and kinds of tensors the mean is taken."""
        return len(self.pairs) * len(loss_named(self.name).reads)

    def parts(self, student: Trace, teacher: Trace, projections: Projections, scales: Scales) -> Iterator[Part]:
        for layers in self.pairs:
            yield compare(self.name, student, teacher, layers, projections=projections, scales=scales, **self.options)


def terms(stage: Stage, student_depth: int, teacher_depth: int) -> list[Term]:
    """The stage's losses, with their layers worked out for two models of these depths."""
    assert stage.losses is not None
    found = []
    for loss in stage.losses:
        options = {} if loss.temperature is None else {"temperature": loss.temperature}
        pairs = tuple(loss.pairs(student_depth, teacher_depth, stage.map))
        found.append(Term(loss.name, loss.weight, pairs, _items(loss.name), options))
    return found


def _items(name: str) -> int:
    if name in ("scores", "probabilities_mse"):
        return PAIRS
    loss = loss_named(name)
    return ROWS if name in ("patient", "sentence") or LOGITS in loss.reads or LABELS in loss.reads else TOKENS


LAST = Term("hidden", 0.0, ((-1, -1),), TOKENS, {})


def wanted(chosen: Sequence[Term], side: int) -> Wanted:
    """What a model (side 0 the student, 1 the teacher) must keep for these losses, and for `last`."""
    layers: dict[str, list[int]] = {"hidden": [-1]}
    for term in chosen:
        layers.setdefault(term.name, []).extend(pair[side] for pair in term.pairs)
    return Wanted.of(layers)


class Distiller(Trainer):  # type: ignore[misc]
    """Trains `student` to answer as `teacher` does. The teacher is in eval mode, without gradients.

    A step's loss is each term's sum over the real items of the whole step (all micro-batches and processes) over their number,
    so it does not change when a batch is split. Measurements add `last`: the error of the last hidden states over the teacher's
    variance, whatever the losses are, so that runs can be compared.
    """

    def __init__(
        self,
        student: Any,
        teacher: Any,
        stage: Stage,
        chosen: Sequence[Term],
        projections: Projections,
        scales: Scales,
        **trainer: Any,
    ) -> None:
        super().__init__(model=student, **trainer)
        self.model_accepts_loss_kwargs = True  # compute_loss divides by the whole step's count itself
        self.stage, self.terms, self.projections, self.scales = stage, list(chosen), projections, scales
        self.teacher = teacher.to(self.args.device).eval().requires_grad_(False)
        self.tracers = Tracer(student, wanted(chosen, 0)), Tracer(self.teacher, wanted(chosen, 1))

    def compute_loss(
        self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        assert not return_outputs
        counts = self._counts([inputs]) if num_items_in_batch is None else num_items_in_batch
        model.train(self.stage.dropout)
        sums = self._sums(inputs, model, self.terms)
        loss = sum(term.weight * sums[k] / term.size / counts[term.items] for k, term in enumerate(self.terms))
        return loss * self.accelerator.num_processes  # gradients are averaged over processes

    def _sums(self, inputs: dict[str, Tensor], model: Any, chosen: Sequence[Term]) -> list[Tensor]:
        """Each term's total over the layers of one micro-batch."""
        assert not self.teacher.training
        with torch.no_grad():
            theirs = self.tracers[1](inputs)
        bare = model is self.tracers[0].model
        ours = self.tracers[0](inputs, through=None if bare else model)
        return [sum(p.total for p in term.parts(ours, theirs, self.projections, self.scales)) for term in chosen]  # type: ignore[misc]

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device) -> tuple[list[Any], Any]:
        """The micro-batches of one step, and how many rows, tokens and pairs of tokens all processes have in it."""
        samples = list(islice(epoch_iterator, num_batches))
        counts = self._counts(samples).to(device)
        if self.accelerator.num_processes > 1:
            counts = self.accelerator.reduce(counts, "sum")
        return samples, counts

    def _counts(self, batches: Sequence[dict[str, Tensor]]) -> Tensor:
        causal = self.tracers[0].blocks.causal
        total = torch.zeros(3)
        for batch in batches:
            mask = batch["attention_mask"].bool()
            total += torch.stack([mask.any(1).sum(), mask.sum(), pair_mask(mask, causal).sum()]).cpu()
        return total.to(self.args.device)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Factors at their own rate; matrices decay, vectors do not; what is frozen has no state."""
        self.optimizer: torch.optim.Optimizer | None
        if self.optimizer is None:
            kind, options = self.get_optimizer_cls_and_kwargs(self.args)
            options = {**options, "lr": self.stage.lr}
            self.optimizer = kind(self._parameter_groups(self.model if model is None else model), **options)
        return self.optimizer

    def _parameter_groups(self, model: nn.Module) -> list[dict[str, Any]]:
        factors = {id(p) for module in model.modules() if isinstance(module, FactorBank) for p in module.parameters()}
        groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
        for parameter in model.parameters():
            if parameter.requires_grad:
                groups.setdefault((id(parameter) in factors, parameter.ndim > 1), []).append(parameter)
        return [
            {
                "params": parameters,
                "lr": self.stage.lr if factor else self.stage.lr_rest,
                "weight_decay": self.stage.weight_decay if decays else 0.0,
            }
            for (factor, decays), parameters in groups.items()
        ]

    def _get_train_sampler(self, train_dataset: Any = None) -> RandomSampler:
        """Whole steps only, so that an epoch is the same for any micro-batch and number of processes: another remainder of
        fewer rows than a step waits in each epoch."""
        rows = self.train_dataset if train_dataset is None else train_dataset
        assert self.stage.batch is not None
        return RandomSampler(rows, num_samples=len(rows) - len(rows) % self.stage.batch)

    def _own_share(self, rows: Any) -> DataLoader[Any]:
        """Each row in one process: transformers' own loader gives some twice where they do not divide."""
        own = Subset(rows, range(self.accelerator.process_index, len(rows), self.accelerator.num_processes))
        return DataLoader(own, self.args.per_device_eval_batch_size, collate_fn=self.data_collator)

    @torch.no_grad()
    def evaluate(self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval") -> dict[str, float]:  # noqa: ARG002
        """Each term's mean on the held-out rows, by name."""
        training = self.model.training
        self.model.eval()
        watched = [*self.terms, LAST]
        totals, counts = torch.zeros(len(watched)), torch.zeros(3)
        for batch in self._own_share(self.eval_dataset if eval_dataset is None else eval_dataset):
            inputs = self._prepare_inputs(batch)
            with self.compute_loss_context_manager():
                sums = self._sums(inputs, self.model, watched)
            totals += torch.stack([s / t.size for s, t in zip(sums, watched, strict=True)]).float().cpu()
            counts += self._counts([inputs]).cpu()
        self.model.train(training)
        if self.accelerator.num_processes > 1:
            totals, counts = (self.accelerator.reduce(x.to(self.args.device), "sum").cpu() for x in (totals, counts))
        means = {term.name: float(totals[k] / counts[term.items]) for k, term in enumerate(self.terms)}
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in means.items()}
        metrics[f"{metric_key_prefix}_last"] = float(totals[-1] / counts[TOKENS])
        metrics[f"{metric_key_prefix}_loss"] = sum(term.weight * means[term.name] for term in self.terms)
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


class Watch(TrainerCallback):  # type: ignore[misc]
    """Says how far it is, and ends the run at once when a loss is not finite; checkpoints from before that stay."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.start = say, (time.monotonic(), 0)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG002
        self.start = time.monotonic(), state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:  # noqa: ARG002
        for name, value in (logs or {}).items():
            if "loss" in name and not torch.isfinite(torch.tensor(value)):
                raise TenfoldError(
                    f"the loss must stay finite, got {value} at step {state.global_step}: lower lr (a tenth is a good "
                    "try) and start again with --fresh"
                )
        loss = (logs or {}).get("loss")
        if loss is not None and state.is_world_process_zero and (done := state.global_step - self.start[1]):
            left = (time.monotonic() - self.start[0]) / done * (state.max_steps - state.global_step)
            self.say(f"step {state.global_step} of {state.max_steps}, loss {loss:.4f}, about {left / 60:.1f} min left")
