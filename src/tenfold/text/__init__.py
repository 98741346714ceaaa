"""Plain text in: files, folders, globs and datasets, as passages or as rows of tokens.

`build` and `Corpus` are looked up when they are used: they need torch, and a recipe that holds Settings does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tenfold.text.reading import passages
from tenfold.text.settings import Settings
from tenfold.text.sources import sources

if TYPE_CHECKING:
    from tenfold.text.building import build
    from tenfold.text.corpus import Corpus

__all__ = ["Corpus", "Settings", "build", "passages", "sources"]

_HOMES = {"build": "tenfold.text.building", "Corpus": "tenfold.text.corpus"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
