"""A stage from folders to a folder: load, prepare rows, train (or go on after a kill), save."""

import gc
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from transformers import TrainerState

from tenfold.checkpoints import Source, find, first_line
from tenfold.compression import Progress
from tenfold.distillation.blocks import unwrap
from tenfold.distillation.checkpoints import STATE, last_good
from tenfold.distillation.preparing import PROJECTIONS, Run, prepare
from tenfold.distillation.stage import Stage
from tenfold.errors import Interrupted, OutputError, TenfoldError
from tenfold.folders import complete_folder, refuse_existing
from tenfold.pipeline import copy_beside
from tenfold.records import digest, history, read_json, stamp, write_history, write_json
from tenfold.tasks import write_task


@dataclass(frozen=True)
class Distilled:
    """What came out. `curve` has a row for each measurement on held-out rows; `scores` are those of a task, by split.

    peak: on CUDA the share of the card's peak that training reached, and which peak is meant.
    """

    out: Path
    steps: int
    tokens: int
    seconds: float
    tokens_per_second: float
    curve: tuple[dict[str, float], ...]
    peak: Mapping[str, Any] | None = None
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "steps": self.steps,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 1),
            "tokens_per_second": round(self.tokens_per_second, 1),
            "peak": self.peak,
            "curve": list(self.curve),
            "scores": {split: dict(values) for split, values in self.scores.items()},
            "notes": list(self.notes),
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
    if os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true":
        raise TenfoldError(
            "distill gives every process the whole student (DDP), got accelerate's FSDP: start it with torchrun, or shard a "
            "student in code of your own as docs/distillation.md shows"
        )
    start = time.perf_counter()
    stage = stage.resolved()
    processes = PartialState(cpu=not torch.cuda.is_available())
    say: Progress = progress if processes.is_main_process else lambda _: None
    sources = find(student, weights=True), find(teacher, weights=True)
    work = out.with_name(f"{out.name}.training")
    if processes.is_main_process:
        _prepare_work(work, sources, stage, fresh)
    processes.wait_for_everyone()
    notes = Notes(say)
    try:
        run = _trained(sources, stage, work, notes)
    except BaseException:
        if processes.is_main_process and not _begun(work):
            shutil.rmtree(work, ignore_errors=True)
        raise
    result = _result(run, out, stage, time.perf_counter() - start, notes)
    if processes.is_main_process:
        _save(run, sources, out, force, result, stage)
        shutil.rmtree(work)
    processes.wait_for_everyone()
    return result


class Notes:
    """Says things; what is a warning stays among the notes of the result."""

    def __init__(self, say: Progress) -> None:
        self.say = say
        self.kept: list[str] = []

    def __call__(self, text: str) -> None:
        self.say(text)
        if text.startswith("warning:"):
            self.kept.append(text)


def _prepare_work(work: Path, sources: tuple[Source, Source], stage: Stage, fresh: bool) -> None:
    """OUT.training holds checkpoints until OUT is complete; it belongs to one set of inputs."""
    if fresh:
        shutil.rmtree(work, ignore_errors=True)
    settings = stage.model_dump(mode="json", exclude={"micro", "compile"})  # they change nothing but memory and speed
    weights = [digest(source.header.files) for source in sources if source.header]
    told = json.loads(json.dumps({"stage": settings, "models": weights}))
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"the folder beside OUT must be writable, got {error.strerror} for {work}: choose another") from error
    _claim(work / "run.json", told, "settings or models")


def _begun(work: Path) -> bool:
    return any(work.glob("checkpoint-*"))


def _claim(note: Path, told: Any, what: str) -> None:
    """What a run is of; an unfinished one of something else is not overwritten."""
    if read_json(note) not in (None, told) and _begun(note.parent):
        raise TenfoldError(f"{note.parent} holds an unfinished run with other {what}: finish that, or pass --fresh to drop it")
    write_json(note, told)


def _trained(sources: tuple[Source, Source], stage: Stage, work: Path, say: Progress) -> Run:
    """Where memory runs out, again from the last checkpoint with half the rows at a time: the steps stay the same."""
    while True:
        run = prepare(sources, stage, work, say)
        if run.trainer.args.should_save:
            _claim(work / "data.json", run.material.content, "rows")
        say(f"training for {run.trainer.args.max_steps:,} steps")
        micro = run.trainer.args.per_device_train_batch_size
        try:
            _train(run, last_good(work, say, drop=run.trainer.args.should_save), stage)
            return run
        except torch.OutOfMemoryError as error:
            if run.trainer.accelerator.num_processes > 1 or micro == 1:
                raise TenfoldError(
                    f"{micro} rows of {stage.length} tokens must fit in memory, got {first_line(error)}: lower micro "
                    "or length and start again, it goes on from its last checkpoint"
                ) from error
        finally:
            run.watch.close()
        del run  # after the handler, as the error holds on to all tensors
        gc.collect()
        torch.cuda.empty_cache()
        smaller = next(rows for rows in range(micro // 2, 0, -1) if micro % rows == 0)
        say(f"warning: {micro} rows at a time do not fit in memory: going on with {smaller}, the batch stays {stage.batch}")
        stage = stage.model_copy(update={"micro": smaller})


def _train(run: Run, checkpoint: str | None, stage: Stage) -> None:
    trainer = run.trainer
    trainer.args.eval_on_start = checkpoint is None
    if checkpoint is not None:
        state = TrainerState.load_from_json(str(Path(checkpoint) / STATE))
        if state.global_step >= trainer.args.max_steps:  # killed before OUT was complete; train() would add a step
            best = state.best_model_checkpoint if stage.keep == "best" else None
            trainer._load_from_checkpoint(best or checkpoint)
            trainer.state = state
            return
    trainer.train(resume_from_checkpoint=checkpoint)
    if run.watch.interrupted and trainer.state.global_step < trainer.args.max_steps:
        raise Interrupted(
            f"stopped at step {trainer.state.global_step} of {trainer.args.max_steps}: all is saved, the same command goes on"
        )


def _result(run: Run, out: Path, stage: Stage, seconds: float, notes: Notes) -> Distilled:
    assert stage.batch is not None
    steps = run.trainer.state.global_step
    log = run.trainer.state.log_history
    peak = run.watch.pace.peak
    scores, warned = run.material.scored(run.trainer.model)
    return Distilled(
        out,
        steps,
        round(steps * stage.batch * run.material.row_tokens),
        seconds,
        run.watch.rate,
        tuple({k.removeprefix("eval_"): v for k, v in row.items()} for row in log if "eval_loss" in row),
        None if peak is None else {"share": run.watch.share, "of": peak.source},
        scores,
        (*run.material.notes, *warned, *_chosen(run, stage), *notes.kept),
    )


def _chosen(run: Run, stage: Stage) -> list[str]:
    """Which state is kept, where dev had a say in it."""
    state = run.trainer.state
    if stage.keep == "last" or state.best_global_step is None:
        return []
    split = next(iter(run.material.dev))
    return [
        f"kept the state after step {state.best_global_step}, whose score on {split} was the best: that score is flattering"
    ]


def _save(run: Run, sources: tuple[Source, Source], out: Path, force: bool, result: Distilled, stage: Stage) -> None:
    student = unwrap(run.trainer.model)
    if hasattr(student, PROJECTIONS):
        delattr(student, PROJECTIONS)
    student.eval().requires_grad_(True)
    source = sources[0]
    assert source.folder is not None
    with complete_folder(out, force) as partial:
        student.save_pretrained(partial)
        copy_beside(source, partial)
        if run.material.data is not None and stage.task is not None:
            write_task(partial, run.material.data.task, stage.task)
        facts = {**result.to_dict(), "out": out.name, "teacher": sources[1].name, "settings": stage.model_dump(mode="json")}
        write_history(partial, history(source.folder), stamp("distill", **facts))
