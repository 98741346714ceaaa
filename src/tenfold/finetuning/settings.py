"""How a model is fine-tuned: strict, part of recipes and of what a folder says of itself."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenfold.errors import RecipeError
from tenfold.recipe import explain

GRID: dict[str, Any] = {"lr": (1e-5, 2e-5, 3e-5), "batch": (16, 32)}
"""The paper's: three rates times two batches, the best on dev."""

Positive = Annotated[float, Field(gt=0)]


class Theseus(BaseModel):
    """Module replacing (BERT-of-Theseus, 2002.02925): each block of the student stands in for the teacher's with probability p.

    p rises linearly from `start` to 1 within the first `share` of the steps; the rest is fine-tuning of the student alone.
    Only blocks learn: embeddings and head are the teacher's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    teacher: str = Field(description="a folder fine-tuned on the same task")
    start: float = Field(0.3, ge=0, le=1)
    share: float = Field(0.5, gt=0, le=1)


class Finetune(BaseModel):
    """Every rate of `lr` with every size of `batch` is a cell of a grid; each is run, the best is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    lr: tuple[Positive, ...] = Field((2e-5,), min_length=1, description="of dense weights; a list makes a grid")
    factors: float = Field(20.0, gt=0, description="rate of a compressed model's factors: so many times lr")
    batch: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (32,), min_length=1, description="rows of a step; a list makes a grid"
    )
    micro: int | None = Field(None, ge=1, description="rows at a time, where a step's do not fit in memory")
    epochs: float = Field(3.0, gt=0)
    evaluations: int = Field(1, ge=1, description="how often an epoch is scored on dev, at most")
    patience: int | None = Field(None, ge=1, description="stop after so many scores in a row without a better one")
    keep: Literal["best", "last"] = Field("best", description="which state is saved, of those that were scored")
    class_weights: Literal["none", "balanced"] = Field("none", description="balanced: n / (classes x rows of the class)")
    warmup: float = Field(0.1, ge=0, lt=1)
    weight_decay: float = Field(0.01, ge=0)
    seed: int = 0
    seeds: int = Field(
        1, ge=1, description="runs with seed, seed + 1, ... in OUT/seed-0, OUT/seed-1, ...; the grid is the first one's"
    )
    theseus: Theseus | None = None


def parse_finetune(data: dict[str, Any]) -> Finetune:
    try:
        return Finetune.model_validate(data)
    except ValidationError as error:
        found = error.errors()[0]
        inside = found["loc"][0] == "theseus" and len(found["loc"]) > 1
        raise RecipeError(explain(found, (Theseus if inside else Finetune).model_fields)) from error
