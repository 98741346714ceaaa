"""What was compressed and saved loads to the same bits through transformers; its dense export needs no tenfold."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import HEADS, PICO, inputs, pico
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

import tenfold
from tenfold.errors import CheckpointError, PlanError
from tenfold.modules import factored_layers
from tenfold.nn import FactoredEmbedding

METHODS = ["II-4", "II-alpha-4", "III-8", "III-8x6", "IV-2-8", "ALBERT", "III-8+II-2", "IV-2-8+II-2", "ALBERT+II-2"]
WITH_HEADS = [
    ("bert", "masked_lm"),
    ("bert", "sequence_classification"),
    ("deberta_v2", "token_classification"),
    ("deberta_v2_split", "sequence_classification"),
    ("distilbert", "masked_lm"),
    ("electra", "question_answering"),
    ("gpt2", "causal_lm"),
    ("gpt2", "sequence_classification"),
    ("gpt_neox", "causal_lm"),
    ("llama", "causal_lm"),
    ("llama_gqa", "sequence_classification"),
    ("modernbert", "masked_lm"),
    ("mpnet", "masked_lm"),
    ("opt", "causal_lm"),
    ("qwen2", "causal_lm"),
    ("roberta", "token_classification"),
    ("vit", "image_classification"),
]


def output(model: PreTrainedModel, arguments: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        found = model(**arguments)[0]
    assert isinstance(found, Tensor)
    return found


def compressed(name: str, head: str | None = None, method: str = "IV-2-8", embeddings: int | None = None, **kw: Any) -> Any:
    model = pico(name, head, **kw)
    tenfold.compress_(model, tenfold.plan(model, method, embeddings=embeddings), init="hosvd")
    return model


def assert_same(loaded: PreTrainedModel, model: PreTrainedModel) -> None:
    """The same bits in the weights. Products may differ in the last one: weights in a mapped file are aligned otherwise."""
    weights = model.state_dict()
    assert loaded.state_dict().keys() == weights.keys()
    assert all(torch.equal(weight, weights[name]) for name, weight in loaded.state_dict().items())
    near = 1e-12 if model.dtype == torch.float64 else 1e-6
    torch.testing.assert_close(output(loaded, inputs(model)), output(model, inputs(model)), rtol=near, atol=near)


def assert_saved_once(folder: Path, model: PreTrainedModel, parameters: int) -> None:
    """The file is its header and the parameters of the plan, nothing twice and nothing else."""
    content = (folder / "model.safetensors").read_bytes()
    header = int.from_bytes(content[:8], "little")
    assert len(content) == 8 + header + parameters * model.dtype.itemsize
    names = [name for name in json.loads(content[8 : 8 + header]) if "factor_banks" in name]
    factors = [name for name, _ in model.named_parameters() if "factor_banks" in name]
    assert sorted(names) == sorted(factors)
    assert len(names) == sum(len(g.form.shapes(g.n, g.i, g.o)) for g in tenfold.plan_of(model).groups)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PICO)
def test_what_is_saved_loads_to_the_same_model(name: str, method: str, tmp_path: Path) -> None:
    model = pico(name)
    plan = tenfold.plan(model, method)
    tenfold.compress_(model, plan, init="hosvd")
    model.save_pretrained(tmp_path)
    assert_saved_once(tmp_path, model, plan.kept("model"))
    loaded = AutoModel.from_pretrained(tmp_path)
    assert type(loaded) is type(model)
    assert tenfold.plan_of(loaded).groups == plan.groups
    assert_same(loaded, model)


@pytest.mark.parametrize(("name", "head"), WITH_HEADS)
def test_a_head_is_kept(name: str, head: str, tmp_path: Path) -> None:
    model = pico(name, head)
    plan = tenfold.plan(model, "III-8")
    tenfold.compress_(model, plan, init="hosvd")
    model.save_pretrained(tmp_path)
    assert_saved_once(tmp_path, model, plan.kept("model"))
    loaded, info = HEADS[head].from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert_same(loaded, model)


@pytest.mark.parametrize(("name", "head"), WITH_HEADS)
def test_a_base_model_takes_a_new_head(name: str, head: str, tmp_path: Path) -> None:
    base = compressed(name)
    base.save_pretrained(tmp_path)
    loaded, info = HEADS[head].from_pretrained(tmp_path, output_loading_info=True)
    prefix = f"{loaded.base_model_prefix}."
    assert not any(key.startswith(prefix) for key in info["missing_keys"])
    weights = base.state_dict()
    for key, weight in loaded.base_model.state_dict().items():
        assert torch.equal(weight, weights[key]), key
    assert output(loaded, inputs(loaded)).isfinite().all()


def test_a_model_with_a_head_gives_its_base(tmp_path: Path) -> None:
    for name, head in (("bert", "sequence_classification"), ("gpt2", "causal_lm"), ("llama", "causal_lm")):
        model = compressed(name, head)
        model.save_pretrained(tmp_path / name)
        loaded = AutoModel.from_pretrained(tmp_path / name)
        assert loaded.base_model is loaded
        torch.testing.assert_close(output(loaded, inputs(loaded)), output(model.base_model, inputs(model)))


@pytest.mark.parametrize(("name", "head"), [("gpt2", "causal_lm"), ("llama", "causal_lm"), ("bert", "masked_lm")])
def test_tied_word_vectors_stay_tied(name: str, head: str, tmp_path: Path) -> None:
    model = compressed(name, head, tie_word_embeddings=True)
    for network in (model, _through(model, tmp_path / "compressed"), tenfold.to_dense(model)):
        assert network.get_output_embeddings().weight is network.get_input_embeddings().weight
    assert_saved_once(tmp_path / "compressed", model, sum(p.numel() for p in model.parameters()))


def _through(model: PreTrainedModel, folder: Path) -> Any:
    model.save_pretrained(folder)
    return type(model).from_pretrained(folder)


def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, head in ((*WITH_HEADS[1],), (*WITH_HEADS[6],), ("llama", None)):
        first, second = tmp_path / f"{name}-{head}-first", tmp_path / f"{name}-{head}-second"
        _through(compressed(name, head), first).save_pretrained(second)
        assert sorted(p.name for p in first.iterdir()) == sorted(p.name for p in second.iterdir())
        for file in first.iterdir():
            assert file.read_bytes() == (second / file.name).read_bytes(), file.name


def test_factored_word_vectors_load(tmp_path: Path) -> None:
    model = compressed("bert", embeddings=4)
    table = model.get_input_embeddings()
    assert isinstance(table, FactoredEmbedding)
    assert table.weight.shape == pico("bert").get_input_embeddings().weight.shape
    loaded = _through(model, tmp_path)
    assert_same(loaded, model)
    classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    torch.testing.assert_close(output(classifier.bert, inputs(model)), output(model, inputs(model)))
    dense = tenfold.to_dense(model)
    torch.testing.assert_close(dense.get_input_embeddings().weight, table.weight)
    torch.testing.assert_close(output(dense, inputs(model)), output(model, inputs(model)))


@pytest.mark.parametrize(("group", "family"), [("layers:1", None), ("none", None), ("role", "auto")])
@pytest.mark.parametrize("name", PICO)
def test_groups_of_any_name_load(name: str, group: str, family: str | None, tmp_path: Path) -> None:
    """transformers renames what looks like its own layers as it saves and loads: in a ViT "layers" and any character."""
    model = pico(name)
    plan = tenfold.plan(model, "II-2", group=group, family=family)
    tenfold.compress_(model, plan, init="random")
    model.save_pretrained(tmp_path)
    assert_saved_once(tmp_path, model, plan.kept("model"))
    assert_same(AutoModel.from_pretrained(tmp_path), model)


def test_several_files_and_several_groups(tmp_path: Path) -> None:
    model = pico("llama_gqa")
    tenfold.compress_(model, tenfold.plan(model, "II-4", group="role"))
    assert len(model.factor_banks) == 7
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    assert_same(AutoModel.from_pretrained(tmp_path), model)


def test_precision_is_kept_and_may_be_chosen(tmp_path: Path) -> None:
    model = compressed("bert", dtype=torch.float64)
    model.save_pretrained(tmp_path)
    assert_same(AutoModel.from_pretrained(tmp_path), model)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        loaded = AutoModel.from_pretrained(tmp_path, dtype=dtype)
        assert {p.dtype for p in loaded.parameters()} == {dtype}
        near = 0.1 if dtype == torch.bfloat16 else 0.02
        torch.testing.assert_close(output(loaded, inputs(model)).double(), output(model, inputs(model)), rtol=0, atol=near)


def test_the_config_holds_the_plan_and_no_counts(tmp_path: Path) -> None:
    model = compressed("bert", method="III-8+II-2", embeddings=4)
    model.save_pretrained(tmp_path)
    plan = json.loads((tmp_path / "config.json").read_text())["quantization_config"]
    assert plan.keys() == {"quant_method", "version", "method", "groups"}
    assert (plan["quant_method"], plan["method"]) == ("tenfold", "III-8+II-2")
    assert [group.keys() for group in plan["groups"]] == [{"name", "form", "tile", "sites"}] * 2
    assert AutoConfig.from_pretrained(tmp_path).quantization_config == plan
    assert tenfold.plan_of(AutoModel.from_pretrained(tmp_path)) == tenfold.plan_of(model)


# What must not load silently


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    compressed("bert").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"]["version"] = 2
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"version 1, got 2: use the tenfold that wrote it"):
        AutoModel.from_pretrained(tmp_path)


def test_a_folder_without_one_of_its_factors_is_refused(tmp_path: Path) -> None:
    compressed("bert").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["factor_banks.all.V"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    for cls in (AutoModel, AutoModelForSequenceClassification):
        with pytest.raises(CheckpointError, match=r"every factor must be in the folder, got none for factor_banks\.all\.V"):
            cls.from_pretrained(tmp_path)


def test_a_head_on_factored_word_vectors_is_refused(tmp_path: Path) -> None:
    compressed("bert", embeddings=4).save_pretrained(tmp_path / "bert")
    with pytest.raises(PlanError, match=r"cls\.predictions\.decoder\.weight tied to them: load a class without"):
        AutoModelForMaskedLM.from_pretrained(tmp_path / "bert")
    compressed("llama", embeddings=4).save_pretrained(tmp_path / "llama")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "llama")
    assert output(loaded, inputs(loaded)).isfinite().all()


def test_factors_are_not_offloaded(tmp_path: Path) -> None:
    compressed("bert").save_pretrained(tmp_path / "out")
    places = {"embeddings": "cpu", "encoder": "cpu", "pooler": "cpu", "factor_banks": "disk"}
    with pytest.raises(PlanError, match=r"factors must stay in memory.*give factor_banks a device"):
        AutoModel.from_pretrained(tmp_path / "out", device_map=places, offload_folder=tmp_path / "offload")


def test_a_model_without_a_plan_has_none() -> None:
    with pytest.raises(PlanError, match=r"needs a model that tenfold compressed, got BertModel without a plan"):
        tenfold.plan_of(pico("bert"))
    with pytest.raises(PlanError, match=r"tenfold\.to_dense\(model\)"):
        compressed("bert").dequantize()


# Dense export


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PICO)
def test_the_dense_twin_has_the_same_outputs_and_the_original_s_weights_by_name(name: str, method: str) -> None:
    original = pico(name, dtype=torch.float64)
    model = compressed(name, method=method, dtype=torch.float64)
    dense = tenfold.to_dense(model)
    assert type(dense) is type(original)
    assert not factored_layers(dense)
    assert {k: v.shape for k, v in dense.state_dict().items()} == {k: v.shape for k, v in original.state_dict().items()}
    torch.testing.assert_close(output(dense, inputs(model)), output(model, inputs(model)), rtol=1e-12, atol=1e-12)
    assert (output(dense, inputs(model)) - output(original, inputs(model))).norm() > 1e-3


@pytest.mark.parametrize("name", PICO)
def test_the_dense_twin_has_the_same_outputs_in_single_precision(name: str) -> None:
    model = compressed(name)
    theirs, ours = output(tenfold.to_dense(model), inputs(model)), output(model, inputs(model))
    assert (theirs - ours).norm() < 1e-6 * ours.norm()


@pytest.mark.parametrize(("name", "head"), WITH_HEADS)
def test_the_dense_twin_keeps_the_head(name: str, head: str, tmp_path: Path) -> None:
    model = compressed(name, head, dtype=torch.float64)
    dense = tenfold.to_dense(model)
    torch.testing.assert_close(output(dense, inputs(model)), output(model, inputs(model)), rtol=1e-12, atol=1e-12)
    loaded = _through(dense, tmp_path)
    assert not hasattr(loaded.config, "quantization_config")
    assert_same(loaded, dense)


def test_the_dense_twin_is_a_model_of_its_own() -> None:
    model = compressed("gpt2", "causal_lm").train()
    model.generation_config.max_new_tokens = 7
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    dense = tenfold.to_dense(model)
    assert dense.training
    assert dense.generation_config.max_new_tokens == 7
    with torch.no_grad():
        for parameter in dense.parameters():
            parameter.zero_()
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in dense.parameters())
    plan = tenfold.plan(dense, "III-8")
    tenfold.compress_(dense, plan)
    assert tenfold.plan_of(dense).groups == plan.groups


def test_the_dense_export_loads_where_there_is_no_tenfold(tmp_path: Path) -> None:
    near = {"bert": 2e-6, "gpt2": 1e-12}
    models = {"bert": compressed("bert"), "gpt2": compressed("gpt2", "causal_lm", dtype=torch.float64)}
    for name, model in models.items():
        tenfold.to_dense(model).save_pretrained(tmp_path / name)
        save_file(inputs(model), tmp_path / name / "inputs.st")
    subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_TENFOLD, *(str(tmp_path / name) for name in models)], check=True
    )
    for name, model in models.items():
        there = load_file(tmp_path / name / "outputs.st")["outputs"]
        torch.testing.assert_close(there, output(model, inputs(model)), rtol=near[name], atol=near[name])


WITHOUT_TENFOLD = """
import sys
sys.modules["tenfold"] = None
import transformers
from safetensors.torch import load_file, save_file
for folder in sys.argv[1:]:
    config = transformers.AutoConfig.from_pretrained(folder)
    assert not hasattr(config, "quantization_config")
    model = getattr(transformers, config.architectures[0]).from_pretrained(folder)
    save_file({"outputs": model(**load_file(folder + "/inputs.st"))[0].detach()}, folder + "/outputs.st")
"""


def test_an_absent_pooler_stays_absent(tmp_path: Path) -> None:
    model = pico("bert")
    model.pooler = None
    tenfold.compress_(model, tenfold.plan(model, "III-8"))
    dense = tenfold.to_dense(model)
    assert dense.pooler is None
    for network in (model, dense):
        network.save_pretrained(tmp_path)
        assert not any("pooler" in name for name in load_file(tmp_path / "model.safetensors"))
    torch.testing.assert_close(output(dense, inputs(model)), output(model, inputs(model)))
