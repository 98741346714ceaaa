"""From a model and a task to OUT: every cell of the grid, the best on dev, more seeds of it. A killed run goes on."""

import json
import os
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenfold.checkpoints import Source, find
from tenfold.compression import Progress
from tenfold.errors import Interrupted, TenfoldError
from tenfold.finetuning.cell import Cell, Outcome, train
from tenfold.finetuning.material import Material, prepare
from tenfold.finetuning.settings import Finetune
from tenfold.folders import complete_folder, refuse_existing
from tenfold.pipeline import copy_beside
from tenfold.records import HISTORY, digest, history, read_json, stamp, write_history, write_json
from tenfold.tasks import TaskSpec, write_task

CELL, RUN = "cell.json", "run.json"


@dataclass(frozen=True)
class Finetuned:
    """cells: all that were run, the grid's first. best: the cell that was kept for each seed.

    Scores are those of the kept states on the dev splits, the mean over seeds, floors what the best answer that does not look
    at the text has there. split, metric: what was chosen by.
    """

    out: Path
    task: str
    split: str
    metric: str
    cells: tuple[Outcome, ...]
    best: tuple[Outcome, ...]
    notes: tuple[str, ...]
    seconds: float
    floors: Mapping[str, Mapping[str, float]]

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        kept = [outcome.scores or {} for outcome in self.best]
        return {
            split: {metric: statistics.fmean(each[split][metric] for each in kept) for metric in metrics}
            for split, metrics in kept[0].items()
        }

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "task": self.task,
            "split": self.split,
            "metric": self.metric,
            "cells": [outcome.row() for outcome in self.cells],
            "best": {"lr": self.best[0].cell.lr, "batch": self.best[0].cell.batch},
            "seeds": [{"seed": outcome.cell.seed, "scores": outcome.scores} for outcome in self.best],
            "scores": self.scores,
            "floors": self.floors,
            "notes": list(self.notes),
            "seconds": round(self.seconds, 1),
        }


def finetune_folder(
    model: str,
    out: Path,
    spec: TaskSpec,
    settings: Finetune,
    force: bool = False,
    progress: Progress = lambda _: None,
    *,
    fresh: bool = False,
) -> Finetuned:
    """MODEL fine-tuned on a task -> OUT, or with several seeds OUT/seed-0, OUT/seed-1, ... of the best cell.

    The grid is run at the first seed. OUT.finetuning holds what is done until OUT is complete: the same command goes on there.
    """
    _refuse(out, force)
    start = time.perf_counter()
    source = find(model, weights=True)
    progress("loading the rows")
    material = prepare(source, spec, settings, progress)
    work = out.resolve().with_name(f"{out.resolve().name}.finetuning")
    _prepare_work(work, source, spec, settings, material, fresh)
    grid = Grid(source, material, spec, settings, work, progress)
    try:
        best = grid.best()
    except KeyboardInterrupt as error:
        raise Interrupted(f"stopped: the cells that are done lie in {work}, the same command goes on") from error
    notes = tuple(dict.fromkeys([*material.notes, *(note for outcome in best for note in outcome.notes)]))
    task = material.task
    cells = tuple(grid.done.values())
    seconds = time.perf_counter() - start
    result = Finetuned(out, task.name, material.chooser, task.metrics[0], cells, best, notes, seconds, material.floors)
    _save(grid, result, out, force)
    shutil.rmtree(work)
    return result


class Grid:
    """Cells that are done lie in WORK/NAME, each complete or absent: cell.json, and the model of the best one of its seed."""

    def __init__(
        self, source: Source, material: Material, spec: TaskSpec, settings: Finetune, work: Path, say: Progress
    ) -> None:
        self.source, self.material, self.spec, self.settings, self.work, self.say = source, material, spec, settings, work, say
        self.done: dict[str, Outcome] = {}

    def best(self) -> tuple[Outcome, ...]:
        """Of each seed. The first seed's is the best of the grid, the others' are that cell again."""
        seed, settings = self.settings.seed, self.settings
        cells = [Cell(lr, batch, seed) for lr in settings.lr for batch in settings.batch]
        first = self._best_of(cells)
        rest = [Cell(first.cell.lr, first.cell.batch, seed + k) for k in range(1, settings.seeds)]
        return first, *(self._best_of([cell]) for cell in rest)

    def _best_of(self, cells: Sequence[Cell]) -> Outcome:
        kept: Outcome | None = None
        for number, cell in enumerate(cells, 1):
            outcome = self._outcome(cell, f"cell {number} of {len(cells)}, " if len(cells) > 1 else "")
            if outcome.score is not None and (kept is None or kept.score is None or outcome.score > kept.score):
                kept = outcome
            for other in cells[:number]:
                if kept is None or other != kept.cell:
                    self._prune(other)
        if kept is None:
            raise TenfoldError(f"at least one cell must end well, got none: {outcome.diverged}")
        if not (self.folder(kept.cell) / "config.json").is_file():  # an earlier, other grid had a better one
            shutil.rmtree(self.folder(kept.cell))
            kept = self._outcome(kept.cell, "")
        return kept

    def _outcome(self, cell: Cell, prefix: str) -> Outcome:
        folder = self.folder(cell)
        told = read_json(folder / CELL)
        if told is None:
            self.say(f"{prefix}{cell}: loading the model")
            model, outcome = train(
                self.source, self.material, self.settings, cell, self.work, lambda text: self.say(prefix + text)
            )
            with complete_folder(folder, force=True) as partial:
                if model is not None:
                    model.eval().save_pretrained(partial)
                    copy_beside(self.source, partial)
                write_json(partial / CELL, outcome.to_dict())
            told = outcome.to_dict()
        self.done[cell.name] = Outcome.from_dict(told)
        return self.done[cell.name]

    def folder(self, cell: Cell) -> Path:
        return self.work / cell.name

    def _prune(self, cell: Cell) -> None:
        """Weights of a cell that is not the best one."""
        for path in self.folder(cell).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != CELL:
                path.unlink()


def _save(grid: Grid, result: Finetuned, out: Path, force: bool) -> None:
    source, settings = grid.source, grid.settings
    assert source.folder is not None
    before = history(source.folder)
    facts = {
        **result.to_dict(),
        "out": out.name,
        "model": source.name,
        "settings": settings.model_dump(mode="json"),
        "data": grid.material.data.train.digest,
    }
    with complete_folder(out, force) as partial:
        for outcome in result.best:
            to = partial if settings.seeds == 1 else partial / f"seed-{outcome.cell.seed}"
            shutil.copytree(grid.folder(outcome.cell), to, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CELL))
            write_task(to, grid.material.task, grid.spec)
            own = {**facts, "scores": outcome.scores, "seed": outcome.cell.seed, "curve": list(outcome.curve)}
            write_history(to, before, stamp("finetune", **own))
        if settings.seeds > 1:
            write_task(partial, grid.material.task, grid.spec)
            write_history(partial, before, stamp("finetune", **facts, std=_std(result.best)))


def _std(best: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Over seeds: of a sample, so divided by one less than their number."""
    kept = [outcome.scores or {} for outcome in best]
    return {
        split: {metric: statistics.stdev(each[split][metric] for each in kept) for metric in metrics}
        for split, metrics in kept[0].items()
    }


def _refuse(out: Path, force: bool) -> None:
    """A folder of several seeds has no config.json, but --force may replace it like a model folder."""
    several = [entry for entry in (history(out) if out.is_dir() else []) if entry["verb"] == "finetune"]
    if not (force and several and (out / HISTORY).is_file()):
        refuse_existing(out, force)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise TenfoldError("fine-tuning runs in one process, got a launcher that starts several: run it without torchrun")


def _prepare_work(work: Path, source: Source, spec: TaskSpec, settings: Finetune, material: Material, fresh: bool) -> None:
    """OUT.finetuning belongs to one model, one set of rows and one way of training; the grid and the seeds may grow."""
    if fresh:
        shutil.rmtree(work, ignore_errors=True)
    assert source.header is not None
    kept: Mapping[str, Any] = settings.model_dump(mode="json", exclude={"lr", "batch", "seed", "seeds", "micro"})
    rows = [rows.digest for rows in (material.data.train, *material.data.dev.values())]
    told = json.loads(json.dumps({"settings": kept, "model": digest(source.header.files), "rows": rows, "length": spec.length}))
    before = read_json(work / RUN)
    if before is not None and before != told:
        raise TenfoldError(
            f"{work} holds an unfinished run with other settings, rows or model: finish that, or pass --fresh to drop it"
        )
    work.mkdir(parents=True, exist_ok=True)
    write_json(work / RUN, told)
