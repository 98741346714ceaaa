"""A model's outputs on encoded rows: logits, numbers, or the cosine of two sentence vectors."""

import inspect
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tenfold.errors import TenfoldError
from tenfold.tasks.encoding import SECOND, Encoded
from tenfold.tasks.task import Kind

Say = Callable[[str], None]
Pooling = Literal["mean", "cls"]


@torch.inference_mode()
def predict(
    model: Any, encoded: Encoded, batch: int = 64, progress: Say | None = None, pooling: Pooling = "mean"
) -> NDArray[np.float32]:
    """(n, task.outputs), in the order of the rows. The model is in eval mode meanwhile.

    Rows of like length go together, which changes the outputs by rounding at most. `pooling` serves embedding tasks only.
    """
    order = np.argsort([-len(item["input_ids"]) for item in encoded.items], kind="stable")
    outputs = np.full((len(encoded), encoded.task.outputs), np.nan, np.float32)
    training = model.training
    model.eval()
    try:
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            inputs = {k: v.to(model.device) for k, v in encoded.collate([encoded[i] for i in chosen]).items() if k != "labels"}
            found = outputs_of(model, inputs, encoded.task.kind, pooling).float().cpu().numpy()
            _refuse_other_head(found, encoded)
            outputs[chosen] = found
            if progress is not None:
                progress(f"{encoded.task.name}: {min(start + batch, len(order)):,} of {len(order):,} rows")
    finally:
        model.train(training)
    return outputs


def outputs_of(model: Any, inputs: dict[str, Tensor], kind: Kind, pooling: Pooling = "mean") -> Tensor:
    """(b, outputs): logits, the number, or for an embedding task the cosine of both texts' pooled last hidden states."""
    if kind != "embedding":
        return model(**_accepted(model, inputs)).logits
    first = {key: value for key, value in inputs.items() if not key.endswith(SECOND)}
    second = {key.removesuffix(SECOND): value for key, value in inputs.items() if key.endswith(SECOND)}
    a, b = (_vector(model.base_model, each, pooling) for each in (first, second))
    return cosine_similarity(a, b)[:, None]


def _vector(base: Any, inputs: dict[str, Tensor], pooling: Pooling) -> Tensor:
    """(b, d): the mean over real tokens, or the first one."""
    hidden = base(**_accepted(base, inputs)).last_hidden_state.float()
    mask = inputs["attention_mask"][:, :, None].to(hidden.dtype)
    return hidden[:, 0] if pooling == "cls" else (hidden * mask).sum(1) / mask.sum(1)


def _accepted(model: Any, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Segments only where the model takes them: a tokenizer may give them to one that does not (DistilBERT)."""
    known = inspect.signature(model.forward).parameters
    return {key: value for key, value in inputs.items() if key != "token_type_ids" or key in known}


def _refuse_other_head(found: NDArray[Any], encoded: Encoded) -> None:
    if found.shape[1:] != (encoded.task.outputs,):
        raise TenfoldError(
            f"the head must give {encoded.task.outputs} numbers for {encoded.task.name}, got {found.shape[-1]}: the model was "
            "made for another task"
        )
