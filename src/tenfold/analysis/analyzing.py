"""analyze: what the factors of a compressed model learnt."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenfold.analysis import analyze_figures
from tenfold.analysis.blocks import labels
from tenfold.analysis.learnt import learnt
from tenfold.analysis.record import analysis_folder, analyzed, write
from tenfold.checkpoints import Source, find, load, refuse_compressed
from tenfold.compression import Originals, Tiles
from tenfold.errors import CheckpointError
from tenfold.hub import plan_of
from tenfold.modules import site_matrix
from tenfold.nn import FactorBank
from tenfold.nn.bank import BANKS
from tenfold.planning import Plan
from tenfold.records import history

Say = Callable[[str], None]
DEFAULT = "analysis"
"""The folder inside the model's own where reports look."""


def analyze_folder(
    folder: str, out: Path | None, original: str | None, start: str | None, force: bool, progress: Say
) -> tuple[Path, dict[str, Any]]:
    """COMPRESSED -> OUT (its own folder `analysis` by default): analysis.json and the figures. Returns OUT and the record."""
    began = time.perf_counter()
    source = find(folder, weights=True)
    _refuse_dense(source)
    assert source.folder is not None
    out = out or source.folder / DEFAULT
    with analysis_folder(out, force) as partial:
        progress("loading the model")
        network = load(source)
        plan = plan_of(network)
        raw = None if original is None else _originals(original, plan)
        before = None if start is None else _banks(_start(start, plan))
        found = []
        for index, group in enumerate(plan.matrix_groups):
            progress(f"group {index + 1} of {len(plan.matrix_groups)}: {group.name}")
            tiles = None if raw is None else Tiles(group, raw)
            found.append(
                learnt(group, labels(group), _banks(network)[group.name], tiles, None if before is None else before[group.name])
            )
        progress("drawing")
        figures = analyze_figures.draw(found, partial)
        facts = {"method": plan.method, "original": original, "start": _origin(source, start)}
        record = analyzed(folder, facts, found, figures, _notes(plan, original, start), time.perf_counter() - began)
        return out, write(partial, record)


def _refuse_dense(source: Source) -> None:
    if not source.compressed:
        raise CheckpointError(
            f"analyze needs a folder that tenfold compressed, got {source.name}, which is dense: compress it, or look "
            "at it with tenfold explore"
        )


def _banks(network: Any) -> dict[str, FactorBank]:
    return dict(getattr(network.base_model, BANKS).items())


def _originals(model: str, plan: Plan) -> Originals:
    source = find(model, weights=True)
    refuse_compressed(source)
    base = load(source).base_model
    modules = dict(base.named_modules())
    for group in plan.matrix_groups:
        for site in group.sites:
            shape = tuple(site_matrix(base, site).shape) if site.path in modules else None
            if shape != (site.i, site.o):
                raise CheckpointError(
                    f"--original must be the model that was compressed, got {model} with {shape or 'nothing'} at {site.path} "
                    f"instead of {(site.i, site.o)}: name the right one"
                )
    weights: dict[str, Any] = {s.path: modules[s.path].weight.detach() for g in plan.matrix_groups for s in g.sites}
    return Originals(weights, {})


def _start(folder: str, plan: Plan) -> Any:
    source = find(folder, weights=True)
    _refuse_dense(source)
    network = load(source)
    if plan_of(network).to_dict() != plan.to_dict():
        raise CheckpointError(
            f"--start must have the plan of the model, got {folder} with {plan_of(network).method} instead of {plan.method} or "
            "other sites: name the folder that training began with"
        )
    return network


def _origin(source: Source, start: str | None) -> dict[str, Any]:
    """How the factors began, as the folder's history tells it."""
    assert source.folder is not None
    entries = history(source.folder)
    fits = [fit for entry in entries for fit in entry.get("fits", [])]
    return {"folder": start, "init": fits[0]["init"] if fits else None, "verbs": [entry["verb"] for entry in entries]}


def _notes(plan: Plan, original: str | None, start: str | None) -> list[str]:
    notes = []
    if len(plan.groups) > len(plan.matrix_groups):
        notes.append("the factored word table is left out: it is one tile")
    if original is None:
        notes.append("raw norms, ranks and errors need the original: --original MODEL")
    if start is None:
        notes.append("how far factors moved needs the folder that training began with: --start FOLDER")
    return notes
