"""What lies beside a model's weights, read strictly: a file that is not as tenfold writes it is refused in one line.

Only what is shown is named here; more keys may be there. measurement.json has its reader in tenfold.measurement.
"""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tenfold.errors import CheckpointError
from tenfold.records import read_json

TEACHER = "teacher"


class Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Entry(Part):
    """Of any file: which command made it, when, with what."""

    command: tuple[str, ...] = ()
    time: str = ""
    versions: dict[str, str] = {}
    machine: str = ""


class Seed(Part):
    folder: str
    scores: dict[str, float]


class Floor(Part):
    """What the best answer scores that does not look at the text."""

    scores: dict[str, float]
    answer: str = ""


class Against(Part):
    """Another model on the same rows. `difference` is of the headline, `low` and `high` its 95% interval."""

    role: str
    name: str
    scores: dict[str, float]
    retention: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


class Split(Part):
    rows: int
    mean: dict[str, float]
    std: dict[str, float] | None = None
    seeds: tuple[Seed, ...] = ()
    floor: Floor | None = None
    against: tuple[Against, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def teacher(self) -> Against | None:
        return next((each for each in self.against if each.role == TEACHER), None)


class TaskScores(Part):
    """`metrics`: the headline first."""

    metrics: tuple[str, ...]
    splits: dict[str, Split]


class Mean(Part):
    """Of a rival, over the tasks of an average."""

    role: str
    name: str
    mean: float | None = None
    retention: float | None = None


class Average(Part):
    title: str
    mean: float
    against: tuple[Mean, ...] = ()

    @property
    def teacher(self) -> Mean | None:
        return next((each for each in self.against if each.role == TEACHER), None)


class Scores(Entry):
    tasks: dict[str, TaskScores]
    averages: dict[str, Average] = {}


class Alike(Part):
    """How a model places held-out sentences, against the original; 1 is perfect."""

    name: str
    cosine: float
    rank_correlation: float
    neighbours_kept: float


class Agreement(Entry):
    original: str
    sentences: int
    rows: tuple[Alike, ...]


class Cell(Part):
    """A model of a table on one split. `constant`: which of its seeds give one answer to everything."""

    mean: dict[str, float]
    std: dict[str, float] | None = None
    retention: float | None = None
    constant: tuple[str, ...] = ()


class Row(Part):
    """A model of a table, its scores by task and split; `average` is that of the first metric of every task."""

    name: str
    role: str
    title: str = ""
    method: str = "dense"
    parameters: int | None = None
    kept: float | None = None
    bytes: int | None = None
    scores: dict[str, dict[str, Cell]]
    average: float | None = None
    retention: float | None = None


class Rows(Part):
    rows: int
    floor: dict[str, float] = {}


class TableTask(Part):
    metrics: tuple[str, ...]
    splits: dict[str, Rows]


class Results(Entry):
    """What glue and ablate found: a table of models."""

    verb: str
    model: str
    tasks: dict[str, TableTask]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Picture(Part):
    """NAME.png beside analysis.json."""

    name: str
    title: str
    group: str | None = None


class Tile(Part):
    """`error`: the share of its squared norm by which it differs from the original's, whose norm is `raw_norm`."""

    path: str
    error: float | None = None
    raw_norm: float | None = None


class AnalysedGroup(Part):
    name: str
    tiles: tuple[Tile, ...] = ()


class Analysis(Entry):
    figures: tuple[Picture, ...] = ()
    groups: tuple[AnalysedGroup, ...] = ()
    notes: tuple[str, ...] = ()


class Sized(Part):
    """A count of the original and of what was made from it."""

    before: int
    after: int


class Counts(Part):
    parameters: dict[str, Sized]
    flops: Sized


class Prediction(Part):
    """What a form would lose of the weights and, where text was read, of the outputs; a bound where a fit may lose less."""

    size: str
    method: str
    tile: str
    counts: Counts
    weight_error: float
    output_error: float | None = None
    weight_bound: bool = False
    output_bound: bool = False


class Look(Analysis):
    """What explore found in a dense model."""

    model: str
    predictions: tuple[Prediction, ...] = ()


class Fit(Part):
    """Shares of a group's squared norm that were lost: of its weights, and of its outputs where text was read."""

    group: str
    init: str
    weight_error: float
    output_error: float | None = None
    sites: dict[str, tuple[float, float | None]] = {}


class Done(Entry):
    """An entry of history.json, whichever verb made it: what the verb does not say is empty."""

    verb: str
    model: str | None = None
    teacher: str | None = None
    settings: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    seconds: float | None = None
    method: str | None = None
    to: str | None = None
    parameters: dict[str, Sized] = {}
    flops: Sized | None = None
    bytes_before: int | None = None
    fits: tuple[Fit, ...] = ()
    task: str | dict[str, Any] | None = None
    steps: int | None = None
    tokens: float | None = None
    curve: tuple[dict[str, float | None], ...] = ()
    scores: dict[str, dict[str, float]] | None = None
    layers: tuple[int, ...] = ()
    depth: int | None = None


Kind = TypeVar("Kind")


def read(path: Path, kind: type[Kind]) -> Kind | None:
    """None where there is no such file."""
    data = read_json(path)
    return None if data is None else check(data, kind, path)


def check(data: Any, kind: type[Kind], path: Path) -> Kind:
    try:
        return TypeAdapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its top"
        raise CheckpointError(
            f"{path} must be as tenfold writes it, got {first['msg']} at {where}: make it again, or remove it"
        ) from error
