"""transformers' Trainer with losses between a student and a teacher. Everything else about training is transformers' own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, RandomSampler, Subset
from transformers import Trainer

from tenfold.checkpoints import first_line
from tenfold.distillation.checkpoints import seal
from tenfold.distillation.legs import LAST, TOKENS, Leg, Term, leg_at, wanted
from tenfold.distillation.local import BlockLocal
from tenfold.distillation.losses import LABELS, labelled
from tenfold.distillation.probing import Facts
from tenfold.distillation.stage import Stage
from tenfold.distillation.trace import Trace, Tracer
from tenfold.distillation.watch import diverged
from tenfold.errors import CheckpointError, OutputError
from tenfold.nn import FactorBank

Scorer = Callable[[Any], Mapping[str, float]]


class Distiller(Trainer):  # type: ignore[misc]
    """Trains `student` to answer as `teacher` does, leg by leg. The teacher is in eval mode, without gradients.

    A step's loss is each term's sum over the real items of the whole step (all micro-batches and processes) over their number,
    so it does not change when a batch is split. Measurements add `last`: the error of the last hidden states over the teacher's
    variance, whatever the losses are, so that runs can be compared; and what `scorer` says of the student.
    """

    def __init__(
        self,
        student: Any,
        teacher: Any,
        stage: Stage,
        legs: Sequence[Leg],
        facts: Facts,
        scorer: Scorer | None = None,
        **trainer: Any,
    ) -> None:
        super().__init__(model=student, **trainer)
        self.model_accepts_loss_kwargs = True  # compute_loss divides by the whole step's count itself
        self.stage, self.legs, self.facts, self.scorer = stage, list(legs), facts, scorer
        self.teacher = teacher.to(self.args.device).eval().requires_grad_(False)
        self.tracers = {leg.start: (Tracer(student, wanted(leg, 0)), Tracer(self.teacher, wanted(leg, 1))) for leg in legs}
        self.local = {leg.start: self._block_local(student, leg) for leg in legs if leg.local}
        self.causal = next(iter(self.tracers.values()))[0].blocks.causal
        # after the hooks, which a compiled model does not see otherwise
        self.passes = {True: self.teacher, False: self.teacher.base_model}
        if stage.compile:
            self.passes = {whole: torch.compile(model) for whole, model in self.passes.items()}

    def _block_local(self, student: Any, leg: Leg) -> BlockLocal:
        [blocks] = leg.terms
        scales = {k: self.facts.scales["hidden", j] for k, j in blocks.pairs}
        return BlockLocal(student, self.teacher, [k for k, _ in blocks.pairs], dict(blocks.pairs), scales)

    @property
    def leg(self) -> Leg:
        return leg_at(self.legs, self.state.global_step)

    def compute_loss(
        self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        assert not return_outputs
        counts = self._counts([inputs]) if num_items_in_batch is None else num_items_in_batch
        model.train(self.stage.dropout)
        leg = self.leg
        sums = self._local_sums(inputs, model, leg) if leg.local else self._sums(leg.terms, *self._traces(inputs, model, leg))
        pairs = zip(leg.terms, sums, strict=True)
        parts = [term.weight * total / term.size / counts[term.items].clamp(min=1) for term, total in pairs]
        if self.accelerator.num_processes > 1:  # DDP waits for a gradient of everything that is trained in any leg
            parts += [0.0 * parameter.sum() for parameter in self.facts.idle[leg.start]]
        return torch.stack(parts).sum() * self.accelerator.num_processes  # gradients are averaged over processes

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """What a leg's losses do not reach stays as it is: without a gradient the optimiser passes it over."""
        loss: Tensor = super().training_step(*args, **kwargs)
        for parameter in self.facts.idle[self.leg.start]:
            parameter.grad = None
        return loss

    def _traces(self, inputs: dict[str, Tensor], model: Any, leg: Leg) -> tuple[Trace, Trace]:
        assert not self.teacher.training
        ours, theirs = self.tracers[leg.start]
        with torch.no_grad():
            taught = theirs(inputs, through=self.passes[theirs.logits] if self.stage.compile else None)
        return ours(inputs, through=None if model is ours.model else model), taught

    def _sums(self, chosen: Sequence[Term], student: Trace, teacher: Trace) -> list[Tensor]:
        """Each term's total over the layers of one micro-batch."""
        facts = self.facts.projections, self.facts.scales
        return [sum(part.total for part in term.parts(student, teacher, *facts)) for term in chosen]  # type: ignore[misc]

    def _local_sums(self, inputs: dict[str, Tensor], model: Any, leg: Leg) -> list[Tensor]:
        local = self.local[leg.start]
        parts = local(inputs, through=None if model is local.student else model)
        return [sum(part.total for part in parts.values())]  # type: ignore[list-item]

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device) -> tuple[list[Any], Any]:
        """The micro-batches of one step, and how many rows, tokens, pairs and labels all processes have in it."""
        samples = list(islice(epoch_iterator, num_batches))
        counts = self._counts(samples).to(device)
        if self.accelerator.num_processes > 1:
            counts = self.accelerator.reduce(counts, "sum")
        return samples, counts

    def _counts(self, batches: Sequence[dict[str, Tensor]]) -> Tensor:
        total = torch.zeros(4, device=self.args.device)
        for batch in batches:
            real = batch["attention_mask"].bool().sum(1)
            pairs = real * (real + 1) // 2 if self.causal else real * real
            own = labelled(batch[LABELS]).sum() if LABELS in batch else torch.zeros((), device=real.device)
            total += torch.stack([(real > 0).sum(), real.sum(), pairs.sum(), own]).to(total)
        return total

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """Factors at their own rate; matrices decay, vectors do not; what is frozen has no state."""
        self.optimizer: torch.optim.Optimizer | None
        if self.optimizer is None:
            kind, options = self.get_optimizer_cls_and_kwargs(self.args)
            options = {**options, "lr": self.stage.lr}
            self.optimizer = kind(self._parameter_groups(self.model if model is None else model), **options)
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:  # noqa: ARG002
        """Every leg warms up and decays by itself."""
        self.lr_scheduler: LambdaLR | None
        if self.lr_scheduler is None:
            optimizer = self.optimizer if optimizer is None else optimizer
            self.lr_scheduler = LambdaLR(optimizer, lambda step: leg_at(self.legs, step).rate(step))
        return self.lr_scheduler

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
        """Each term's mean on the held-out rows, by name, and the score where there is one."""
        training = self.model.training
        self.model.eval()
        leg, last = self.leg, [LAST] * self.facts.last
        totals, counts = torch.zeros(len(leg.terms) + len(last)), torch.zeros(4)
        for batch in self._own_share(self.eval_dataset if eval_dataset is None else eval_dataset):
            inputs = self._prepare_inputs(batch)
            with self.compute_loss_context_manager():
                traces = self._traces(inputs, self.model, leg)
                local = self._local_sums(inputs, self.model, leg) if leg.local else self._sums(leg.terms, *traces)
                sums = [*local, *self._sums(last, *traces)]
            sizes = [term.size for term in (*leg.terms, *last)]
            totals += torch.stack([s / size for s, size in zip(sums, sizes, strict=True)]).float().cpu()
            counts += self._counts([inputs]).cpu()
        if self.accelerator.num_processes > 1:
            totals, counts = (self.accelerator.reduce(x.to(self.args.device), "sum").cpu() for x in (totals, counts))
        means = {term.name: float(totals[k] / counts[term.items].clamp(min=1)) for k, term in enumerate(leg.terms)}
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in means.items()}
        if last:
            metrics[f"{metric_key_prefix}_last"] = float(totals[-1] / counts[TOKENS])
        metrics[f"{metric_key_prefix}_loss"] = sum(term.weight * means[term.name] for term in leg.terms)
        if self.scorer is not None:
            metrics |= {f"{metric_key_prefix}_{name}": value for name, value in self.scorer(self.model).items()}
        self.model.train(training)
        self.log(metrics)
        self.control: Any = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Nothing that is not finite is kept, and a disk that is full is said so. Sealed once all processes have written."""
        if not all(torch.isfinite(parameter).all() for parameter in self.model.parameters()):
            raise diverged("weights must stay finite, got NaN or infinity", self.state.global_step, self.args.output_dir)
        try:
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                seal(Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}")
        except torch.OutOfMemoryError:
            raise
        except (OSError, RuntimeError, SafetensorError) as error:
            raise OutputError(
                f"a checkpoint must be written whole, got {first_line(error)}: make room on the disk and give the same command "
                "again, it goes on from the one before"
            ) from error

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """A checkpoint has every weight of the student, or the run would go on from a mixture."""
        absent = {*load_result.missing_keys, *load_result.unexpected_keys} - set(
            getattr(self.model, "all_tied_weights_keys", {})
        )
        if absent:
            raise CheckpointError(
                f"a checkpoint must name its weights as the student does, got {min(absent)} on one side only: pass --fresh"
            )
