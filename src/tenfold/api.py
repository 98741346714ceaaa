"""The verbs for Python code that is not the command line."""

from pathlib import Path
from typing import Any

from tenfold.checkpoints import find, skeleton
from tenfold.planning import Plan, plan_model
from tenfold.recipe import Recipe, parse_recipe


def plan(model: Any, method: str | None = None, **settings: Any) -> Plan:
    """What a method (or `to="1/10"`) would do to a model: a PreTrainedModel, a config, a folder or a hub name.

    settings are those of the recipe's `compress` section: of, sites, group, tile, family, embeddings.
    """
    recipe: Recipe = parse_recipe({"compress": {"method": method, **settings}})
    return plan_model(_modules(model), recipe.compress)[0].plan


def _modules(model: Any) -> Any:
    from transformers import PretrainedConfig

    from tenfold.checkpoints import Source

    if isinstance(model, str | Path):
        return skeleton(find(str(model), weights=False))
    if isinstance(model, PretrainedConfig):
        return skeleton(Source(type(model).__name__, model))
    return model
