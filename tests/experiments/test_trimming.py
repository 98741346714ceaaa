"""A trimmed model has exactly the chosen layers and computes what running those layers computes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command import run
from pico import PICO, inputs, pico, save_folder
from torch import nn

from tenfold.errors import PlanError
from tenfold.experiments.trimming import parse_layers, trim, trim_folder
from tenfold.finetuning.blocks import block_list
from tenfold.records import history

DEPTH = 4


def deep(name: str, **kw: Any) -> Any:
    return pico(name, layers=DEPTH, dtype=torch.float64, **kw)


def first(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found = model(**inputs(model))[0]
    assert isinstance(found, torch.Tensor)
    return found


@pytest.mark.parametrize("name", PICO)
@pytest.mark.parametrize("chosen", [(0, 2), (0, 1, 3), (0,)])
def test_it_computes_what_the_chosen_layers_compute(name: str, chosen: tuple[int, ...]) -> None:
    """The reference runs the whole model with its other blocks taken out, so every block keeps what its number made of it."""
    model = deep(name)
    trimmed = trim(model, chosen)
    before = first(model)
    path, blocks = block_list(model)
    model.base_model.set_submodule(path, nn.ModuleList([blocks[k] for k in chosen]))
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    model.config.num_hidden_layers = len(chosen)
    torch.testing.assert_close(first(trimmed), first(model), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(first(trimmed), before)


@pytest.mark.parametrize("name", PICO)
def test_the_weights_are_those_of_the_chosen_layers(name: str) -> None:
    model = deep(name)
    trimmed = trim(model, (0, 2, 3))
    assert trimmed.config.num_hidden_layers == len(block_list(trimmed)[1]) == 3
    old, new = block_list(model)[1], block_list(trimmed)[1]
    for k, chosen in enumerate((0, 2, 3)):
        ours, theirs = new[k].state_dict(), old[chosen].state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    path = block_list(model)[0]
    outside = {k: v for k, v in model.state_dict().items() if f"{path}." not in k}
    assert len(outside) > 1
    assert all(torch.equal(trimmed.state_dict()[key], value) for key, value in outside.items())


def test_it_shares_nothing_with_the_original() -> None:
    model = deep("bert")
    trimmed = trim(model, (0, 2))
    before = first(model)
    with torch.no_grad():
        for parameter in trimmed.parameters():
            parameter.add_(1)
    assert torch.equal(first(model), before)


def test_lists_for_each_layer_are_cut_too() -> None:
    model = deep("modernbert")
    assert model.config.layer_types[:2] == ["full_attention", "sliding_attention"]
    assert trim(model, (0, 1, 3)).config.layer_types == [model.config.layer_types[k] for k in (0, 1, 3)]


def test_a_first_layer_that_differs_must_stay() -> None:
    with pytest.raises(PlanError, match="keep layer 0"):
        trim(deep("modernbert"), (1, 2))


@pytest.mark.parametrize(
    ("text", "chosen"),
    [("every-2", (0, 2, 4)), ("every-3", (0, 3)), ("every-1", (0, 1, 2, 3, 4)), ("0,3", (0, 3)), ("4", (4,))],
)
def test_layers_as_typed(text: str, chosen: tuple[int, ...]) -> None:
    assert parse_layers(text, 5) == chosen


@pytest.mark.parametrize("text", ["every-0", "half", "", "3,0", "0,0", "5", "-1", "0;1"])
def test_layers_that_cannot_be(text: str) -> None:
    with pytest.raises(PlanError, match="layers must"):
        parse_layers(text, 5)


def test_the_folder_loads_keeps_its_head_and_says_what_was_done(tmp_path: Path) -> None:
    save_folder(tmp_path / "model", "bert", "sequence_classification", layers=DEPTH)
    assert trim_folder(str(tmp_path / "model"), tmp_path / "out", "every-2", force=False) == (0, 2)
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    whole = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    assert torch.equal(loaded.classifier.weight, whole.classifier.weight)
    assert AutoTokenizer.from_pretrained(tmp_path / "out").vocab_size > 80
    (entry,) = history(tmp_path / "out")
    assert (entry["verb"], entry["layers"], entry["depth"]) == ("trim", [0, 2], DEPTH)


def test_a_compressed_folder_is_refused(tmp_path: Path) -> None:
    import tenfold

    model = pico("bert")
    tenfold.compress_(model, tenfold.plan(model, "III-8"))
    model.save_pretrained(tmp_path / "small")
    with pytest.raises(PlanError, match="dense"):
        trim_folder(str(tmp_path / "small"), tmp_path / "out", "0", force=False)
    assert not (tmp_path / "out").exists()


def test_on_the_command_line(tmp_path: Path) -> None:
    save_folder(tmp_path / "model", "bert", layers=DEPTH)
    done = run("trim", tmp_path / "model", tmp_path / "out", "--layers", "0,3", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["layers"] == [0, 3]
    refused = run("trim", tmp_path / "model", tmp_path / "other", "--layers", "9", "--json")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
