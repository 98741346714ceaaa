"""A module imports only from its own package or from layers before its own; only the command line prints or exits."""

import ast
from importlib.util import resolve_name
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"
FILES = sorted(SRC.glob("tenfold/**/*.py"))

LAYERS = """
    errors _version
    algebra
    forms
    methods
    archs nn
    recipe folders safetensors_header
    records plots
    checkpoints text
    tasks planning
    modules
    hub
    _register
    calibration
    compression
    pipeline runtime
    exporters evaluation analysis
    measurement finetuning
    distillation
    reporting
    workflow
    experiments
    demo api
    cli
"""
"""One layer a line, the lowest first; modules of one line do not see each other. A new module takes a place here."""

TORCH_ONLY = {"errors", "algebra", "forms", "methods", "nn"}
FRAME = {"__init__", "__main__"}
"""The package's own front: it imports what it likes, and nothing imports it."""

LOUD = {"print", "exit", "quit", "rich.print", "sys.exit", "os._exit", "SystemExit"}

RANK = {name: rank for rank, line in enumerate(LAYERS.split("\n")) for name in line.split()}


def violations(source: str, module: str, package: str) -> list[str]:
    """What `module` (its full name; `package` is what its relative imports start from) does against the rules."""
    here, tree = part(module), ast.parse(source)
    found = [f"line {line}: {why}" for line, name in imports(tree, package) if (why := forbidden(here, name))]
    if here not in ("cli", "__main__"):
        found += [f"line {line}: {name}: raise, or return what cli is to print" for line, name in loud(tree)]
    return found


def forbidden(here: str, imported: str) -> str | None:
    """Why module `here` must not import the dotted name, or None."""
    if imported.split(".")[0] == "transformers" and here in TORCH_ONLY:
        return f"{here} is torch only and imports {imported}"
    if imported.split(".")[0] != "tenfold" or here in FRAME:
        return None
    there = part(imported)
    if there in FRAME:
        return f"{here} imports {imported}, the package itself: name the module"
    if there not in RANK:
        return f"{here} imports {imported}, which has no layer: add {there} to LAYERS"
    if here != there and RANK[there] >= RANK[here]:
        return f"{here} imports {imported}, which is not in a layer before it"
    return None


def part(module: str) -> str:
    """The module or package directly under tenfold that a dotted name lies in."""
    return [*module.split("."), "__init__"][1]


def imports(tree: ast.AST, package: str) -> list[tuple[int, str]]:
    """(line, dotted name) of every import at every depth; `from tenfold import x` counts as tenfold.x."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            names = [f"{base}.{alias.name}" if part(f"{base}.{alias.name}") in RANK else base for alias in node.names]
            found += [(node.lineno, name) for name in (names if base == "tenfold" else [base])]
    return found


def loud(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, name) of every call that prints or ends the process, and of a bare `raise SystemExit`."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    raises = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name)]
    return [(node.lineno, ast.unparse(node)) for node in (*calls, *raises) if ast.unparse(node) in LOUD]


def names(file: Path) -> tuple[str, str]:
    """A file's module and package: forms/base.py is (tenfold.forms.base, tenfold.forms), forms/__init__.py the latter twice."""
    *packages, stem = file.relative_to(SRC).with_suffix("").parts
    package = ".".join(packages)
    return (package if stem == "__init__" else f"{package}.{stem}"), package


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SRC)))
def test_the_layers_hold(file: Path) -> None:
    module, package = names(file)
    assert part(module) in {*RANK, *FRAME}, f"{module} has no layer: add {part(module)} to LAYERS"
    found = violations(file.read_text(encoding="utf-8"), module, package)
    assert not found, f"{file.relative_to(SRC)}\n  " + "\n  ".join(found)


def test_the_page_on_design_has_the_layers() -> None:
    page = (SRC.parent / "docs" / "design.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.split("## Layers")[1].split("\n## ")[0].splitlines() if line.startswith("| `")]
    assert [row.replace("`", "").split() for row in rows] == [line.split() for line in LAYERS.strip().splitlines()]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tenfold.algebra.low_rank", "from tenfold.forms import Form"),
        ("tenfold.algebra.low_rank", "import tenfold.cli"),
        ("tenfold.algebra.low_rank", "def f():\n    from tenfold import nn"),
        ("tenfold.algebra.low_rank", "from ..forms.base import Form"),
        ("tenfold.nn.bank", "from tenfold.archs import families"),
        ("tenfold.nn.bank", "def f():\n    import transformers"),
        ("tenfold.nn.bank", "if TYPE_CHECKING:\n    from transformers.modeling_utils import PreTrainedModel"),
        ("tenfold.hub", "from tenfold import __version__"),
        ("tenfold.hub", "import tenfold"),
        ("tenfold.hub", "from tenfold.nowhere import x"),
        ("tenfold.hub", "print(1)"),
        ("tenfold.hub", "sys.exit(1)"),
        ("tenfold.hub", "raise SystemExit"),
        ("tenfold", "print(1)"),
    ],
)
def test_the_walk_finds_a_violation(module: str, source: str) -> None:
    assert len(violations(source, module, module.rpartition(".")[0])) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tenfold.forms.tucker", "from tenfold.algebra import weighted\nfrom tenfold.forms.base import Form"),
        ("tenfold.forms.tucker", "from .base import apply\nfrom ..algebra.moments import Moments"),
        ("tenfold.hub", "import torch, transformers\nfrom tenfold import nn\nfrom tenfold.planning import Plan"),
        ("tenfold.cli", "import sys\nfrom tenfold.reporting.table import render\nprint(1)\nsys.exit(1)"),
        ("tenfold.__main__", "import sys\nfrom tenfold.cli import main\nsys.exit(main())"),
        ("tenfold", "from tenfold.hub import save"),
    ],
)
def test_the_walk_lets_the_rest_pass(module: str, source: str) -> None:
    assert violations(source, module, module.rpartition(".")[0]) == []
