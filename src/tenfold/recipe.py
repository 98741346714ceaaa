"""What the user asks for: strict, versioned, read from YAML and written next to what was made from it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tenfold.errors import RecipeError, nearest

INITS = ("auto", "random", "hosvd", "hooi", "activation")


class Compress(BaseModel):
    """How to write a model's matrices. Either `method` or `to`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str | None = Field(None, description="a name such as IV-36-128, III-64, II-245, III-64+II-4")
    to: str | None = Field(None, description="a size instead of a method: 1/48, 0.1 or 10%")
    of: Literal["matrices", "paper", "model"] = Field("model", description="what `to` is a share of")
    sites: Literal["all", "attention", "ffn"] | None = Field(
        None, description="which matrices take part; default: as the method says"
    )
    group: str = Field("all", description="what shares factors: all, role, layers:K (every K layers), none")
    tile: str = Field("square", description="square (hidden x hidden where it divides), whole, or IxO")
    family: str | None = Field(None, description="a family file's name, or auto")
    embeddings: int | None = Field(None, ge=1, description="rank for the table of word vectors; default: left alone")
    init: Literal["auto", "random", "hosvd", "hooi", "activation"] = Field("auto", description="where the factors start")
    rounds: int = Field(3, ge=0, le=100, description="alternating improvements after the first guess")
    recollect: bool = Field(False, description="fit each layer again to the inputs that the compressed layers before it give")
    text: str | tuple[str, ...] | None = Field(None, description="for init: activation: files, folders, globs or datasets:NAME")
    key: str = Field("text", description="where it is in a line of JSONL")
    tokens: int = Field(16384, ge=1, description="how many tokens of it")
    length: int = Field(128, ge=8, description="in rows of this length")
    seed: int = 0

    @property
    def reads_text(self) -> bool:
        return self.text is not None and (self.recollect or self.init in ("auto", "activation"))

    def unused(self) -> tuple[str, ...]:
        """What is asked for and has no effect, a sentence each."""
        start = self.init if self.init != "auto" else "activation" if self.text is not None else "hosvd"
        about_text = self._changed("tokens", "length", "key")
        rules = {
            "of is for a size (to), and a method is asked for": self.to is None and bool(self._changed("of")),
            f"text is not read: the start {start} looks at the weights alone": self.text is not None and not self.reads_text,
            f"{', '.join(about_text)} without text": self.text is None and bool(about_text),
            f"rounds are for hooi and activation, the start is {start}": start in ("random", "hosvd")
            and bool(self._changed("rounds")),
        }
        return tuple(f"without effect: {rule}" for rule, holds in rules.items() if holds)

    def _changed(self, *keys: str) -> list[str]:
        return [key for key in keys if getattr(self, key) != type(self).model_fields[key].default]


class Recipe(BaseModel):
    """A recipe file of compress; `tenfold.workflow` adds the sections of what comes after."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    model: str | None = None
    compress: Compress = Compress()


R = TypeVar("R", bound=Recipe)


def load_recipe(path: Path | None, overrides: dict[str, Any], kind: type[R] = Recipe) -> R:  # type: ignore[assignment]
    """The file (or nothing), then `section.key: value` overrides on top; everything is checked as one."""
    return parse_recipe(overridden(_read(path) if path else {}, overrides), kind)


def overridden(data: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """`section.key: value` overrides on top of `data`, which takes them up."""
    for dotted, value in overrides.items():
        section = data
        *parents, key = dotted.split(".")
        for parent in parents:
            if section.get(parent) is None:
                section[parent] = {}
            section = section[parent]
            if not isinstance(section, dict):
                raise RecipeError(f"a recipe key must lead through sections, got {dotted}: {parent} is a value")
        section[key] = value
    return data


def parse_recipe(data: dict[str, Any], kind: type[R] = Recipe) -> R:  # type: ignore[assignment]
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        found = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")  # it explains a key that is missing
        raise RecipeError(explain(found, _section(kind, found["loc"][:-1]).model_fields)) from error


def dump_recipe(recipe: Recipe) -> str:
    return yaml.safe_dump(recipe.model_dump(mode="json", exclude_none=True), sort_keys=False)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"a recipe must be a readable file, got {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecipeError(f"a recipe must be YAML, got {path}: {' '.join(str(error).split())}") from error
    if not isinstance(data, dict):
        raise RecipeError(f"a recipe must be a YAML mapping, got {type(data).__name__} in {path}")
    return data


def _section(kind: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel]:
    """The model that a place in the recipe is checked against, as far as sections are models of their own."""
    for part in location:
        field = kind.model_fields.get(str(part))
        kind = next(iter(_models(field.annotation)), kind) if field is not None else kind
    return kind


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Those that a type is made of: [Phase] for `tuple[Phase, ...] | None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in get_args(annotation) for model in _models(part)]


def explain(error: Any, known: Iterable[str]) -> str:
    """pydantic's first complaint as one line; an unknown key gets the nearest of those `known`."""
    location = [str(part) for part in error["loc"]]
    where = ".".join(location)
    if error["type"] == "extra_forbidden":
        return f'a recipe key must be one that this version knows, got "{where}": {nearest(location[-1], known)}'
    return f"the recipe key {where} is wrong: {error['msg']}, got {error['input']!r}"
