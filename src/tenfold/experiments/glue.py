"""STUDENT on every task of GLUE, or on rows of the user's own: teachers, task distillation, rivals, scores, one table.

The same command goes on where it was killed; with more tasks, seeds or rivals it adds to what is there.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenfold.checkpoints import find, refuse_compressed
from tenfold.compression import Progress
from tenfold.distillation.stage import Stage
from tenfold.errors import RecipeError, TenfoldError
from tenfold.experiments.baselines import baseline
from tenfold.experiments.bench import Bench, check_rows, folder_name
from tenfold.experiments.results import results, row_of, teacher_row, warnings, write_results
from tenfold.experiments.rival import original_of
from tenfold.finetuning.settings import Finetune
from tenfold.recipe import explain
from tenfold.records import Record, digest
from tenfold.tasks import TaskSpec, glue, glue_task
from tenfold.tasks.official import find_folder
from tenfold.workflow.steps import Steps

USUAL = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
"""GLUE without WNLI, on which all models do best to answer always no, as in most papers."""


class Table(BaseModel):
    """What `tenfold glue` is asked. finetune: the teachers and the rivals that learn from labels; task: the students' stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: tuple[str, ...] = Field((), description="default: all but WNLI; with data_dir those of them that are there")
    data_dir: str | None = Field(None, description="GLUE in its official layout; default: the hub")
    own: TaskSpec | None = Field(None, description="rows of your own (train: FILE, ...) in place of tasks")
    limit: int | None = Field(None, ge=1, description="at most so many training rows of each task, drawn at random")
    length: int | None = Field(None, ge=8, description="tokens of a row; default: the task's")
    seeds: int = Field(1, ge=1, description="students (and rivals) of each task, with seed, seed + 1, ...")
    seed: int = 0
    baselines: tuple[str, ...] = Field((), description="dense, low_rank, every-K-kd, -pkd, -tinybert, -theseus")
    teachers: str | None = Field(
        None, description="a folder of teachers by task, made there where missing; default: OUT/teachers"
    )
    finetune: Finetune = Finetune()
    task: Stage = Stage(stage="task")


def parse_table(data: Mapping[str, Any]) -> Table:
    try:
        table = Table.model_validate(dict(data))
    except ValidationError as error:
        found = error.errors()[0]
        sections: dict[str, type[BaseModel]] = {"finetune": Finetune, "task": Stage, "own": TaskSpec}
        known = sections.get(str(found["loc"][0]), Table) if len(found["loc"]) > 1 else Table
        raise RecipeError(explain(found, known.model_fields)) from error
    if table.task.task is not None or table.task.stage != "task":
        raise RecipeError(
            "the section task says how students are taught, got a task or stage of its own: name tasks under tasks"
        )
    if table.own is not None and (table.tasks or table.data_dir is not None or table.own.task is not None):
        raise RecipeError("a table takes tasks of GLUE or rows of your own (--train), got both: leave one out")
    if table.own is not None and table.own.train is None:
        raise RecipeError("rows of your own must have some to learn from, got none: give --train FILE")
    if table.finetune.seeds > 1 or table.finetune.theseus is not None:
        raise RecipeError("a table has seeds and rivals of its own, got finetune.seeds or theseus: give seeds and baselines")
    return table


def run_glue(
    student: str,
    out: Path,
    table: Table,
    model: str | None = None,
    fresh: bool = False,
    progress: Progress = lambda _: None,
) -> Record:
    """OUT/TASK/seed-K, OUT/teachers/TASK, OUT/baselines/NAME/TASK/seed-K, OUT/results.json. What is there stays."""
    model = model or original_of(student)
    if model is None:
        raise TenfoldError(f"a student needs the model that teaches it, got {student}, which does not say: give --model")
    tasks = task_specs(table)
    check_rows(tasks)
    bench = _bench(student, out, table, model, tasks, fresh, progress)
    rivals = [baseline(name, student) for name in dict.fromkeys(table.baselines)]
    starts = {
        rival.name: rival.start(bench) for rival in rivals
    }  # first of all: what cannot be had is said before hours of work
    for task in tasks:
        for k in range(table.seeds):
            bench.distilled(student, "", task, k, table.task)
            for rival in rivals:
                rival.learn(bench, starts[rival.name], task, k)
    records = {rival.name: bench.scored(rival.place) for rival in rivals}
    ours = bench.scored("", {rival.name: str(bench.steps.work / rival.place) for rival in rivals})
    rows = [teacher_row(bench, ours), row_of(bench, Path(student).name, "student", "the student", "", ours)]
    rows += [row_of(bench, each.name, "baseline", each.title, each.place, records[each.name]) for each in rivals]
    told = {"student": ours, **records}
    facts = {
        "student": student,
        "settings": table.model_dump(mode="json"),
        "averages": ours["averages"],
        "warnings": warnings(told),
    }
    found = results(bench, "glue", rows, ours, **facts)
    write_results(bench.steps.work, found)
    return found


def task_specs(table: Table) -> dict[str, TaskSpec]:
    """By the plain name of each task, in GLUE's order of the names given; own rows by the name of their file."""
    facts = {"data_dir": table.data_dir, "limit": table.limit, "length": table.length}
    given = {key: value for key, value in facts.items() if value is not None}
    if table.own is not None:
        return {folder_name(table.own): table.own.model_copy(update=given)}
    names = [glue_task(name).task.name for name in table.tasks] or list(USUAL)
    if without := [name for name in names if not glue()[name].files["dev"]]:
        raise TenfoldError(
            f"a task must have a dev set to score on, got {without[0]}: it is answered for the server (tenfold submit)"
        )
    if table.data_dir is not None and not table.tasks:
        folder = Path(table.data_dir).expanduser()
        names = [name for name in names if find_folder(glue()[name], folder) is not None]
        if not names:
            raise TenfoldError(f"--data-dir must hold tasks of GLUE, got none of {', '.join(USUAL)} in {folder}")
    return {name: TaskSpec(task=name, **given) for name in dict.fromkeys(names)}


def _bench(
    student: str, out: Path, table: Table, model: str, tasks: Mapping[str, TaskSpec], fresh: bool, progress: Progress
) -> Bench:
    """OUT belongs to one student, model and way of teaching; tasks, seeds and baselines may be added later."""
    sources = find(model, weights=True), find(student, weights=True)
    refuse_compressed(sources[0])
    same = table.model_dump(mode="json", exclude={"tasks", "seeds", "baselines", "teachers"})
    models = [digest(source.header.files) for source in sources if source.header]
    steps = Steps(out.resolve(), {"verb": "glue", "table": same, "models": models}, fresh, progress)
    teachers = steps.work / "teachers" if table.teachers is None else Path(table.teachers).expanduser().resolve()
    return Bench(steps, model, tasks, table.finetune, table.task, table.seeds, table.seed, teachers)
