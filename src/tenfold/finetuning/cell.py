"""One cell of a grid: a model trained at one rate, batch and seed, and what came out."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PrinterCallback, TrainingArguments, set_seed

from tenfold.checkpoints import Source, find
from tenfold.compression import Progress
from tenfold.errors import TenfoldError
from tenfold.finetuning.callbacks import Best, Diverged, Watch
from tenfold.finetuning.heads import load_with_head, same_classes
from tenfold.finetuning.material import Material
from tenfold.finetuning.settings import Finetune
from tenfold.finetuning.theseus import Replacing, Schedule, inherit_
from tenfold.finetuning.trainer import Tuner


@dataclass(frozen=True)
class Cell:
    lr: float
    batch: int
    seed: int

    @property
    def name(self) -> str:
        return f"lr-{self.lr:g}-batch-{self.batch}-seed-{self.seed}"

    def __str__(self) -> str:
        return f"lr {self.lr:g}, batch {self.batch}, seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """score: the headline on the split that is chosen by, of the state that was kept; None where the cell diverged, which
    `diverged` tells. scores: every metric of that state, by split."""

    cell: Cell
    score: float | None
    epoch: float
    steps: int
    seconds: float
    curve: tuple[Mapping[str, float], ...] = ()
    scores: Mapping[str, Mapping[str, float]] | None = None
    notes: tuple[str, ...] = ()
    diverged: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Outcome":
        tuples = {key: tuple(data[key]) for key in ("curve", "notes")}
        return cls(**{**data, **tuples, "cell": Cell(**data["cell"])})

    def row(self) -> dict[str, Any]:
        """The line of a table: all but the curve."""
        found = {**asdict(self.cell), "score": self.score, "epoch": self.epoch, "steps": self.steps, "seconds": self.seconds}
        return found | ({"diverged": self.diverged} if self.diverged else {})


def train(source: Source, material: Material, settings: Finetune, cell: Cell, work: Path, say: Progress) -> tuple[Any, Outcome]:
    """The model in the state that is kept, and what is known of it; None for the model where the cell diverged."""
    begun = time.perf_counter()
    set_seed(cell.seed)
    model, notes = load_with_head(source, material.task, material.pad)
    notes = notes if settings.theseus is None else ()  # what started at random is the teacher's
    steps_per_epoch = -(-len(material.train) // cell.batch)
    best = Best(settings, -(-steps_per_epoch // settings.evaluations))
    steps = max(1, round(settings.epochs * steps_per_epoch))
    failed = Outcome(cell, None, 0.0, 0, 0.0, notes=notes)
    with _replacing(model, material, settings) as (learning, callbacks):
        arguments = _arguments(settings, cell, steps, work)
        tuner = Tuner(
            model,
            material.task,
            settings,
            cell.lr,
            lambda network: _scores(network, material, cell),
            material.weights,
            material.scale,
            material.pooling,
            learning,
            args=arguments,
            train_dataset=material.train,
            data_collator=material.train.collate,
            callbacks=[best, Watch(say, str(cell)), *callbacks],
        )
        tuner.remove_callback(PrinterCallback)  # it would print into --json
        try:
            tuner.train()
        except Diverged as error:
            seconds = round(time.perf_counter() - begun, 1)
            return None, replace(failed, seconds=seconds, curve=tuple(best.curve), diverged=str(error))
        except torch.OutOfMemoryError as error:
            rows = arguments.per_device_train_batch_size
            raise TenfoldError(
                f"{rows} rows of {material.train.length} tokens must fit in memory, got {str(error).splitlines()[0]}: "
                f"give --micro {max(1, rows // 2)}, which changes no result"
            ) from error
        model = tuner.accelerator.unwrap_model(tuner.model, keep_fp32_wrapper=False)
    best.restore_(model)
    outputs = {split: material.predict(model, split) for split in material.dev}
    scores = {split: material.score(found, split) for split, found in outputs.items()}
    warned = [text for split, found in outputs.items() for text in material.warnings(str(cell), found, split)]
    headline = scores[material.chooser][material.task.metrics[0]]
    seconds = round(time.perf_counter() - begun, 1)
    return model, Outcome(
        cell, headline, best.kept["epoch"], tuner.state.global_step, seconds, tuple(best.curve), scores, (*notes, *warned)
    )


@contextmanager
def _replacing(model: Any, material: Material, settings: Finetune) -> Iterator[tuple[set[int] | None, list[Any]]]:
    """With Theseus, a teacher beside the student: what is left to learn, and the schedule. Without, everything learns."""
    if settings.theseus is None:
        yield None, []
        return
    source = find(settings.theseus.teacher, weights=True)
    if material.task.kind != "embedding" and not same_classes(source.config, material.task):
        raise TenfoldError(
            f"module replacing needs a teacher that answers {material.task.name}, got {source.name} with another head or none: "
            "fine-tune it first"
        )
    teacher, _ = load_with_head(source, material.task, material.pad)
    learning = inherit_(model, teacher)
    teacher.to("cuda" if torch.cuda.is_available() else "cpu")
    with Replacing(model, teacher, settings.theseus.start) as replacing:
        yield learning, [Schedule(replacing, settings.theseus)]


def _scores(model: Any, material: Material, cell: Cell) -> dict[str, float]:
    outputs = material.predict(model, material.chooser)
    if not np.isfinite(outputs).all():
        raise Diverged(f"the outputs must stay finite, got NaN or infinity at {cell}: lower lr")
    return material.score(outputs, material.chooser)


def _arguments(settings: Finetune, cell: Cell, steps: int, work: Path) -> TrainingArguments:
    micro = min(settings.micro or cell.batch, cell.batch)
    if cell.batch % micro:
        raise TenfoldError(f"micro must divide the batch, got {micro} and {cell.batch}: choose a divisor of {cell.batch}")
    cuda = torch.cuda.is_available()
    arguments = TrainingArguments(
        output_dir=str(work / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=cell.batch // micro,
        learning_rate=cell.lr,
        lr_scheduler_type="linear",
        warmup_steps=round(settings.warmup * steps),
        weight_decay=settings.weight_decay,
        optim="adamw_torch_fused" if cuda else "adamw_torch",
        bf16=cuda and torch.cuda.is_bf16_supported(),
        use_cpu=not cuda,
        logging_steps=max(1, min(50, steps // 10)),
        eval_strategy="no",  # the callback says when
        save_strategy="no",
        seed=cell.seed,
        data_seed=cell.seed,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=cuda,
        logging_nan_inf_filter=False,
        disable_tqdm=True,
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # Trainer would split each batch over all cards in one process, which is slow and hides the model
    return arguments
