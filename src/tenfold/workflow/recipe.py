"""The whole recipe: what compress takes, and the sections of everything that comes after it.

    version: 1
    model: bert-base-uncased
    compress: {method: IV-36-128}
    general: {text: wiki.txt, tokens: 200000000}      # a stage on unlabelled text
    data: {task: rte}                                 # labelled rows; finetune and task speak of these
    finetune: {lr: [1e-5, 2e-5], epochs: 3}           # the teacher, where the model does not answer the task yet
    task: {augment: {}}                               # a stage on those rows
    agree: {text: held_out.txt}                       # how alike the original and the result place these sentences
    measure: {batches: [1, 8], lengths: [128]}        # how fast they are
    report: true                                      # a model card and a page

A section that is left out is left out of the run; what a section leaves out has its default. Rows need a teacher and a stage:
with `data`, `finetune` and `task` have their defaults.
"""

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tenfold.distillation.stage import Stage
from tenfold.errors import RecipeError
from tenfold.finetuning.settings import Finetune
from tenfold.measurement import Settings
from tenfold.recipe import Compress, Recipe, load_recipe
from tenfold.tasks import TaskSpec

Count = Annotated[int, Field(ge=1)]


class Measure(BaseModel):
    """How the result's speed is measured against the original's: every batch x length x dtype x path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    batches: tuple[Count, ...] = Field((1, 8), min_length=1)
    lengths: tuple[Count, ...] = Field((128,), min_length=1)
    dtypes: tuple[str, ...] = Field(("float32",), min_length=1)
    paths: tuple[str, ...] = Field(("eager", "fused"), min_length=1)
    device: str | None = Field(None, description="default: the fastest there is")
    max_seconds: float = Field(20.0, gt=0, description="for each of them")
    seed: int = 0

    @property
    def settings(self) -> Settings:
        return Settings(**self.model_dump())


class Agree(BaseModel):
    """How alike the result and the original place sentences, on text that no stage saw."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(description="one sentence or passage a line")
    sentences: int = Field(200, ge=10, description="at most so many, from all of the text")


class Flow(Recipe):
    """A recipe of `tenfold run`."""

    data: TaskSpec | None = Field(None, description="labelled rows: a GLUE task, or files of your own")
    teacher: str | None = Field(None, description="a model that answers the task already; default: the model, fine-tuned")
    finetune: Finetune | None = Field(None, description="how the teacher learns the task")
    general: Stage | None = Field(None, description="a stage on unlabelled text")
    task: Stage | None = Field(None, description="a stage on the rows of `data`")
    agree: Agree | None = None
    measure: Measure | None = None
    report: bool = Field(True, description="false: no model card and no page")

    @property
    def start(self) -> Compress:
        """What compress is asked: where it may look at activations and has no text of its own, on the general stage's rows."""
        own, stage = self.compress, self.general
        if own.text is not None or own.init not in ("auto", "activation") or stage is None:
            return own
        length = own.length if "length" in own.model_fields_set or stage.length is None else stage.length
        return own.model_copy(update={"text": stage.text, "key": stage.key, "length": length})

    @property
    def task_stage(self) -> Stage | None:
        """The stage on `data`, complete: with its task, and its defaults where the recipe has no such section."""
        if self.data is None:
            return None
        return (self.task or Stage()).model_copy(update={"stage": "task", "task": self.data})

    @property
    def finetune_settings(self) -> Finetune:
        return self.finetune or Finetune(seed=0 if self.data is None else self.data.seed)

    def seeded(self, seed: int) -> "Flow":
        """The same with one seed everywhere."""
        names = ("compress", "data", "finetune", "general", "task", "measure")
        changed = {name: _seeded(section, seed) for name in names if (section := getattr(self, name)) is not None}
        return self.model_copy(update=changed)


def _seeded(section: Any, seed: int) -> Any:
    augment = getattr(section, "augment", None)
    inner = {} if augment is None else {"augment": _seeded(augment, seed)}
    return section.model_copy(update={"seed": seed, **inner})


def load_flow(path: Path | None, overrides: dict[str, Any]) -> Flow:
    """Read, overridden and checked as a whole: what can only fail later for the recipe's sake fails here.

    Without a recipe, speed is measured unless the overrides say `measure: null`.
    """
    flow = load_recipe(path, overrides if path else {"measure": {}, **overrides}, Flow)
    _check_start(flow)
    _check_rows(flow)
    for name, stage in (("general", flow.general), ("task", flow.task)):
        if stage is not None and "stage" in stage.model_fields_set and stage.stage != name:
            raise RecipeError(f"the section {name} holds a {name} stage, got {name}.stage {stage.stage}: leave stage out")
    for stage in filter(None, (flow.general, flow.task_stage)):
        stage.resolved()
    if flow.measure is not None:
        _ = flow.measure.settings
    return flow


def dump_flow(flow: Flow) -> str:
    """What was asked for, as YAML for load_flow. Defaults are left out: a stage refuses keys of the other one."""
    said = flow.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return yaml.safe_dump({"version": flow.version, **said}, sort_keys=False)


def _check_start(flow: Flow) -> None:
    if flow.model is None:
        raise RecipeError("a run needs a model, got none: name one in the recipe (model:) or with --model")
    if flow.compress.method is None and flow.compress.to is None:
        raise RecipeError("a run needs a method or a size, got neither: give compress.method or compress.to (--method, --to)")
    if flow.compress.method is not None and flow.compress.to is not None:
        raise RecipeError(
            f"a run takes a method or a size, got {flow.compress.method} and {flow.compress.to}: leave out compress.method "
            "or compress.to"
        )
    if flow.general is None and flow.data is None:
        raise RecipeError(
            "a run teaches, got neither text nor labelled rows: give --text or --train (compressing alone is tenfold compress)"
        )


def _check_rows(flow: Flow) -> None:
    about_rows = ("task", "teacher", "finetune")
    if flow.data is None and (given := [name for name in about_rows if getattr(flow, name) is not None]):
        raise RecipeError(
            f"{given[0]} is about labelled rows, got none: name them under data (--task, --train), or leave it out"
        )
    if flow.task is not None and flow.task.task is not None:
        raise RecipeError("a recipe names its task under data, got task.task as well: leave that out")
    if flow.teacher is not None and flow.finetune is not None:
        raise RecipeError(
            f"a run fine-tunes its teacher or is given one, got finetune and the teacher {flow.teacher}: leave one of them out"
        )
    if flow.finetune is not None and flow.finetune.seeds > 1:
        raise RecipeError(
            f"a run makes one model, got finetune.seeds {flow.finetune.seeds}: several seeds are for tenfold finetune"
        )
