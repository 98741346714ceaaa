"""Any base model, dense or compressed, with the head that a task asks for."""

import sys
from typing import Any

import torch

from tenfold.checkpoints import Source, first_line, load
from tenfold.errors import CheckpointError, TenfoldError
from tenfold.tasks.task import Task


def load_with_head(source: Source, task: Task, pad: int) -> tuple[Any, tuple[str, ...]]:
    """The model in float32 with the task's head (none for an embedding task), and what a user should know of it.

    A head that the folder has is kept where it names the same classes; any other starts fresh, from torch's random state. So
    does a pooler that the head reads and the folder lacks, as sentence models often do. pad: the id that rows are filled with,
    which tells a decoder's head where a row ends.
    """
    from transformers import AutoModelForSequenceClassification

    if task.kind == "embedding":
        return load(source).base_model.float(), ()
    if type(source.config) not in AutoModelForSequenceClassification._model_mapping:
        raise TenfoldError(
            f"{task.name} needs a model that transformers can give a classification head, got {source.config.model_type} in "
            f"{source.name}: name another"
        )
    model, pooled = _load(AutoModelForSequenceClassification, source, _config(source, task))
    if model.config.pad_token_id is None or hasattr(model, "score"):  # the name of decoders' heads
        model.config.pad_token_id = pad
    notes = [] if pooled else [f"{source.name} holds no pooler, which the head reads: it starts at random"]
    if not same_classes(source.config, task):
        _redraw_(model)
        notes.append("the head starts at random")
    return model.float(), tuple(notes)


def _config(source: Source, task: Task) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(source.folder)
    config.num_labels = task.outputs
    names = task.labels or (task.label,)
    config.id2label, config.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    config.problem_type = task.problem
    return config


def _load(cls: Any, source: Source, config: Any) -> tuple[Any, bool]:
    """transformers' own loading, and whether a pooler that the model has was in the folder.

    What may be invented is the head and the pooler, nothing inside the blocks.
    """
    from transformers.utils import logging

    if not sys.stderr.isatty():
        logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # it would report the head as missing
    try:
        model, info = cls.from_pretrained(
            source.folder,
            config=config,
            dtype="auto",
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except TenfoldError:
        raise
    except Exception as error:  # whatever a broken folder makes transformers and safetensors raise
        raise CheckpointError(f"{source.folder} must load with transformers, got: {first_line(error)}") from error
    finally:
        logging.set_verbosity(verbosity)
    prefix = f"{model.base_model_prefix}."
    absent = {*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])} & set(model.state_dict())
    if wrong := sorted(key for key in absent if key.startswith(prefix) and not key.startswith(f"{prefix}pooler.")):
        raise CheckpointError(
            f"every weight below the head must be in {source.folder}, got none for {wrong[0]}: name a whole checkpoint"
        )
    for name, tensor in model.named_parameters():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"every weight must be finite, got NaN or infinity in {name}: use a sound checkpoint")
    return model, not any(key.startswith(f"{prefix}pooler.") for key in absent)


def same_classes(config: Any, task: Task) -> bool:
    """Does the folder's own head answer this task? A number has no name to go by but the label column's."""
    names = getattr(config, "architectures", None) or [""]
    return names[0].endswith("ForSequenceClassification") and list(config.id2label.values()) == [
        *(task.labels or (task.label,))
    ]


@torch.no_grad()
def _redraw_(model: Any) -> None:
    """The head as transformers draws a new one, whatever was loaded into it."""
    for child in model.children():
        if child is model.base_model:
            continue
        for module in child.modules():
            module._is_hf_initialized = False
        for parameter in child.parameters():
            parameter._is_hf_initialized = False
        child.apply(model._init_weights)
