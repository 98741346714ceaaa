"""What will happen to a model, worked out from its shapes alone."""

from dataclasses import replace
from typing import Any

from tenfold.errors import PlanError
from tenfold.methods import parse
from tenfold.planning.build import build_plan
from tenfold.planning.plan import MATRICES, MODEL, PAPER, SCOPES, Group, Plan, Totals, describe_sites, plan_from_dict
from tenfold.planning.sites import Site, find_sites
from tenfold.planning.sizing import Candidate, parse_ratio, size_plans
from tenfold.recipe import Compress


def plan_model(model: Any, settings: Compress) -> list[Candidate]:
    """The plan for a method, or the plans that reach a size with the recommended one first. `model` may be on meta."""
    if (settings.method is None) == (settings.to is None):
        raise PlanError(
            f"a plan needs either a method or a size, got method {settings.method} and size {settings.to}: name one of them"
        )
    sites = find_sites(model.base_model, model.config.model_type, settings.family)
    return [_with_notes(found, settings.unused()) for found in _candidates(model, sites, settings)]


def _candidates(model: Any, sites: list[Site], settings: Compress) -> list[Candidate]:
    if settings.to is not None:
        return size_plans(model, sites, settings)
    assert settings.method is not None
    plan = build_plan(model, sites, parse(settings.method), settings)
    return [Candidate(plan, settings.tile, chosen=True)]


def _with_notes(found: Candidate, notes: tuple[str, ...]) -> Candidate:
    return replace(found, plan=replace(found.plan, notes=found.plan.notes + notes))


__all__ = [
    "MATRICES",
    "MODEL",
    "PAPER",
    "SCOPES",
    "Candidate",
    "Group",
    "Plan",
    "Site",
    "Totals",
    "describe_sites",
    "parse_ratio",
    "plan_from_dict",
    "plan_model",
]
