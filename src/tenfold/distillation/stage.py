"""A stage of distillation as a recipe describes it: data, losses with weights, schedule, and which layers answer which."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenfold.distillation.losses import LABELS, LOSSES, loss_named, takes
from tenfold.distillation.matching import layer_map
from tenfold.errors import RecipeError, TenfoldError, nearest
from tenfold.recipe import explain
from tenfold.tasks.spec import AugmentSpec, TaskSpec
from tenfold.text import Settings

ALL, LAST = "all", "last"
ANSWERS = "answers"
"""The loss on what a model answers, by the kind of its task."""
ANSWERS_BY_KIND = {
    "classification": "soft_labels",
    "multi_label": "multi_soft_labels",
    "regression": "logit_mse",
    "embedding": "sentence",
}


class LossTerm(BaseModel):
    """One loss: a name of LOSSES (or "answers"), its weight, and the layers of the student that it looks at."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    weight: Annotated[float, Field(gt=0)] = 1.0
    layers: Literal["all", "last"] | tuple[int, ...] = "all"
    temperature: Annotated[float, Field(gt=0)] | None = Field(None, description="of soft labels; default 1")
    heads: Annotated[int, Field(ge=1)] | None = Field(None, description="of relations; default: as many as the teacher has")

    @property
    def options(self) -> dict[str, Any]:
        """What goes to the loss's function, which must take it."""
        found = {name: getattr(self, name) for name in ("temperature", "heads") if getattr(self, name) is not None}
        for option, value in found.items():
            if not takes(self.name, option):
                raise RecipeError(
                    f"an option must be one that its loss takes, got {option} {value} for {self.name}: leave it out"
                )
        return found

    def pairs(self, student: int, teacher: int, choice: str | dict[int, int] | None) -> list[tuple[int, int]]:
        """(student layer, teacher layer) for models of these depths; one pair for a loss of the whole model."""
        if not loss_named(self.name).per_layer:
            return [(-1, -1)]
        if self.layers == LAST and choice is None:
            return [(student, teacher)]
        pairs = layer_map(student, teacher, choice)
        if isinstance(self.layers, tuple) and (unknown := [k for k in self.layers if k not in pairs]):
            known = ", ".join(map(str, sorted(pairs)))
            raise TenfoldError(
                f"layers of the loss {self.name} must be among those that the map pairs ({known}), got {unknown[0]}: list those"
            )
        chosen = [*pairs] if self.layers == ALL else [max(pairs)] if isinstance(self.layers, str) else self.layers
        return [(k, pairs[k]) for k in chosen]


class Phase(BaseModel):
    """A part of a stage: its share of the steps, with losses, rates and decay of its own.

    local: every block is fed what the teacher's block reads and copies what that puts out, so that all train independently;
    there are no other losses then.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    share: Annotated[float, Field(gt=0)] = 1.0
    losses: tuple[LossTerm, ...] = ()
    local: bool = False
    lr: Annotated[float, Field(gt=0)] = 1.0
    """A factor on the stage's rates."""
    decay: Literal["linear", "constant"] = "linear"

    def check(self, stage: str) -> None:
        if self.local and self.losses:
            raise RecipeError(f"a local phase compares blocks only, got the loss {self.losses[0].name}: leave losses out")
        if not self.local and not self.losses:
            raise RecipeError("a phase needs at least one loss, got none: name losses, or set local")
        for loss in self.losses:
            if loss.name not in (ANSWERS, *LOSSES):
                raise RecipeError(
                    f'a loss must be one that exists, got "{loss.name}": {nearest(loss.name, (ANSWERS, *LOSSES))}'
                )
            if stage == "general" and (loss.name == ANSWERS or LABELS in loss_named(loss.name).reads):
                raise RecipeError(
                    f'the loss "{loss.name}" needs a task, got the general stage: take losses on hidden states or on logits'
                )
            if loss.name != ANSWERS:
                _ = loss.options


ONLY: Mapping[str, frozenset[str]] = {
    "general": frozenset({"text", "tokens", "key", "mode", "pairs", "held_out"}),
    "task": frozenset({"task", "augment", "unlabelled", "epochs", "keep", "inherit"}),
}
"""Keys that the other stage does not read."""


class Stage(BaseModel):
    """One round. What is left out comes from the preset; see PRESETS."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: Literal["general", "task"] = Field("general", description="on unlabelled text, or on a task's rows")
    preset: Literal["tenfold", "paper"] = "tenfold"
    text: str | tuple[str, ...] | None = Field(None, description="general: files, folders, globs or datasets:NAME")
    tokens: int = Field(20_000_000, ge=1, description="general: how many tokens the student sees")
    key: str = Field("text", description="general: where the text is in a line of JSONL")
    mode: Literal["packed", "paragraph"] = "packed"
    pairs: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="general: share of rows that are sentence pairs")
    held_out: int = Field(64, ge=1, description="general: rows kept apart to measure on")
    task: TaskSpec | None = Field(None, description="task: which")
    augment: AugmentSpec | None = Field(None, description="task: changed copies of its rows, which the teacher labels")
    unlabelled: str | None = Field(None, description="task: a table of more texts, which the teacher labels")
    epochs: float | None = Field(None, gt=0, description="task: passes over the unchanged rows; default: by their number")
    keep: Literal["last", "best"] = Field("last", description="task: which state is saved; best looks at dev's headline score")
    inherit: bool = Field(True, description="task: start from the teacher's embeddings and head where shapes agree")
    losses: tuple[LossTerm, ...] | None = Field(None, description="for a stage of one phase")
    phases: tuple[Phase, ...] | None = Field(None, description="instead of losses")
    pooling: Literal["mean", "cls"] | None = Field(
        None, description="of sentence vectors, in losses and scores; default: as the student's folder says, else mean"
    )
    map: str | dict[int, int] | None = Field(None, description="which layer answers which, where depths differ")
    batch: int | None = Field(None, ge=1, description="rows of a step")
    micro: int | None = Field(None, ge=1, description="rows at a time; default: all of the step's")
    length: int | None = Field(None, ge=8, description="tokens of a row; default: 128, or the task's")
    lr: float | None = Field(None, gt=0, description="of the factors")
    lr_rest: float | None = Field(None, gt=0, description="of biases, norms and everything else")
    warmup: float | None = Field(None, ge=0, lt=1, description="share of each phase")
    warmup_steps: int | None = Field(None, ge=0, description="at least so many steps, but no more than half of a phase")
    weight_decay: float | None = Field(None, ge=0)
    freeze_embeddings: bool = True
    dropout: bool = False
    compile: bool = Field(False, description="torch.compile both models")
    evaluations: int = Field(10, ge=1, description="how often to measure on held-out rows")
    seed: int = 0

    def resolved(self) -> "Stage":
        """The same with everything filled in from its preset, as phases; what contradicts itself is refused."""
        self._check_data()
        if self.losses is not None and self.phases is not None:
            raise RecipeError("a stage takes either losses or phases, got both: a stage of one phase needs only losses")
        missing = {k: v for k, v in PRESETS[self.stage, self.preset].items() if getattr(self, k) is None}
        if self.warmup is not None and self.warmup_steps is None:
            missing["warmup_steps"] = 0  # a share that was asked for is the share
        if self.losses is not None:
            missing["phases"] = (Phase(losses=self.losses),)
        if self.task is not None and self.length is not None:
            missing["task"] = self.task.model_copy(update={"length": self.length})
        found = self.model_copy(update={**missing, "losses": None})
        for phase in found.phases or ():
            phase.check(self.stage)
        return found

    def _check_data(self) -> None:
        if self.stage == "task" and self.task is None:
            raise RecipeError("the task stage needs a task, got none: name one (--task rte) or give --train FILE")
        if self.stage == "general" and self.text is None:
            raise RecipeError("the general stage learns from text, got none: give --text FILE")
        other = "task" if self.stage == "general" else "general"
        if ignored := sorted(self.model_fields_set & ONLY[other]):
            raise RecipeError(
                f"the {self.stage} stage takes no {ignored[0]}, got one: leave it out, or make it --stage {other}"
            )

    @property
    def corpus(self) -> Settings:
        return Settings(length=self.length or 128, mode=self.mode, pairs=self.pairs, key=self.key, seed=self.seed)


PRESETS: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("general", "paper"): {
        "phases": (Phase(losses=(LossTerm(name="hidden", layers="last"), LossTerm(name="scores", layers="last"))),),
        "batch": 256,
        "lr": 1e-4,
        "lr_rest": 1e-4,
        "warmup": 0.1,
        "warmup_steps": 0,
        "weight_decay": 0.01,
    },
    ("general", "tenfold"): {
        "phases": (Phase(losses=(LossTerm(name="hidden"), LossTerm(name="vectors", weight=0.5))),),
        "batch": 32,
        "lr": 4e-3,
        "lr_rest": 2e-3,
        "warmup": 0.05,
        "warmup_steps": 150,
        "weight_decay": 0.0,
    },
    ("task", "paper"): {
        "phases": (
            Phase(share=3, losses=(LossTerm(name="hidden"), LossTerm(name="scores")), decay="constant"),
            Phase(share=1, losses=(LossTerm(name=ANSWERS),), lr=0.4),
        ),
        "batch": 32,
        "lr": 5e-5,
        "lr_rest": 5e-5,
        "warmup": 0.1,
        "warmup_steps": 0,
        "weight_decay": 0.01,
    },
    ("task", "tenfold"): {
        "phases": (Phase(losses=(LossTerm(name=ANSWERS), LossTerm(name="hidden"))),),
        "batch": 32,
        "lr": 1e-3,
        "lr_rest": 5e-4,
        "warmup": 0.05,
        "warmup_steps": 0,
        "weight_decay": 0.0,
    },
}
"""paper, general: its code's (lr 1e-4, warm-up 0.1, decay 0.01, batch 256, last hidden + last scores); task: hidden states and
scores of all layers at a constant rate, then soft labels. tenfold, general: all hidden states and all Q, K, V vectors, each
over the teacher's variance, at the rate that suits factors, which undoes a good start unless it rises for long enough; task:
the teacher's answers and hidden states at once."""


def parse_stage(data: Mapping[str, Any]) -> Stage:
    try:
        return Stage.model_validate(data)
    except ValidationError as error:
        found = error.errors()[0]
        raise RecipeError(explain(found, _section(found["loc"]).model_fields)) from error


def _section(location: tuple[str | int, ...]) -> type[BaseModel]:
    """The model that the last key of a location stands in."""
    sections: dict[str | int, type[BaseModel]] = {
        "task": TaskSpec, "augment": AugmentSpec, "losses": LossTerm, "phases": Phase,
    }  # fmt: skip
    inside = [sections[part] for part in location[:-1] if part in sections]
    return inside[-1] if inside else Stage
