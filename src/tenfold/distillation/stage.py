"""A stage of distillation as a recipe describes it: data, losses with weights, schedule, and which layers answer which."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenfold.distillation.losses import loss_named
from tenfold.distillation.matching import layer_map
from tenfold.errors import RecipeError, TenfoldError
from tenfold.recipe import explain
from tenfold.text import Settings

ALL, LAST = "all", "last"


class LossTerm(BaseModel):
    """One loss: a name of LOSSES, its weight, and the layers of the student that it looks at (all, last or a list)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    weight: Annotated[float, Field(gt=0)] = 1.0
    layers: Literal["all", "last"] | tuple[int, ...] = "all"
    temperature: float | None = None

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


class Stage(BaseModel):
    """One round. What is left out comes from the preset; see PRESETS."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: Literal["tenfold", "paper"] = "tenfold"
    text: str | tuple[str, ...] | None = Field(None, description="files, folders, globs or datasets:NAME")
    losses: tuple[LossTerm, ...] | None = None
    map: str | dict[int, int] | None = Field(None, description="which layer answers which, where depths differ")
    tokens: int = Field(20_000_000, ge=1, description="how many tokens the student sees")
    batch: int | None = Field(None, ge=1, description="rows of a step")
    micro: int | None = Field(None, ge=1, description="rows at a time; default: all of the step's")
    length: int = Field(128, ge=8)
    mode: Literal["packed", "paragraph"] = "packed"
    pairs: Annotated[float, Field(ge=0, le=1)] = Field(0.0, description="share of rows that are sentence pairs")
    lr: float | None = Field(None, gt=0, description="of the factors")
    lr_rest: float | None = Field(None, gt=0, description="of biases, norms and everything else")
    warmup: float | None = Field(None, ge=0, lt=1)
    weight_decay: float | None = Field(None, ge=0)
    freeze_embeddings: bool = True
    dropout: bool = False
    held_out: int = Field(64, ge=1, description="rows kept apart to measure on")
    evaluations: int = Field(10, ge=1, description="how often to measure on them")
    seed: int = 0

    def resolved(self) -> "Stage":
        """The same with everything filled in from its preset."""
        missing = {k: v for k, v in PRESETS[self.preset].items() if getattr(self, k) is None}
        return self.model_copy(update=missing)

    @property
    def corpus(self) -> Settings:
        return Settings(length=self.length, mode=self.mode, pairs=self.pairs, seed=self.seed)


PRESETS: dict[str, dict[str, object]] = {
    "paper": {
        "losses": (LossTerm(name="hidden", layers="last"), LossTerm(name="scores", layers="last")),
        "batch": 256,
        "lr": 1e-4,
        "lr_rest": 1e-4,
        "warmup": 0.1,
        "weight_decay": 0.01,
    },
    "tenfold": {
        "losses": (LossTerm(name="hidden"), LossTerm(name="vectors", weight=0.5)),
        "batch": 32,
        "lr": 4e-3,
        "lr_rest": 2e-3,
        "warmup": 0.05,
        "weight_decay": 0.0,
    },
}
"""paper: its code's general stage (FIELD: lr 1e-4, warm-up 0.1, decay 0.01, batch 256, last hidden + last scores).
tenfold: all hidden states and all Q, K, V vectors, each over the teacher's variance, at the rate that suits factors."""


def parse_stage(data: dict[str, Any]) -> Stage:
    try:
        return Stage.model_validate(data)
    except ValidationError as error:
        raise RecipeError(explain(error.errors()[0], Stage.model_fields)) from error
