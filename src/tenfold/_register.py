"""Registering with transformers without importing it: 2 seconds that `tenfold --help` should not take."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

WATCHED = "transformers.quantizers.auto"  # what every `from_pretrained` imports, and where the registry lives


def register_when_loaded() -> None:
    if WATCHED in sys.modules:
        _register()
    elif not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


def _register() -> None:
    """tenfold.hub registers as its last line; where it is itself what imports transformers, it is about to."""
    if "tenfold.hub" not in sys.modules:
        import_module("tenfold.hub")


class _Watcher(MetaPathFinder):
    """Steps in once, when the watched module is looked for, and lets its own loader do the work."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG002
        if fullname != WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader)
        return spec


class _ThenRegister(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _register()
