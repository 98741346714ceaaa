"""A stage from folders to a folder: load, tokenise, train (or go on after a kill), save."""

import gc
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch import Tensor
from transformers import AutoTokenizer, PrinterCallback, TrainerState, TrainingArguments, set_seed

from tenfold.checkpoints import Source, find, load
from tenfold.compression import Progress
from tenfold.distillation.checkpoints import STATE, last_good
from tenfold.distillation.matching import Projections, measure_scales, projections, same_vocabulary
from tenfold.distillation.stage import Stage
from tenfold.distillation.trace import Tracer
from tenfold.distillation.trainer import LAST, Distiller, Term, Watch, terms, wanted
from tenfold.errors import TenfoldError
from tenfold.folders import complete_folder, refuse_existing
from tenfold.pipeline import copy_beside
from tenfold.records import digest, history, stamp, write_history
from tenfold.text import Corpus, build

SCALE_ROWS = 64


@dataclass(frozen=True)
class Distilled:
    """What came out. `curve` has a row for each measurement on held-out rows."""

    out: Path
    steps: int
    tokens: int
    seconds: float
    curve: tuple[dict[str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
            "curve": list(self.curve),
        }


def distill_folder(
    student: str,
    out: Path,
    teacher: str,
    stage: Stage,
    force: bool = False,
    fresh: bool = False,
    progress: Progress = lambda _: None,
) -> Distilled:
    """STUDENT taught by TEACHER -> OUT. An unfinished run for the same OUT, with the same settings, goes on where it was."""
    refuse_existing(out, force)
    start = time.perf_counter()
    stage = stage.resolved()
    processes = PartialState(cpu=not torch.cuda.is_available())
    say: Progress = progress if processes.is_main_process else lambda _: None
    sources = find(student, weights=True), find(teacher, weights=True)
    work = out.with_name(f"{out.name}.training")
    if processes.is_main_process:
        _prepare_work(work, sources, stage, fresh)
    processes.wait_for_everyone()
    trainer, corpus = _trained(sources, stage, work, say)
    result = Distilled(
        out,
        trainer.state.global_step,
        _tokens(trainer.state.global_step, stage, corpus),
        time.perf_counter() - start,
        _curve(trainer),
    )
    if processes.is_main_process:
        _save(trainer, sources[0], out, force, result, stage, teacher)
        shutil.rmtree(work)
    processes.wait_for_everyone()
    return result


def _prepare_work(work: Path, sources: tuple[Source, Source], stage: Stage, fresh: bool) -> None:
    """OUT.training holds checkpoints until OUT is complete; it belongs to one set of inputs."""
    if fresh:
        shutil.rmtree(work, ignore_errors=True)
    settings = stage.model_dump(mode="json", exclude={"micro"})  # it changes nothing but the memory that is needed
    told = json.loads(
        json.dumps({"stage": settings, "models": [digest(source.header.files) for source in sources if source.header]})
    )
    note = work / "run.json"
    if note.is_file() and json.loads(note.read_text(encoding="utf-8")) != told:
        raise TenfoldError(
            f"{work} holds an unfinished run with other settings or models: finish that, or pass --fresh to drop it"
        )
    work.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps(told), encoding="utf-8")


def _trained(sources: tuple[Source, Source], stage: Stage, work: Path, say: Progress) -> tuple[Distiller, Corpus]:
    """Where memory runs out, again from the last checkpoint with half the rows at a time: the steps stay the same."""
    while True:
        trainer, corpus = _trainer(sources, stage, work, say)
        say(f"training on {stage.tokens / 1e6:.1f} M tokens")
        micro = trainer.args.per_device_train_batch_size
        try:
            _train(trainer, last_good(work, say))
            return trainer, corpus
        except torch.OutOfMemoryError as error:
            if trainer.accelerator.num_processes > 1 or micro == 1:
                raise TenfoldError(
                    f"{micro} rows of {stage.length} tokens must fit in memory, got {str(error).splitlines()[0]}: lower micro "
                    "or length and start again, it goes on from its last checkpoint"
                ) from error
        del trainer  # after the handler, as the error holds on to all tensors
        gc.collect()
        torch.cuda.empty_cache()
        smaller = next(rows for rows in range(micro // 2, 0, -1) if micro % rows == 0)
        say(f"warning: {micro} rows at a time do not fit in memory: going on with {smaller}, the batch stays {stage.batch}")
        stage = stage.model_copy(update={"micro": smaller})


def _train(trainer: Distiller, checkpoint: str | None) -> None:
    trainer.args.eval_on_start = checkpoint is None
    if checkpoint is not None:
        state = TrainerState.load_from_json(str(Path(checkpoint) / STATE))
        if state.global_step >= trainer.args.max_steps:  # killed before OUT was complete; train() would add a step
            trainer._load_from_checkpoint(checkpoint)
            trainer.state = state
            return
    trainer.train(resume_from_checkpoint=checkpoint)


def _trainer(sources: tuple[Source, Source], stage: Stage, work: Path, progress: Progress) -> tuple[Distiller, Corpus]:
    if stage.text is None:
        raise TenfoldError("the general stage learns from text, got none: give --text FILE")
    progress("loading the models")
    student, teacher = (load(source).float() for source in sources)
    tokenizer, other = (AutoTokenizer.from_pretrained(source.folder) for source in sources)
    same_vocabulary(tokenizer, other)
    with PartialState().local_main_process_first():  # the others find it in the cache
        corpus = build(stage.text, tokenizer, stage.corpus, progress=progress)
    assert stage.batch is not None
    corpus.require(stage.held_out + stage.batch)
    train, held_out = corpus.split(stage.held_out)
    if stage.freeze_embeddings:
        student.base_model.get_input_embeddings().requires_grad_(False)
    depths = [model.config.get_text_config().num_hidden_layers for model in (student, teacher)]
    chosen = terms(stage, depths[0], depths[1])
    arguments = _arguments(stage, work, corpus)
    student, teacher = student.to(arguments.device), teacher.to(arguments.device)
    set_seed(stage.seed)  # for the projections
    rows = corpus.collate([held_out[i] for i in range(min(SCALE_ROWS, len(held_out)))])
    scales, mapped = _prepared(student, teacher, chosen, {k: v.to(arguments.device) for k, v in rows.items()})
    if len(list(mapped.parameters())):
        student.add_module("tenfold_projections", mapped)  # trained, checkpointed and moved with it; dropped before saving
    if arguments.device.type == "cuda":
        teacher = teacher.bfloat16()
    trainer = Distiller(
        student,
        teacher,
        stage,
        chosen,
        mapped,
        scales,
        args=arguments,
        train_dataset=train,
        eval_dataset=held_out,
        data_collator=corpus.collate,
        callbacks=[Watch(progress)],
    )
    trainer.remove_callback(PrinterCallback)  # it would print into --json
    return trainer, corpus


def _prepared(
    student: Any, teacher: Any, chosen: Sequence[Term], rows: dict[str, Tensor]
) -> tuple[dict[tuple[str, int], float], Projections]:
    """The teacher's variances and the projections that are needed. What no loss reaches is frozen, as DDP wants it."""
    with Tracer(teacher, wanted(chosen, 1)) as theirs, torch.no_grad():
        scales = measure_scales([theirs(rows)])
        first = {k: v[:1] for k, v in rows.items()}
        target = theirs(first)
    with Tracer(student, wanted(chosen, 0)) as ours:
        seen = ours(first)
        mapped = projections(seen, target, [*(term.name for term in chosen), LAST.name])
        loss = sum(part.total for term in chosen for part in term.parts(seen, target, mapped, scales))
    assert isinstance(loss, Tensor)
    trained = [p for model in (student, mapped) for p in model.parameters() if p.requires_grad]
    for parameter, gradient in zip(trained, torch.autograd.grad(loss, trained, allow_unused=True), strict=True):
        parameter.requires_grad_(gradient is not None)
    return scales, mapped


def _arguments(stage: Stage, work: Path, corpus: Corpus) -> TrainingArguments:
    assert stage.batch is not None
    processes = PartialState().num_processes
    micro = min(stage.micro or stage.batch, max(1, stage.batch // processes))
    if stage.batch % (micro * processes):
        raise TenfoldError(
            f"a step's rows must divide into micro-batches for all processes, got batch {stage.batch}, micro {micro} and "
            f"{processes} processes: choose a batch that is a multiple of both"
        )
    steps = max(1, round(stage.tokens / (stage.batch * corpus.tokens / len(corpus))))
    every = max(1, steps // stage.evaluations)
    cuda = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(work),
        max_steps=steps,
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=min(micro, 32),
        gradient_accumulation_steps=stage.batch // (micro * processes),
        learning_rate=stage.lr,
        warmup_steps=round((stage.warmup or 0) * steps),
        lr_scheduler_type="linear",
        adam_beta2=0.98,
        weight_decay=stage.weight_decay,
        optim="adamw_torch_fused" if cuda else "adamw_torch",
        bf16=cuda,
        use_cpu=not cuda,
        logging_steps=max(1, every // 5),
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=2,
        seed=stage.seed,
        data_seed=stage.seed,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=cuda,
        logging_nan_inf_filter=False,
        disable_tqdm=True,
    )


def _tokens(steps: int, stage: Stage, corpus: Corpus) -> int:
    assert stage.batch is not None
    return round(steps * stage.batch * corpus.tokens / len(corpus))


def _curve(trainer: Distiller) -> tuple[dict[str, float], ...]:
    history = trainer.state.log_history
    return tuple({k.removeprefix("eval_"): v for k, v in row.items()} for row in history if "eval_loss" in row)


def _save(trainer: Distiller, source: Source, out: Path, force: bool, result: Distilled, stage: Stage, teacher: str) -> None:
    student = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(student, "tenfold_projections"):
        del student.tenfold_projections
    student.base_model.get_input_embeddings().requires_grad_(True)
    student.eval()
    with complete_folder(out, force) as partial:
        student.save_pretrained(partial)
        copy_beside(source, partial)
        assert source.folder is not None
        facts = {**result.to_dict(), "out": out.name, "teacher": teacher, "settings": stage.model_dump(mode="json")}
        write_history(partial, history(source.folder), stamp("distill", **facts))
