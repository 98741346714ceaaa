"""Where models come from: a local folder, a hub name or a bare config, and which class reads it."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenfold.errors import CheckpointError, PlanError, TenfoldError
from tenfold.safetensors_header import Header, read_header

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.md", "*/config.json", "*/*.safetensors", "*.py"]


@dataclass(frozen=True)
class Source:
    """A model before any of its weights are read. folder and header are absent for a bare config."""

    name: str
    config: "PretrainedConfig"
    folder: Path | None = None
    header: Header | None = None

    @property
    def compressed(self) -> bool:
        return getattr(self.config, "quantization_config", None) is not None


def find(model: str, weights: bool) -> Source:
    """MODEL as typed. With `weights`, a hub name is downloaded and a folder must hold whole safetensors files."""
    path = Path(model)
    if path.is_file():
        if weights:
            raise CheckpointError(f"this needs weights, got a bare config {model}: name a model folder or a hub name")
        return Source(model, _config(path.parent if path.name == "config.json" else path))
    if path.is_dir():
        header = read_header(path) if weights or _has_weights(path) else None
        return Source(model, _config(path), path, header)
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise CheckpointError(
            f"MODEL must be a folder, a config.json or a hub name, got {model}, which is not there: check the path"
        )
    if weights:
        folder = _download(model)
        return Source(model, _config(folder), folder, read_header(folder))
    return Source(model, _config(model))


def _has_weights(folder: Path) -> bool:
    return any(folder.glob("*.safetensors*"))


def _config(where: Path | str) -> "PretrainedConfig":
    from transformers import AutoConfig

    if isinstance(where, Path) and where.is_dir() and not (where / "config.json").is_file():
        raise CheckpointError(f"a model folder must hold a config.json, got none in {where}: name the folder of a model")
    try:
        return AutoConfig.from_pretrained(where)
    except Exception as error:  # whatever a broken config.json makes transformers raise
        raise CheckpointError(
            f"MODEL must be a folder, a config.json or a hub name that can be reached, got {where}: {first_line(error)}"
        ) from error


def _download(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=HUB_FILES))
    except Exception as error:
        raise CheckpointError(
            f"MODEL must be a folder or a hub name that can be reached, got {name}: {first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    """What a library complains about, for the middle of our one line: a heading that ends in a colon with what it heads."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def refuse_compressed(source: Source) -> None:
    config = getattr(source.config, "quantization_config", None)
    if config is None:
        return
    kind = config.get("quant_method") if isinstance(config, dict) else getattr(config, "quant_method", "?")
    what = "tenfold export --to dense" if kind == "tenfold" else "its own library"
    raise PlanError(
        f"compression starts from dense weights, got {source.name}, which holds {kind} weights: make it dense with {what} first"
    )


def model_class(source: Source) -> Any:
    """The class that config.json names, or the base class where the weights of its head are not in the folder.

    all-mpnet-base-v2 names MPNetForMaskedLM but carries no such head: loading that class would invent one.
    """
    import transformers

    names = getattr(source.config, "architectures", None) or []
    named = getattr(transformers, names[0], None) if names else None
    if type(source.config) not in transformers.AutoModel._model_mapping:
        raise CheckpointError(
            f'MODEL must be one that AutoModel can build, got "{source.config.model_type}" in {source.name}: name another model'
        )
    base = transformers.AutoModel._model_mapping[type(source.config)]
    if named is None or (source.header is not None and _lacks_head(named, source)):
        return base[0] if isinstance(base, tuple) else base
    return named


def _lacks_head(cls: Any, source: Source) -> bool:
    model = build(cls, source.config)
    if model.base_model is model:
        return False
    assert source.header is not None
    held, tied = _held(model, source.header), set(getattr(model, "all_tied_weights_keys", {}))
    for name, child in model.named_children():
        own = {f"{name}.{key}" for key, _ in child.named_parameters()} - tied
        if child is not model.base_model and own and not own & held:
            return True
    return False


def _held(model: Any, header: Header) -> set[str]:
    """The model's weights that the folder has. A file may spell names in older ways: GPT-NeoX's head is embed_out there."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    changes, own = get_model_conversion_mapping(model), model.state_dict()
    renamings = [change for change in changes if isinstance(change, WeightRenaming)]
    converters = [change for change in changes if isinstance(change, WeightConverter)]
    held = set()
    for name in sorted(header.shapes):
        for ways in ((renamings, converters), ([], [])):
            held.add(rename_source_key(name, *ways, model.base_model_prefix, own)[0])
    return held & own.keys()


def build(cls: Any, config: "PretrainedConfig") -> "PreTrainedModel":
    """The model on the meta device: modules and shapes, no memory."""
    import torch

    try:
        with torch.device("meta"):
            return cls._from_config(config)
    except Exception as error:  # whatever a broken config.json makes transformers raise
        raise CheckpointError(
            f"config.json must describe a model that can be built, got one that fails with: {first_line(error)}"
        ) from error


def skeleton(source: Source) -> "PreTrainedModel":
    """The model as the folder has it, on the meta device."""
    model = build(model_class(source), source.config)
    if source.header is not None:
        _drop_absent_pooler(model, source.header)
    return model


def load(source: Source) -> "PreTrainedModel":
    """The model with its weights, in the precision that they are stored in, in eval mode. Every weight is checked."""
    import torch
    from transformers.utils import logging

    assert source.folder is not None and source.header is not None
    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    cls = model_class(source)
    try:
        model, info = cls.from_pretrained(
            source.folder, dtype="auto", use_safetensors=True, output_loading_info=True, ignore_mismatched_sizes=True
        )
    except TenfoldError:
        raise
    except Exception as error:  # whatever a broken folder makes transformers and safetensors raise
        raise CheckpointError(f"{source.folder} must load with transformers, got: {first_line(error)}") from error
    _drop_absent_pooler(model, source.header)
    if wrong := sorted(info["mismatched_keys"]):
        name, theirs, ours = wrong[0]
        raise CheckpointError(
            f"every weight must have the shape that config.json says, got {tuple(theirs)} instead of {tuple(ours)} for {name}"
            f"{_and_more(wrong)}: take the config.json of these weights"
        )
    if missing := sorted(set(info["missing_keys"]) & set(model.state_dict())):
        raise CheckpointError(
            f"every weight of a {cls.__name__} must be in {source.folder}, got none for {missing[0]}{_and_more(missing)}: "
            "name a whole checkpoint"
        )
    for name, tensor in model.named_parameters():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"every weight must be finite, got NaN or infinity in {name}: use a sound checkpoint")
    return model.eval()


def _and_more(names: list[Any]) -> str:
    return f" and {len(names) - 1} more" if names[1:] else ""


def _drop_absent_pooler(model: Any, header: Header) -> None:
    """A pooler that the folder does not have stays away, instead of being invented and saved as if it were learnt."""
    if model.base_model is not model or getattr(model, "pooler", None) is None:
        return
    if not any(name.startswith("pooler.") for name in _held(model, header)):
        model.pooler = None
