"""tenfold makes pre-trained transformers many times smaller and faster.

    import tenfold
    plan = tenfold.plan(model, "IV-36-128")
    tenfold.compress_(model, plan)
    model.save_pretrained("OUT")                      # AutoModel.from_pretrained("OUT") loads it wherever tenfold is imported

Importing this costs milliseconds: names are looked up when they are used, and transformers learns about tenfold folders as
soon as it is loaded itself, before or after.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tenfold._register import register_when_loaded
from tenfold._version import __version__

if TYPE_CHECKING:
    from tenfold.api import plan
    from tenfold.calibration import Calibration, calibrate
    from tenfold.compression import compress_
    from tenfold.errors import TenfoldError
    from tenfold.hub import plan_of, to_dense
    from tenfold.planning import Plan
    from tenfold.recipe import Compress, Recipe
    from tenfold.runtime import optimize_

__all__ = [
    "Calibration",
    "Compress",
    "Plan",
    "Recipe",
    "TenfoldError",
    "__version__",
    "calibrate",
    "compress_",
    "optimize_",
    "plan",
    "plan_of",
    "to_dense",
]

_HOMES = {
    "Calibration": "calibration",
    "Compress": "recipe",
    "Plan": "planning",
    "Recipe": "recipe",
    "TenfoldError": "errors",
    "calibrate": "calibration",
    "compress_": "compression",
    "optimize_": "runtime",
    "plan": "api",
    "plan_of": "hub",
    "to_dense": "hub",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module tenfold has no attribute {name}")
    return getattr(import_module(f"tenfold.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


register_when_loaded()
