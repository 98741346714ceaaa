"""Ordinary loading and saving: the plan sits in config.json under `quantization_config`, the factors in safetensors.

transformers hands a folder whose config names `quant_method: tenfold` to `TenfoldQuantizer`, which swaps the modules on the
empty skeleton before the weights are read. Everything else (heads, precision, devices, Trainer) is transformers' own.
"""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING, register_quantization_config, register_quantizer
from transformers.quantizers.base import HfQuantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from tenfold.errors import CheckpointError, PlanError
from tenfold.modules import dense_weight, factored_layers, install_
from tenfold.nn.bank import BANKS
from tenfold.planning.plan import Plan, plan_from_dict
from tenfold.safetensors_header import read_shapes

if TYPE_CHECKING:  # transformers imports this module while it is itself half imported
    from transformers import PreTrainedModel

METHOD = "tenfold"


class TenfoldConfig(QuantizationConfigMixin):  # type: ignore[misc]
    """The plan as transformers carries it."""

    def __init__(self, **plan: Any) -> None:
        plan.pop("quant_method", None)
        self.quant_method = METHOD
        self.data = plan

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], return_unused_kwargs: bool = False, **kwargs: Any) -> Any:
        config = cls(**config_dict)
        return (config, kwargs) if return_unused_kwargs else config

    def to_dict(self) -> dict[str, Any]:
        return {"quant_method": METHOD, **self.data}

    def to_diff_dict(self) -> dict[str, Any]:
        return self.to_dict()

    def __repr__(self) -> str:
        return f"TenfoldConfig(method={self.data.get('method')!r}, {len(self.data.get('groups', []))} groups)"

    @property
    def plan(self) -> Plan:
        return plan_from_dict(self.data)


class TenfoldQuantizer(HfQuantizer):  # type: ignore[misc]
    """transformers' hook for folders with modules of their own. The weights are as exact as they were saved."""

    requires_calibration = True

    def _process_model_before_weight_loading(
        self,
        model: "PreTrainedModel",
        checkpoint_files: Sequence[str] | None = None,
        **kwargs: Any,  # noqa: ARG002 - transformers passes more
    ) -> "PreTrainedModel":
        plan = self.quantization_config.plan
        _refuse_tied_head(model, plan)
        _refuse_missing_factors(install_(model.base_model, plan), checkpoint_files or ())
        return model

    def _process_model_after_weight_loading(self, model: "PreTrainedModel", **kwargs: Any) -> "PreTrainedModel":  # noqa: ARG002
        factors = getattr(model.base_model, BANKS).parameters()
        if any(factor.is_meta for factor in factors) and not all(p.is_meta for p in model.parameters()):
            raise PlanError(
                "factors must stay in memory because every layer reads them, got a device_map that offloads them: "
                f"give {BANKS} a device"
            )
        model.is_quantized = False  # in transformers' sense, which refuses half() and float() for packed integers
        return model

    def _dequantize(self, model: "PreTrainedModel", dtype: Any = None) -> "PreTrainedModel":  # noqa: ARG002 - transformers passes it
        raise PlanError("a compressed model becomes dense through tenfold.to_dense(model), which returns a new one")

    def is_serializable(self, *args: Any, **kwargs: Any) -> bool:  # noqa: ARG002 - older versions pass safe_serialization
        return True

    @property
    def is_trainable(self) -> bool:
        return True

    @property
    def is_qat_trainable(self) -> bool:
        """All parameters are ordinary floating point ones: Trainer may train them."""
        return True

    @property
    def is_compileable(self) -> bool:
        return True


def _refuse_tied_head(model: "PreTrainedModel", plan: Plan) -> None:
    for site in plan.factored:
        tied = [head for head, table in model.all_tied_weights_keys.items() if table.endswith(f"{site.path}.weight")]
        if tied:
            raise PlanError(
                f"a head cannot share word vectors that are factored, got {type(model).__name__} with {tied[0]} tied to them: "
                "load a class without a language-model head, or compress without --embeddings"
            )


def _refuse_missing_factors(banks: nn.ModuleDict, files: Sequence[str]) -> None:
    """transformers would draw what a file lacks at random, as it does for a new head."""
    held = {name for file in files if str(file).endswith(".safetensors") for name in read_shapes(Path(file))}
    for name, _ in banks.named_parameters():
        if held and not any(key.endswith(f"{BANKS}.{name}") for key in held):
            raise CheckpointError(f"every factor must be in the folder, got none for {BANKS}.{name}: copy the folder again")


def register() -> None:
    """Make transformers know tenfold folders. Harmless when repeated."""
    if METHOD not in AUTO_QUANTIZER_MAPPING:
        register_quantization_config(METHOD)(TenfoldConfig)
        register_quantizer(METHOD)(TenfoldQuantizer)


def attach_(model: "PreTrainedModel", plan: Plan) -> None:
    """Let a model that was just compressed save itself as a tenfold folder."""
    register()
    config = TenfoldConfig(**plan.to_dict())
    model.config.quantization_config = config
    model.hf_quantizer = TenfoldQuantizer(config)
    model.quantization_method = METHOD


def plan_of(model: "PreTrainedModel") -> Plan:
    """The plan that a compressed model carries."""
    config = getattr(model.config, "quantization_config", None)
    if not isinstance(config, TenfoldConfig):
        raise PlanError(
            f"this needs a model that tenfold compressed, got {type(model).__name__} without a plan: compress it first"
        )
    return config.plan


@torch.no_grad()
def to_dense(model: "PreTrainedModel") -> "PreTrainedModel":
    """A new ordinary model with the same outputs: every factored layer multiplied out. Needs no tenfold afterwards."""
    plan = plan_of(model)
    config = type(model.config).from_dict({k: v for k, v in model.config.to_dict().items() if k != "quantization_config"})
    config._attn_implementation = model.config._attn_implementation
    with torch.device("meta"):
        dense = type(model)._from_config(config, dtype=model.dtype)
    prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
    state = {k: v for k, v in model.state_dict().items() if not k.startswith(f"{prefix}{BANKS}.")}
    layers = factored_layers(model.base_model)
    for site in plan.factored:
        weight = dense_weight(site, layers[site.path].matrix())
        state[f"{prefix}{site.path}.weight"] = weight.contiguous()
    _fill_(dense, model, state)
    if model.can_generate():
        dense.generation_config = deepcopy(model.generation_config)
    return dense.train(model.training)


def _fill_(dense: "PreTrainedModel", model: "PreTrainedModel", state: dict[str, torch.Tensor]) -> None:
    """Give the empty twin its tensors: parameters, buffers that a state dict leaves out, no pooler where there was none."""
    if getattr(model.base_model, "pooler", False) is None:
        dense.base_model.pooler = None
    dense.load_state_dict({k: v.clone() for k, v in state.items()}, strict=True, assign=True)
    for name, buffer in model.named_buffers():
        owner, _, leaf = name.rpartition(".")
        target = dense.get_submodule(owner)
        if leaf in target._buffers:
            target._buffers[leaf] = buffer.clone()
    dense.tie_weights()


register()
