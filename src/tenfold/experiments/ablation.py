"""What an ablation is asked: one way to make a student, and cells that each change something of it.

    version: 1
    title: the stages of distillation
    compress: {method: IV-36-128}
    general: {text: wiki.txt, tokens: 20000000}
    data: [{task: rte}, {task: mrpc}]
    cells:
      GD+TD: {general: true}
      GD+fine-tune: {general: true, finish: finetune}
      fine-tune: {general: false, finish: finetune}

A sweep makes cells out of every combination of values:

    sweep: {compress.method: [IV-36-128, IV-36-256], compress.init: [random, hooi]}
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tenfold.distillation.stage import Stage
from tenfold.errors import RecipeError
from tenfold.experiments.bench import folder_name
from tenfold.finetuning.settings import Finetune
from tenfold.recipe import Compress, Recipe, load_recipe, overridden, parse_recipe
from tenfold.tasks import TaskSpec

SECTIONS = ("compress", "general", "finetune", "task")
"""What a cell may change."""


class Cell(BaseModel):
    """general: whether it has the stage on text; default: as the recipe. finish: how it learns the task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str | None = None
    general: bool | None = None
    finish: Literal["distill", "finetune"] = "distill"
    set: dict[str, Any] = Field({}, description="section.key: value, over the recipe's")


STAGES: Mapping[str, Cell] = {
    "GD+TD": Cell(title="general and task distillation", general=True),
    "GD+fine-tune": Cell(title="general distillation, then the labels alone", general=True, finish="finetune"),
    "fine-tune": Cell(title="the labels alone", general=False, finish="finetune"),
}
"""The paper's ablation, and what is run where a recipe names neither cells nor a sweep."""


class Ablation(Recipe):
    """A recipe of `tenfold ablate`."""

    title: str = "the stages of distillation"
    general: Stage | None = None
    data: tuple[TaskSpec, ...] = ()
    finetune: Finetune = Finetune()
    task: Stage = Stage(stage="task")
    seeds: int = Field(1, ge=1)
    seed: int = 0
    cells: dict[str, Cell] = Field({})
    sweep: dict[str, tuple[Any, ...]] = Field({})


@dataclass(frozen=True)
class Variant:
    """A cell worked out: everything that makes its students. changes: the keys in which it differs from the recipe."""

    name: str
    title: str
    changes: tuple[str, ...]
    compress: Compress
    general: Stage | None
    finish: str
    finetune: Finetune
    task: Stage

    def to_dict(self) -> dict[str, Any]:
        sections = {name: getattr(self, name) for name in SECTIONS}
        return {"finish": self.finish} | {name: each and each.model_dump(mode="json") for name, each in sections.items()}


def load_ablation(path: Path | None, overrides: dict[str, Any]) -> Ablation:
    """Read, overridden and checked as a whole, every cell of it too."""
    found = load_recipe(path, overrides, Ablation)
    if not found.data:
        raise RecipeError("an ablation needs labelled rows, got none: name tasks (--tasks rte,mrpc) or give --train FILE")
    if found.finetune.seeds > 1 or found.finetune.theseus is not None or found.task.task is not None:
        raise RecipeError("an ablation has seeds and data of its own, got them under finetune or task: leave them out there")
    chosen = variants(found)
    if moot := [key for key in overrides if all(key in each.changes for each in chosen)]:
        raise RecipeError(f"every cell of this ablation sets {moot[0]} itself, got one more for all: leave it out")
    return found


def variants(ablation: Ablation) -> list[Variant]:
    """The cells, each at every combination of the sweep."""
    cells = ablation.cells or ({"": Cell()} if ablation.sweep else STAGES)
    points = [dict(zip(ablation.sweep, values, strict=True)) for values in product(*ablation.sweep.values())]
    found = [_variant(ablation, name, cell, point) for name, cell in cells.items() for point in points]
    if len({each.name for each in found}) < len(found):
        raise RecipeError("every cell of an ablation needs a name of its own, got one twice: mind the values of the sweep")
    return found


def _variant(ablation: Ablation, name: str, cell: Cell, point: Mapping[str, Any]) -> Variant:
    changes = {**cell.set, **point}
    if strange := [key for key in changes if key.split(".")[0] not in SECTIONS or "." not in key]:
        raise RecipeError(f"a cell changes keys of {', '.join(SECTIONS)}, got {strange[0]}: write for example compress.method")
    data = deepcopy(ablation.model_dump(mode="json", include=set(SECTIONS), exclude_unset=True))
    data.setdefault("task", {})["stage"] = "task"
    general = data.get("general") is not None if cell.general is None else cell.general
    told = "; ".join(f"{key.partition('.')[2]}={_short(value)}" for key, value in point.items())
    full = " ".join(filter(None, (name, told.replace("; ", " "))))
    if any(key.startswith("compress.to") for key in changes):
        data.setdefault("compress", {})["method"] = None
    if any(key.startswith("compress.method") for key in changes):
        data.setdefault("compress", {})["to"] = None
    found = parse_recipe(overridden(data, changes), Ablation)
    if found.compress.method is None and found.compress.to is None:
        raise RecipeError(f"a cell needs a method or a size, got neither for {full}: give compress.method or compress.to")
    if general and found.general is None:
        raise RecipeError(f"general distillation (the cell {full}) learns from text, got none: give --text FILE")
    if found.general is not None:
        found.general.resolved()
    start = _start(found)
    if start.init == "activation" and start.text is None:
        raise RecipeError(f"the start activation (the cell {full}) needs text to look at, got none: give --text FILE")
    title = cell.title or told or full
    chosen = found.general if general else None
    return Variant(full, title, tuple(changes), start, chosen, cell.finish, found.finetune, found.task)


def _start(found: Ablation) -> Compress:
    """Where it may look at activations and has no text of its own, on the general stage's: alike for all cells."""
    own = found.compress
    if own.text is None and own.init in ("auto", "activation") and found.general is not None:
        return own.model_copy(update={"text": found.general.text, "key": found.general.key})
    return own


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def data_names(ablation: Ablation) -> dict[str, TaskSpec]:
    """Each task by the name of its folder."""
    found: dict[str, TaskSpec] = {}
    for spec in ablation.data:
        name = folder_name(spec)
        if name in found:
            raise RecipeError(f"every task of an ablation needs a name of its own, got {name} twice: leave one out")
        found[name] = spec
    return found


def key_of(*parts: BaseModel) -> str:
    """A short name for settings: the same for the same."""
    return sha256(json.dumps([part.model_dump(mode="json") for part in parts], sort_keys=True).encode()).hexdigest()[:8]
