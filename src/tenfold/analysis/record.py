"""OUT/analysis.json: what explore and analyze found. Both begin with the stamp of the verb (`records.stamp`) and

    version         1
    verb            "explore" or "analyze"
    model           the folder as it was named
    seconds         of work
    figures         [{"name", "title", "group"}]: NAME.png, NAME.svg and NAME.csv lie beside; the csv holds what is drawn
    notes           [text]

Tiles count layer by layer from layer 0; a tile is {"name": "0 ffn.in 2", "path", "role", "layer", "part": 0 or from 1, ...}.
"half" is the share captured by half of the dimensions, "half_random" that of a matrix of random numbers (of weights only);
errors are shares of a squared norm.

explore
    settings        what was asked for
    groups          [{"name", "tile": [i, o], "weights": LOOK, "outputs": LOOK or null, "modes", "orthogonality", "similarity"}]
      LOOK          {"kept": [dimensions], "mean": [captured], "half", "half_least", "half_most", "half_random",
                     "roles": {role: {"half", ..., "curve"}}, "layers": {layer: {"half", ...}},
                     "tiles": [{..., "half", "ninety": dimensions for 90%, "stable_rank", "entropy_rank",
                                "numerical_rank", "energy"}],
                     "pairs": {"along columns" | "along rows": {"pairs", "kept", "mean", "half", ..., "relations"}}}
      modes         {"slices" | "input side" | "output side": {"size", "kept", "mean", "half", ...}}
      orthogonality {"mean": of the slices' |cosine|, "largest", "random": as large for random ones,
                     "nearest": [{"a", "b", "cosine"}]}
      similarity    {"slices" | "inputs" | "outputs": {kind of pair: mean cosine}}; the matrices are in the csv files
    predictions     [{"size", "method", "tile", "kept": of the matrices, "flops": kept too,
                     "counts": "parameters" and "flops" as compress writes them in history.json, "weight_error",
                     "output_error" or null, "weight_bound", "output_bound": whether a fit may lose less, "recommended"}]
    suggestion      {"size", "method", "tile", "options", "error", "of", "why"} or null where no size can be had

analyze
    method          of the compressed model
    original        the model that raw numbers come from, or null
    start           {"folder": that movement is measured from, or null, "init": how factors began, or null,
                     "verbs": in the history}
    groups          [{"name", "kind", "form", "tile", "vectors": "P" | "cores" | "matrices",
                     "distances": {kind of pair: mean of 1 - cosine}, "roles": {role: mean over other layers' same block},
                     "parts": {"same part", "other part"} or null,
                     "tiles": [{..., "norm", "entropy_rank", "stable_rank", "raw_norm", "raw_entropy_rank", "raw_stable_rank",
                                "error", "cosine": with the raw matrix, "private": share of energy, "moved": of the matrix}],
                     "factors": {name: {"shape", "norm", "entropy_rank", "stable_rank", "moved", "cosine": with the start}},
                     "bank": {"roles": {role: [share]}, "layers": {layer: [share]}, "order": [k], "used": effective number,
                              "used_by_tile": [effective number]} or null}]
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenfold.errors import OutputError
from tenfold.folders import complete_folder, refuse_existing
from tenfold.forms import to_dict
from tenfold.records import Record, stamp, write_json

if TYPE_CHECKING:
    from tenfold.analysis.exploring import Exploration, Look, Settings
    from tenfold.analysis.learnt import Learnt

VERSION = 1
ANALYSIS = "analysis.json"


@dataclass(frozen=True)
class Figure:
    """NAME.png, NAME.svg, NAME.csv."""

    name: str
    title: str
    group: str | None


@contextmanager
def analysis_folder(out: Path, force: bool) -> Iterator[Path]:
    """A folder that is complete or absent. `force` replaces one that holds an analysis, and nothing else."""
    if out.exists() and force and not (out / ANALYSIS).is_file():
        raise OutputError(f"--force replaces an analysis, got {out}, which holds no {ANALYSIS}: choose another name")
    if not force:
        refuse_existing(out, force=False)
    with complete_folder(out, force=True) as partial:
        yield partial


def write(folder: Path, record: Record) -> Record:
    write_json(folder / ANALYSIS, record)
    return record


def head(verb: str, model: str, seconds: float, figures: Sequence[Figure], notes: Sequence[str]) -> Record:
    return {
        "version": VERSION,
        **stamp(verb),
        "model": model,
        "seconds": round(seconds, 2),
        "figures": [vars(figure) for figure in figures],
        "notes": list(notes),
    }


def explored(
    model: str, network: Any, settings: "Settings", found: "Exploration", figures: Sequence[Figure], seconds: float
) -> Record:
    asked = settings.compress.model_dump(
        mode="json", include={"tile", "group", "sites", "family", "text", "tokens", "length", "seed"}
    )
    return {
        **head("explore", model, seconds, figures, found.notes),
        "model_type": network.config.model_type,
        "settings": {**asked, "sizes": list(settings.sizes), "pairs": settings.pairs, "fit": settings.fit},
        "groups": [_group(look) for look in found.looks],
        "predictions": [prediction.to_dict() for prediction in found.predictions],
        "suggestion": found.suggestion,
    }


def _group(look: "Look") -> Record:
    return {
        "name": look.group.name,
        "tile": [look.group.i, look.group.o],
        "weights": {**look.weights.summary(), "pairs": _summaries(look.weight_pairs)},
        "outputs": None if look.outputs is None else {**look.outputs.summary(), "pairs": _summaries(look.output_pairs)},
        **look.structure.summary(),
    }


def _summaries(pairs: Mapping[str, Any]) -> Record:
    return {way: found.summary() for way, found in pairs.items()}


def analyzed(
    folder: str, facts: Record, found: "Sequence[Learnt]", figures: Sequence[Figure], notes: Sequence[str], seconds: float
) -> Record:
    return {**head("analyze", folder, seconds, figures, notes), **facts, "groups": [_learnt(each) for each in found]}


def _learnt(each: "Learnt") -> Record:
    group = each.group
    return {
        "name": group.name,
        "kind": group.form.kind,
        "form": to_dict(group.form),
        "tile": [group.i, group.o],
        "vectors": each.vectors,
        "distances": each.by_relation(),
        "roles": each.by_role(),
        "parts": each.by_part(),
        "tiles": each.tiles,
        "factors": each.factors,
        "bank": each.bank(),
    }
