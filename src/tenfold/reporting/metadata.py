"""The head of a model card in the hub's YAML, and what transformers calls a model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tenfold.forms import Mixed
from tenfold.reporting.collect import DENSE, Run
from tenfold.tasks.glue import glue

HEADS = {
    "ForSequenceClassification": ("AutoModelForSequenceClassification", "text-classification"),
    "ForTokenClassification": ("AutoModelForTokenClassification", "token-classification"),
    "ForQuestionAnswering": ("AutoModelForQuestionAnswering", "question-answering"),
    "ForMaskedLM": ("AutoModelForMaskedLM", "fill-mask"),
    "ForCausalLM": ("AutoModelForCausalLM", "text-generation"),
    "LMHeadModel": ("AutoModelForCausalLM", "text-generation"),
    "ForImageClassification": ("AutoModelForImageClassification", "image-classification"),
}
"""By the end of a class's name: the class that loads it and the hub's name of what it does."""
HUB_METRICS = {
    "matthews": "matthews_correlation",
    "spearman": "spearmanr",
    "pearson": "pearsonr",
    "exact": "exact_match",
    "f1_macro": "f1",
    "f1_micro": "f1",
}


def metadata(run: Run, base_model: str | None = None) -> str:
    """The hub's YAML: base_model, library_name, pipeline_tag, tags, metrics, model-index."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [EvalResult(**result) for result in _results(run)]
    data = ModelCardData(
        base_model=base_model or hub_name(run),
        library_name="sentence-transformers" if run.sentences else "transformers",
        pipeline_tag="sentence-similarity" if run.sentences else head(run)[1],
        tags=["tenfold", *["compressed"] * (run.method != DENSE), *["onnx"] * run.onnx, *_kinds(run)],
        metrics=list(dict.fromkeys(result.metric_type for result in results)) or None,
        model_name=run.name if results else None,
        eval_results=results or None,
    )
    return str(data.to_yaml()) + "\n"


def _kinds(run: Run) -> list[str]:
    """The forms by the names that people search for; a sum by its two parts."""
    forms = [group.form for group in run.plan.groups] if run.plan else []
    single = [part for form in forms for part in ((form.shared, form.private) if isinstance(form, Mixed) else (form,))]
    return list(dict.fromkeys(form.kind.replace("_", "-") for form in single))


def hub_name(run: Run) -> str | None:
    """The original as the hub would know it. Of a folder only its name: a path on this machine says nothing elsewhere."""
    original = run.original
    if original is None:
        return None
    local = original.startswith((".", "/", "~")) or original.count("/") > 1 or Path(original).exists()
    return Path(original).expanduser().resolve().name if local else original


def _results(run: Run) -> Iterator[dict[str, Any]]:
    for task, entry in (run.scores.tasks if run.scores else {}).items():
        for split, found in entry.splits.items():
            for metric in entry.metrics:
                yield {
                    "task_type": "sentence-similarity" if run.sentences else "text-classification",
                    "dataset_type": "nyu-mll/glue" if task in glue() else task,
                    "dataset_name": f"GLUE {task}" if task in glue() else task,
                    "dataset_config": task if task in glue() else None,
                    "dataset_split": "validation" if split == "dev" else split,
                    "metric_type": HUB_METRICS.get(metric, metric),
                    "metric_name": metric,
                    "metric_value": round(found.mean[metric] / 100, 5),
                }


def head(run: Run) -> tuple[str, str]:
    """Of HEADS."""
    name = next(iter(run.config.get("architectures") or [""]))
    return next((found for end, found in HEADS.items() if name.endswith(end)), ("AutoModel", "feature-extraction"))
