"""How a sentence model makes one vector of a text, as its folder says."""

from pathlib import Path

from tenfold.errors import CheckpointError
from tenfold.evaluation.predicting import Pooling
from tenfold.records import read_json

KINDS: dict[str, Pooling] = {"mean": "mean", "cls": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
"""sentence-transformers' two ways to write it: one word, or a switch for each kind."""

HARMLESS = ("Transformer", "Pooling", "Normalize")
"""Modules that leave the cosine as it is."""


def pooling_of(folder: Path) -> Pooling:
    """mean where the folder says nothing. What a cosine of pooled states would leave out is refused."""
    modules = read_json(folder / "modules.json") or []
    if other := [module["type"] for module in modules if str(module["type"]).rpartition(".")[2] not in HARMLESS]:
        raise CheckpointError(
            f"an embedding task compares pooled states, got {folder}, which has a {other[0]} behind them: take a model without"
        )
    places = [folder / module["path"] for module in modules if str(module["type"]).endswith("Pooling")]
    config = read_json(places[0] / "config.json") if places else None
    if config is None:
        return "mean"
    chosen = (
        [config["pooling_mode"]] if "pooling_mode" in config else [k for k, on in config.items() if on is True and "mode" in k]
    )
    if len(chosen) != 1 or chosen[0] not in KINDS:
        raise CheckpointError(f"sentence vectors are pooled by mean or cls, got {chosen} in {places[0]}: take another model")
    return KINDS[chosen[0]]
