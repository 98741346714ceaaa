"""What a campaign asks, as data: a teacher, tasks, the stages that all students go through, and a row for each student.

    version: 1
    model: all-MiniLM-L6-v2
    tasks: {stsb: {}, sst2: {seeds: 1, task: {epochs: 3, batch: 64}}}
    general: {text: text/wiki.train.txt.xz, tokens: 200000000}
    rows:
      IV-36-192: {compress: {method: IV-36-192}}
      every-2-kd: {layers: every-2, rival: kd, set: {general.lr: 1.0e-4}}

A row's `set` changes keys of compress, general, schedule, task or pairs, over the campaign's and its tasks'.
"""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenfold.distillation.stage import Stage
from tenfold.errors import RecipeError, nearest
from tenfold.finetuning.settings import Finetune
from tenfold.recipe import Compress, explain, overridden
from tenfold.tasks import glue_task

FOLDER = Path(__file__).parent
SECTIONS = ("compress", "general", "schedule", "task", "pairs")
"""What a row may change."""
OURS = ("warmup", "phases", "micro", "compile", "dropout", "evaluations")
"""Keys of a stage that the general stage of a campaign has no use for: its schedule stands in `schedule`."""
M = TypeVar("M", bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Schedule(Strict):
    """The general stage's rate: up within `warmup` tokens, level, and down to 0 within the last `decay` of all tokens.

    The level part does not know how long the stage will be, so a longer one goes on from where a shorter one began to decay.
    """

    warmup: int = Field(500_000, ge=0, description="tokens")
    decay: float = Field(0.2, ge=0, le=1, description="share of the stage's tokens")
    clip: float = Field(1.0, gt=0, description="norm of all gradients of a student, at most")
    rates: dict[str, float] = Field({}, description="of some factors, by name: {U: 0.5, V: 0.5} times the factors' rate")
    average: float | None = Field(None, gt=0, lt=1, description="the student is a running mean: so much of it is the past")
    measure: int = Field(2_000_000, ge=1, description="tokens from one measurement on held-out rows, and save, to the next")
    limit: int | None = Field(None, ge=1, description="tokens of the text that are read; default: all")
    calibration: int = Field(32_768, ge=1, description="tokens that an activation-aware start sees")
    dtype: Literal["float32", "float16", "bfloat16"] = Field("float16", description="of the student's file")


class Pairs(Strict):
    """More rows for a task of two texts: pairs out of the general stage's rows, which the teacher labels."""

    count: int = Field(0, ge=0)
    length: int = Field(32, ge=4, description="tokens of a text, at most")


class Part(Strict):
    """What is special about one task. teacher, task: over the campaign's. limit: of training rows, drawn at random."""

    seeds: int | None = Field(None, ge=1)
    limit: int | None = Field(None, ge=1)
    teacher: dict[str, Any] = {}
    task: dict[str, Any] = {}


class Row(Strict):
    """A student: factored, or some layers of the teacher. general: whether it has the stage on text.

    rival: the losses of its task stage are those of a known method (`tenfold.experiments.baselines`), at dense weights' rate.
    """

    title: str | None = None
    compress: dict[str, Any] | None = None
    layers: str | None = Field(None, description="every-2, or numbers from 0: these layers of the teacher instead of factors")
    begin: str | None = Field(None, description="a row above, whose student this one starts as: short rows of text first, say")
    rival: Literal["kd", "pkd", "tinybert"] | None = None
    general: bool = True
    set: dict[str, Any] = {}


class Search(Strict):
    """One factor at a time: `row` as it stands, and once more for every value of every key of `factors`.

    Scored on a slice of train that neither the student nor its teacher has seen.
    """

    row: str
    tasks: tuple[str, ...] = Field(min_length=1)
    seeds: int = Field(1, ge=1)
    factors: dict[str, tuple[Any, ...]]


class Campaign(Strict):
    """name: the model's, in summary.json and the page. held_out: the share of train that settings are chosen on."""

    version: Literal[1] = 1
    name: str
    model: str
    tasks: dict[str, Part] = Field(min_length=1)
    seeds: int = Field(3, ge=1)
    seed: int = 0
    held_out: float = Field(0.1, gt=0, lt=1)
    teacher: dict[str, Any] = {}
    general: dict[str, Any]
    schedule: dict[str, Any] = {}
    task: dict[str, Any] = {}
    pairs: dict[str, Any] = {}
    rows: dict[str, Row] = Field(min_length=1)
    search: Search | None = None

    def seeds_of(self, task: str) -> int:
        return self.tasks[task].seeds or self.seeds


@dataclass(frozen=True)
class Start:
    """A student before its task stages, worked out. general: None without that stage."""

    compress: Compress | None
    layers: str | None
    general: Stage | None
    schedule: Schedule
    begin: "Start | None" = None

    def to_dict(self) -> dict[str, Any]:
        parts = {"compress": self.compress, "general": self.general, "schedule": self.schedule}
        before = {} if self.begin is None else {"begin": self.begin.to_dict()}
        return {"layers": self.layers, **before} | {name: part and told(part) for name, part in parts.items()}

    @property
    def trunk(self) -> str:
        """The same for starts that differ in how long their stage is alone: they share its level part."""
        found = self.to_dict()
        (found["general"] or {}).pop("tokens", None)
        for key in ("decay", "measure", "dtype"):
            found["schedule"].pop(key)
        return key_of(found)


def key_of(settings: Any) -> str:
    return sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def told(settings: BaseModel) -> dict[str, Any]:
    """As results hold it. What is left out is not there, so that a key that comes later changes no result."""
    return settings.model_dump(mode="json", exclude_none=True)


def load_campaign(name: str) -> Campaign:
    """A file, or the name of one that is shipped."""
    path = Path(name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise RecipeError(f'a campaign must be a YAML file or a shipped one, got "{name}": {nearest(name, shipped())}')
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecipeError(f"a campaign must be YAML, got {path}: {' '.join(str(error).split())}") from error
    return parse_campaign(data)


def shipped() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def parse_campaign(data: Any) -> Campaign:
    """Checked as a whole: every row, task and search of it too."""
    if not isinstance(data, dict):
        raise RecipeError(f"a campaign must be a YAML mapping, got {type(data).__name__}")
    campaign = _checked(Campaign, data, "")
    if unknown := [task for task in campaign.tasks if glue_task(task).task.name != task]:
        raise RecipeError(f"a campaign names tasks plainly, got {unknown[0]}: write {glue_task(unknown[0]).task.name}")
    for task in campaign.tasks:
        teacher_settings(campaign, task)
        for row in campaign.rows:
            task_stage(campaign, row, task)
    for row in campaign.rows:
        start_of(campaign, row)
        pairs_of(campaign, row)
    if campaign.search is not None:
        strange = [task for task in campaign.search.tasks if task not in campaign.tasks]
        if strange or campaign.search.row not in campaign.rows:
            raise RecipeError(f"a search takes a row and tasks of its campaign, got {(*strange, campaign.search.row)[0]}")
        for key, values in campaign.search.factors.items():
            for value in values:
                varied(campaign, key, value)
    return campaign


def start_of(campaign: Campaign, row: str) -> Start:
    asked = campaign.rows[row]
    if sum(each is not None for each in (asked.compress, asked.layers, asked.begin)) != 1:
        raise RecipeError(f"a row needs one of compress, layers and begin, got none or several for {row}")
    before = None
    if asked.begin is not None:
        if asked.begin not in [*campaign.rows][: [*campaign.rows].index(row)] or not asked.general:
            raise RecipeError(
                f"a row that begins as another has a general stage and stands below it, got {asked.begin} for {row}"
            )
        before = start_of(campaign, asked.begin)
    data = _sections(campaign, row)
    schedule = _checked(Schedule, data["schedule"], "schedule")
    compress = None if asked.compress is None else _checked(Compress, data["compress"], "compress")
    if compress is not None and compress.text is not None:
        raise RecipeError(f"a start sees the rows of the general stage, got text of its own for {row}: leave it out")
    if asked.general and (wrong := [key for key in OURS if key in data["general"]]):
        raise RecipeError(f"the general stage of a campaign takes no {wrong[0]}, got one for {row}: see schedule")
    general = _checked(Stage, {"stage": "general", **data["general"]}, "general").resolved()
    if before is not None:
        return Start(before.compress, before.layers, general, schedule, before)
    return Start(compress, asked.layers, general if asked.general else None, schedule)


def corpus_stage(campaign: Campaign, row: str) -> Stage:
    """What text a start is calibrated on, also where it has no general stage."""
    return _checked(Stage, {"stage": "general", **_sections(campaign, row)["general"]}, "general").resolved()


def task_stage(campaign: Campaign, row: str, task: str) -> Stage:
    """Without the rows, which `tasks` adds; losses of rivals too."""
    data = {"stage": "task", **_sections(campaign, row, task)["task"]}
    stage = _checked(Stage, data, "task")
    if stage.task is not None or stage.unlabelled is not None or stage.keep == "best":
        raise RecipeError(f"a campaign names its rows and never looks at dev, got task, unlabelled or keep: best for {row}")
    return stage


def pairs_of(campaign: Campaign, row: str) -> Pairs:
    return _checked(Pairs, _sections(campaign, row)["pairs"], "pairs")


def teacher_settings(campaign: Campaign, task: str) -> Finetune:
    """The last state is kept: the best one would be chosen on dev."""
    data = {"keep": "last", **campaign.teacher, **campaign.tasks[task].teacher}
    found = _checked(Finetune, data, "teacher")
    if found.keep == "best" or found.seeds != 1 or found.seed or found.theseus is not None or found.patience is not None:
        raise RecipeError("a campaign has seeds of its own and never looks at dev, got keep, patience, seed, seeds or theseus")
    return found


def varied(campaign: Campaign, key: str, value: Any) -> tuple[Campaign, str]:
    """The campaign with one more row, that of its search with one key changed, and what it is called."""
    assert campaign.search is not None
    base = campaign.rows[campaign.search.row]
    name = f"{campaign.search.row} {key}={value if isinstance(value, str) else json.dumps(value)}"
    changed = base.model_copy(update={"set": {**base.set, key: value}})
    if key.startswith("compress."):
        changed = base.model_copy(update={"compress": {**(base.compress or {}), key.partition(".")[2]: value}})
    found = campaign.model_copy(update={"rows": {**campaign.rows, name: changed}})
    start_of(found, name)
    pairs_of(found, name)
    for task in campaign.search.tasks:
        task_stage(found, name, task)
    return found, name


def _sections(campaign: Campaign, row: str, task: str | None = None) -> dict[str, Any]:
    asked = campaign.rows[row]
    if strange := [key for key in asked.set if key.split(".")[0] not in SECTIONS or "." not in key]:
        raise RecipeError(f"a row sets keys of {', '.join(SECTIONS)}, got {strange[0]}: write for example task.lr")
    own = campaign.tasks[task].task if task else {}
    data = {
        "compress": asked.compress or {}, "general": campaign.general, "schedule": campaign.schedule,
        "task": {**campaign.task, **own}, "pairs": campaign.pairs,
    }  # fmt: skip
    return overridden(deepcopy(data), asked.set)


def _checked(kind: type[M], data: Mapping[str, Any], where: str) -> M:
    try:
        return kind.model_validate(dict(data))
    except ValidationError as error:
        found = error.errors()[0]
        place = f" (in {where})" if where else ""
        raise RecipeError(f"{explain(found, kind.model_fields)}{place}") from error
