"""From a model folder to a compressed folder, and from a compressed folder to a dense one."""

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tenfold.calibration import Batch, text_batches
from tenfold.checkpoints import Source, find, first_line, load, refuse_compressed
from tenfold.compression import Progress, Report, compress_
from tenfold.errors import CheckpointError, PlanError
from tenfold.folders import complete_folder, refuse_existing
from tenfold.hub import plan_of, to_dense
from tenfold.planning import Plan, plan_model
from tenfold.recipe import Compress, Recipe, dump_recipe
from tenfold.records import AGREEMENT, ANALYSIS, HISTORY, MEASUREMENT, REPORT, SCORES, history, stamp, write_history

WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".ot", ".onnx", ".gguf", ".tflite"}
PICTURES = {f"{Path(AGREEMENT).stem}.{kind}" for kind in ("png", "svg", "csv")}
OURS = {"config.json", "generation_config.json", "README.md", "recipe.yaml"}
OURS |= {HISTORY, SCORES, MEASUREMENT, AGREEMENT, REPORT, *PICTURES}
OTHER_RUNTIMES = {"onnx", "openvino", "coreml", "tflite"}


@dataclass(frozen=True)
class Result:
    """What the verb prints and what its entry in history.json holds."""

    plan: Plan
    report: Report
    out: Path
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            **self.plan.summary(),
            "fits": self.report.to_dict(),
            "bytes": weight_bytes(self.out),
            "seconds": round(self.seconds, 2),
        }


def compress_folder(model: str, out: Path, recipe: Recipe, force: bool, progress: Progress) -> Result:
    """MODEL -> OUT: fitted, saved, with the tokenizer and everything else that lay beside the weights."""
    refuse_existing(out, force)
    start = time.perf_counter()
    settings = recipe.compress
    source = find(model, weights=True)
    refuse_compressed(source)
    progress("loading the model")
    network = load(source)
    plan = plan_model(network, settings)[0].plan
    batches = _batches(source, network, settings) if settings.reads_text else None
    plan = replace(plan, notes=plan.notes + _shortage(batches, settings))
    with complete_folder(out, force) as partial:
        report = compress_(
            network,
            plan,
            init=settings.init,
            batches=batches,
            rounds=settings.rounds,
            recollect=settings.recollect,
            seed=settings.seed,
            progress=progress,
        )
        progress("saving")
        network.save_pretrained(partial)
        copy_beside(source, partial)
        (partial / "recipe.yaml").write_text(dump_recipe(recipe.model_copy(update={"model": model})), encoding="utf-8")
        result = Result(plan, report, partial, time.perf_counter() - start)
        assert source.folder is not None
        facts = {
            **result.to_dict(),
            "out": out.name,
            "model": model,
            "bytes_before": weight_bytes(source.folder),
            "settings": settings.model_dump(mode="json"),
        }
        write_history(partial, history(source.folder), stamp("compress", **facts))
    return Result(plan, report, out, time.perf_counter() - start)


def export_dense(folder: str, out: Path, force: bool, progress: Progress) -> Path:
    """A compressed folder -> an ordinary one with the same outputs."""
    refuse_existing(out, force)
    source = find(folder, weights=True)
    if not source.compressed:
        raise CheckpointError(f"export needs a folder that tenfold compressed, got {folder}, which is dense already")
    progress("loading the model")
    network = load(source)
    plan_of(network)
    progress("multiplying out")
    dense = to_dense(network)
    with complete_folder(out, force) as partial:
        dense.save_pretrained(partial)
        copy_beside(source, partial)
        assert source.folder is not None
        write_history(partial, history(source.folder), stamp("export", to="dense", model=folder, out=out.name))
    return out


def _batches(source: Source, network: Any, settings: Compress) -> list[Batch]:
    assert settings.text is not None
    if network.main_input_name != "input_ids":
        raise PlanError(
            f"--text is for models that read tokens, got {source.name}, which reads {network.main_input_name}: leave it out, "
            "or give tenfold.compress_ batches of what it reads"
        )
    return text_batches(tokenizer_of(source), settings.text, settings.tokens, settings.length, key=settings.key)


def _shortage(batches: list[Batch] | None, settings: Compress) -> tuple[str, ...]:
    seen = sum(batch["input_ids"].numel() for batch in batches or [])
    if batches is None or seen >= settings.tokens // settings.length * settings.length:
        return ()
    return (f"the text fills {seen:,} tokens, fewer than the {settings.tokens:,} asked for",)


def tokenizer_of(source: Source, remedy: str = "add it, or take --init hosvd") -> Any:
    """The folder's own: where it has none, transformers makes up one that knows no word."""
    from transformers import AutoTokenizer

    assert source.folder is not None
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.folder)
        files = sorted(tokenizer.vocab_files_names.values())
        if not any((source.folder / file).is_file() for file in files):
            raise FileNotFoundError(f"no {' or '.join(files)}")
    except Exception as error:  # whatever a missing or broken tokenizer makes transformers raise
        raise CheckpointError(
            f"text needs a tokenizer in {source.folder}, got none that loads ({first_line(error)}): {remedy}"
        ) from error
    return tokenizer


def copy_beside(source: Source, out: Path) -> None:
    """Tokenizer, pooling modules and the like. Weights at the top are the model's own; those in subfolders are not."""
    assert source.folder is not None
    for path in source.folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if path.name not in {*OTHER_RUNTIMES, ANALYSIS} and not _is_model(path):
                shutil.copytree(path, out / path.name)
        elif path.suffix not in WEIGHTS and path.name not in OURS and not path.name.endswith(".index.json"):
            shutil.copy2(path, out / path.name)


def _is_model(folder: Path) -> bool:
    """A whole model of its own: a checkpoint of a training run, or OUT itself where it lies inside MODEL."""
    try:
        return "model_type" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def weight_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
