"""Where a model's repeated blocks are, by its family's data file."""

from typing import Any

from torch import nn

from tenfold.archs import family_for
from tenfold.errors import PlanError


def block_list(model: Any) -> tuple[str, nn.ModuleList]:
    """The path of the list under the base model, and the list."""
    family = family_for(model.config.model_type)
    for path in family.layers:
        try:
            found = model.base_model.get_submodule(path)
        except AttributeError:
            continue
        if isinstance(found, nn.ModuleList):
            return path, found
    raise PlanError(
        f'the family "{family.name}" expects blocks at {" or ".join(family.layers)}, got none there in {type(model).__name__}: '
        "name a model whose base model holds them"
    )
