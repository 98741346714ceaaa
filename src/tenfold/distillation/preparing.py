"""From two folders and a stage to a trainer that is ready to start."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch import Tensor
from transformers import PrinterCallback, TrainingArguments, set_seed

from tenfold.checkpoints import Source, first_line, load
from tenfold.compression import Progress
from tenfold.distillation.legs import Leg, Models, legs
from tenfold.distillation.losses import takes
from tenfold.distillation.matching import same_vocabulary
from tenfold.distillation.material import Material, general_material, task_material
from tenfold.distillation.pace import Pace, peak
from tenfold.distillation.pairing import EMBEDDING, student_for, teacher_for
from tenfold.distillation.probing import Facts, probe
from tenfold.distillation.stage import ANSWERS, Stage
from tenfold.distillation.trainer import Distiller
from tenfold.distillation.watch import Watch
from tenfold.errors import TenfoldError
from tenfold.evaluation.pooling import pooling_of
from tenfold.evaluation.predicting import Pooling
from tenfold.pipeline import tokenizer_of
from tenfold.tasks import TaskData, load_task

PROJECTIONS = "tenfold_projections"
PROBED, AT_A_TIME = 64, 8
"""The held-out rows that the teacher's variances are measured on, and how many of them at a time."""


@dataclass
class Run:
    """A trainer with all that it was made of."""

    trainer: Distiller
    material: Material
    watch: Watch


def prepare(sources: tuple[Source, Source], stage: Stage, work: Path, progress: Progress) -> Run:
    progress("loading the models")
    set_seed(stage.seed)  # for the projections, and a head that the student lacks
    tokenizer, other = (tokenizer_of(source, "add the one that the model was made with") for source in sources)
    same_vocabulary(tokenizer, other)
    _refuse_long_rows(stage, tokenizer, sources)
    data = None if stage.task is None else load_task(stage.task)
    stage = stage.model_copy(update={"pooling": _pooling(stage, sources[0], data)})
    student, teacher, material = _models_and_material(sources, stage, data, tokenizer, progress)
    if stage.freeze_embeddings:
        student.base_model.get_input_embeddings().requires_grad_(False)
    steps = material.steps(stage)
    chosen = legs(stage, _described(student, teacher), steps, None if data is None else data.task)
    arguments = _arguments(stage, work, steps)
    device = arguments.device
    try:
        student, teacher = student.to(device), teacher.to(device).eval()
        facts = probe(student, teacher, chosen, list(_probed(material, device)))
    except torch.OutOfMemoryError as error:
        raise TenfoldError(
            f"both models and {AT_A_TIME} rows must fit in memory, got {first_line(error)}: lower length, or change the teacher"
        ) from error
    if len(list(facts.projections.parameters())):
        student.add_module(PROJECTIONS, facts.projections)  # trained, checkpointed and moved with it; dropped before saving
    if arguments.bf16:
        teacher = teacher.bfloat16()
    watch = Watch(progress, _pace(facts, chosen, material.row_tokens * (stage.batch or 1), device))
    trainer = Distiller(
        student,
        teacher,
        stage,
        chosen,
        facts,
        scorer=None if data is None else material.headline,
        args=arguments,
        train_dataset=material.train,
        eval_dataset=material.held_out,
        data_collator=material.collate,
        callbacks=[watch],
    )
    trainer.remove_callback(PrinterCallback)  # it would print into --json
    return Run(trainer, material, watch)


def _refuse_long_rows(stage: Stage, tokenizer: Any, sources: tuple[Source, Source]) -> None:
    """A task's rows are cut at the tokenizer's limit; rows of text are as long as asked."""
    positions = (getattr(source.config.get_text_config(), "max_position_embeddings", None) for source in sources)
    limit = min(tokenizer.model_max_length, *(count for count in positions if count))
    if stage.stage == "general" and stage.corpus.length > limit:
        raise TenfoldError(
            f"rows must fit the models' positions, got length {stage.corpus.length} and {limit} positions: lower it"
        )


def _pooling(stage: Stage, source: Source, data: TaskData | None) -> Pooling:
    """As asked, or where sentence vectors are made at all, as the student's folder says."""
    made = (data is not None and data.task.kind == EMBEDDING) or any(
        takes(loss.name, "pooling") for phase in stage.phases or () for loss in phase.losses if loss.name != ANSWERS
    )
    if stage.pooling is not None or not made:
        return stage.pooling or "mean"
    assert source.folder is not None
    return pooling_of(source.folder)


def _models_and_material(
    sources: tuple[Source, Source], stage: Stage, data: TaskData | None, tokenizer: Any, progress: Progress
) -> tuple[Any, Any, Material]:
    if data is None:
        with PartialState().local_main_process_first():  # the others find it in the cache
            material = general_material(stage, tokenizer, progress)
        student, teacher = (load(source).float() for source in sources)
        return student, teacher, material
    teacher = teacher_for(sources[1], data.task)
    with PartialState().local_main_process_first():
        material = task_material(stage, data, tokenizer, teacher, progress)
    return student_for(sources[0], teacher, data.task, stage.inherit), teacher, material


def _described(student: Any, teacher: Any) -> Models:
    depths = [model.config.get_text_config().num_hidden_layers for model in (student, teacher)]
    return Models(depths[0], depths[1], per_token=teacher.get_output_embeddings() is not None)


def _probed(material: Material, device: torch.device) -> Iterator[Mapping[str, Tensor]]:
    rows = range(min(PROBED, len(material.held_out)))  # type: ignore[arg-type]
    for start in rows[::AT_A_TIME]:
        batch = material.collate([material.held_out[i] for i in rows[start : start + AT_A_TIME]])
        yield {name: tensor.to(device) for name, tensor in batch.items()}


def _pace(facts: Facts, chosen: Sequence[Leg], tokens: float, device: torch.device) -> Pace:
    """Of a step of so many tokens, the mean over all legs."""
    flops = sum(facts.flops[leg.start] * (leg.stop - leg.start) for leg in chosen) / chosen[-1].stop
    return Pace(tokens, flops * tokens, peak(device))


def _arguments(stage: Stage, work: Path, steps: int) -> TrainingArguments:
    assert stage.batch is not None
    processes = PartialState().num_processes
    micro = min(stage.micro or stage.batch, max(1, stage.batch // processes))
    if stage.batch % (micro * processes):
        raise TenfoldError(
            f"a step's rows must divide into micro-batches for all processes, got batch {stage.batch}, micro {micro} and "
            f"{processes} processes: choose a batch that is a multiple of both"
        )
    every = max(1, steps // stage.evaluations)
    cuda = torch.cuda.is_available()
    best = stage.keep == "best"
    return TrainingArguments(
        output_dir=str(work),
        max_steps=steps,
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=min(micro, 32),
        gradient_accumulation_steps=stage.batch // (micro * processes),
        learning_rate=stage.lr,
        adam_beta2=0.98,
        weight_decay=stage.weight_decay,
        optim="adamw_torch_fused" if cuda else "adamw_torch",
        bf16=cuda and torch.cuda.is_bf16_supported(including_emulation=False),
        use_cpu=not cuda,
        torch_compile=stage.compile,
        logging_steps=max(1, every // 5),
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        load_best_model_at_end=best,
        metric_for_best_model="eval_score" if best else None,
        greater_is_better=True if best else None,
        ddp_find_unused_parameters=False,
        seed=stage.seed,
        data_seed=stage.seed,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=cuda,
        logging_nan_inf_filter=False,
        disable_tqdm=True,
    )
