"""Which class reads a folder, what it keeps, and what is refused before any weight is used."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import PICO, pico, pico_config, save_folder
from safetensors.torch import load_file, save_file

import tenfold
from tenfold.checkpoints import find, load, model_class, refuse_compressed, skeleton
from tenfold.errors import CheckpointError, PlanError

HEADED = [
    ("bert", "masked_lm"),
    ("bert", "sequence_classification"),
    ("deberta_v2", "sequence_classification"),
    ("distilbert", "masked_lm"),
    ("electra", "token_classification"),
    ("gpt2", "causal_lm"),
    ("gpt_neox", "causal_lm"),
    ("llama", "causal_lm"),
    ("modernbert", "masked_lm"),
    ("mpnet", "masked_lm"),
    ("opt", "causal_lm"),
    ("qwen2", "sequence_classification"),
    ("roberta", "question_answering"),
    ("vit", "image_classification"),
]


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def edit_weights(folder: Path, drop: str = "", **changes: torch.Tensor) -> None:
    file = folder / "model.safetensors"
    kept = {name: weight for name, weight in load_file(file).items() if not drop or drop not in name}
    save_file(kept | changes, file, {"format": "pt"})


@pytest.mark.parametrize("name", PICO)
def test_a_base_model_is_read_as_one_in_the_precision_of_its_file(name: str, tmp_path: Path) -> None:
    source = find(str(save_folder(tmp_path, name, dtype=torch.bfloat16)), weights=True)
    model, expected = load(source), pico(name, dtype=torch.bfloat16)
    assert type(model) is type(expected)
    assert not model.training
    assert model.state_dict().keys() == expected.state_dict().keys()
    assert all(torch.equal(weight, expected.state_dict()[key]) for key, weight in model.state_dict().items())
    empty = skeleton(source)
    assert {key: value.shape for key, value in empty.state_dict().items()} == {
        key: value.shape for key, value in expected.state_dict().items()
    }
    assert all(value.is_meta for value in empty.parameters())


@pytest.mark.parametrize(("name", "head"), HEADED)
def test_a_head_that_the_folder_has_is_kept(name: str, head: str, tmp_path: Path) -> None:
    source = find(str(save_folder(tmp_path, name, head)), weights=True)
    expected = pico(name, head)
    assert model_class(source) is type(skeleton(source)) is type(expected)
    model = load(source)
    assert all(torch.equal(weight, expected.state_dict()[key]) for key, weight in model.state_dict().items())


@pytest.mark.parametrize(("name", "head"), HEADED)
def test_a_head_that_the_folder_lacks_is_not_invented(name: str, head: str, tmp_path: Path) -> None:
    """all-mpnet-base-v2 names MPNetForMaskedLM and holds an MPNetModel. A head that is all tied is not lacking."""
    base, headed = pico(name), type(pico(name, head)).__name__
    source_folder = save_folder(tmp_path, name)
    edit_config(source_folder, architectures=[headed])
    source = find(str(source_folder), weights=True)
    tied = name in ("gpt2", "opt") and head == "causal_lm"
    model = load(source)
    assert type(model).__name__ == (headed if tied else type(base).__name__)
    assert type(skeleton(source)) is type(model)
    for key, weight in model.base_model.state_dict().items():
        assert torch.equal(weight, base.state_dict()[key]), key


def test_a_config_alone_is_the_class_that_it_names(tmp_path: Path) -> None:
    pico("bert", "masked_lm").config.save_pretrained(tmp_path)
    edit_config(tmp_path, architectures=["BertForMaskedLM"])
    for model in (tmp_path, tmp_path / "config.json"):
        source = find(str(model), weights=False)
        assert source.header is None
        assert type(skeleton(source)).__name__ == "BertForMaskedLM"
    edit_config(tmp_path, architectures=["OurOwnBert"])
    assert type(skeleton(find(str(tmp_path), weights=False))).__name__ == "BertModel"
    assert tenfold.plan(tmp_path, "II-4").kept("matrices") == tenfold.plan(pico_config("bert"), "II-4").kept("matrices")
    with pytest.raises(CheckpointError, match=r"needs weights, got a bare config"):
        find(str(tmp_path / "config.json"), weights=True)


@pytest.mark.parametrize("name", ["bert", "vit", "mpnet", "roberta"])
def test_an_absent_pooler_stays_absent(name: str, tmp_path: Path) -> None:
    edit_weights(save_folder(tmp_path, name), drop="pooler")
    source = find(str(tmp_path), weights=True)
    for model in (load(source), skeleton(source)):
        assert model.pooler is None
    assert skeleton(source).num_parameters() < pico(name).num_parameters()


def test_a_pooler_that_a_head_needs_is_missed(tmp_path: Path) -> None:
    edit_weights(save_folder(tmp_path, "bert", "sequence_classification"), drop="pooler")
    with pytest.raises(CheckpointError, match=r"got none for bert\.pooler\.dense\.bias and 1 more: name a whole checkpoint"):
        load(find(str(tmp_path), weights=True))


@pytest.mark.parametrize("drop", ["encoder.layer.1.output.dense.weight", "word_embeddings"])
def test_a_weight_that_the_folder_lacks_is_not_invented(drop: str, tmp_path: Path) -> None:
    edit_weights(save_folder(tmp_path, "bert"), drop=drop)
    with pytest.raises(CheckpointError, match=rf"every weight of a BertModel must be in .*, got none for \S*{drop}"):
        load(find(str(tmp_path), weights=True))


@pytest.mark.parametrize("key", ["embeddings.word_embeddings.weight", "encoder.layer.1.attention.self.key.bias"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_tensor_that_is_not_finite_is_named(key: str, value: float, tmp_path: Path) -> None:
    folder = save_folder(tmp_path, "bert")
    weight = load_file(folder / "model.safetensors")[key]
    weight.view(-1)[-1] = value
    edit_weights(folder, **{key: weight})
    with pytest.raises(
        CheckpointError, match=f"every weight must be finite, got NaN or infinity in {key}: use a sound checkpoint"
    ):
        load(find(str(folder), weights=True))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_compressed_folder_is_refused_as_a_start_and_loads_as_what_it_is(name: str, tmp_path: Path) -> None:
    model = pico(name)
    tenfold.compress_(model, tenfold.plan(model, "III-8"))
    model.save_pretrained(tmp_path)
    source = find(str(tmp_path), weights=True)
    assert source.compressed
    with pytest.raises(PlanError, match=r"starts from dense weights, got .* which holds tenfold weights: make it dense with"):
        refuse_compressed(source)
    loaded = load(source)
    assert all(torch.equal(weight, model.state_dict()[key]) for key, weight in loaded.state_dict().items())


def test_weights_that_another_library_packed_are_refused(tmp_path: Path) -> None:
    folder = save_folder(tmp_path, "bert")
    edit_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(PlanError, match=r"which holds gptq weights: make it dense with its own library"):
        refuse_compressed(find(str(folder), weights=True))


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    model = pico("bert", "masked_lm")
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    source = find(str(tmp_path), weights=True)
    assert source.header is not None
    assert len(source.header.files) > 3
    assert type(load(source)) is type(model)
    names = {name for name in source.header.shapes if not name.startswith("cls.predictions.decoder")}
    assert names == {name for name in model.state_dict() if not name.startswith("cls.predictions.decoder")}
