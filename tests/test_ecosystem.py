"""A compressed model is an ordinary PyTorch and transformers model: it trains, copies, compiles, converts and generates."""

import copy
import io
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import CORPUS, inputs, pico, sentence_folder, tokenizer
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedModel

import tenfold
from tenfold.modules import dense_weight, factored_layers
from tenfold.nn import FactoredLinear
from tenfold.pipeline import compress_folder
from tenfold.recipe import Recipe, parse_recipe

METHODS = ["II-4", "II-alpha-4", "III-8", "IV-4-8", "ALBERT", "IV-4-8+II-2", "ALBERT+II-2"]
FAMILIES = ["bert", "deberta_v2", "gpt2", "llama_gqa", "modernbert", "vit"]


def compressed(name: str, method: str = "IV-4-8", head: str | None = None, **changes: Any) -> Any:
    model = pico(name, head, **changes)
    tenfold.compress_(model, tenfold.plan(model, method), init="hosvd")
    return model


def output(model: Any, arguments: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        found = model(**arguments)[0]
    assert isinstance(found, Tensor)
    return found


def gradients(model: PreTrainedModel, arguments: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of a random linear function of the hidden states."""
    model.zero_grad()
    found = model(**arguments)[0]
    (found * torch.randn(found.shape, generator=torch.Generator().manual_seed(0), dtype=found.dtype)).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor], near: float = 1e-9) -> None:
    """Beside the largest of all: that of a key's bias is zero but for rounding."""
    assert found.keys() == expected.keys()
    largest = max(value.abs().max() for value in expected.values())
    for name, value in expected.items():
        assert (found[name] - value).abs().max() <= near * largest, name


# Gradients


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FAMILIES)
def test_gradients_are_those_through_dense_matrices_made_of_the_factors(name: str, method: str) -> None:
    model = compressed(name, method, dtype=torch.float64)
    arguments, dense = inputs(model), tenfold.to_dense(model)
    sites = {site.path: site for site in tenfold.plan_of(model).factored}
    weights: dict[str, Tensor] = {k: p for k, p in model.named_parameters() if not k.startswith("factor_banks.")}
    for path, layer in factored_layers(model).items():
        weights[f"{path}.weight"] = dense_weight(sites[path], layer.matrix())
    found = torch.func.functional_call(dense, weights, (), arguments)[0]
    torch.testing.assert_close(found, model(**arguments)[0], rtol=1e-10, atol=1e-10)
    direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(0), dtype=found.dtype)
    named = {name: p for name, p in model.named_parameters() if not name.startswith("pooler.")}
    through = torch.autograd.grad((found * direction).sum(), list(named.values()), allow_unused=True)
    expected = {name: g for name, g in zip(named, through, strict=True) if g is not None}
    assert {name for name in expected if "factor_banks" in name} == {name for name in named if "factor_banks" in name}
    # RMSNorm computes in single precision whatever the model's.
    assert_equal(gradients(model, arguments), expected, near=1e-5 if name == "llama_gqa" else 1e-9)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_checkpointing_gives_the_same_gradients(name: str, method: str, reentrant: bool) -> None:
    if name == "deberta_v2" and reentrant:
        pytest.skip(
            "DeBERTa's blocks share the normalised positions, which PyTorch's reentrant way cannot: dense ones fail too"
        )
    model = compressed(name, method, dtype=torch.float64).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout") and isinstance(module.attention_dropout, float):
            module.attention_dropout = 0.0
    arguments = inputs(model)
    expected = gradients(model, arguments)
    enable_checkpointing_(model, {"use_reentrant": reentrant})
    ran = []
    layer = next(m for m in model.modules() if isinstance(m, FactoredLinear))
    layer.register_forward_pre_hook(lambda *_: ran.append(1))
    found = gradients(model, arguments)
    assert len(ran) > 1, "nothing was run again"
    assert_equal(found, expected)


def enable_checkpointing_(model: Any, settings: dict[str, Any]) -> None:
    """transformers 5.23 warns of the name that 5.17 has."""
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)(settings)


def test_passes_with_and_without_gradients_do_not_touch_each_other() -> None:
    model = compressed("bert", dtype=torch.float64)
    arguments = inputs(model)
    plain, expected = output(model, arguments), gradients(model, arguments)
    assert all(bank._held is None for bank in model.factor_banks.children())
    for _ in range(2):
        assert torch.equal(output(model, arguments), plain)
        assert_equal(gradients(model, arguments), expected, near=0)
    with torch.inference_mode():
        assert torch.equal(model(**arguments)[0], plain)
    two = [model(**arguments)[0] for _ in range(2)]
    model.zero_grad()
    sum(two).sum().backward()
    factor = model.factor_banks.all.C.grad
    model.zero_grad()
    model(**arguments)[0].sum().backward()
    torch.testing.assert_close(factor, 2 * model.factor_banks.all.C.grad)


def test_products_do_not_outlive_a_pass_that_fails() -> None:
    model = compressed("bert")
    with pytest.raises(IndexError):
        model(input_ids=torch.tensor([[10**6]]))
    assert all(bank._held is None for bank in model.factor_banks.children())
    with torch.no_grad():
        model.factor_banks.all.C.mul_(0)
    layer = model.encoder.layer[0].attention.self.query
    assert torch.equal(layer(torch.ones(1, 32)), layer.bias.expand(1, -1))


# Copies and conversions


def pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def torch_saved(model: Any) -> Any:
    stream = io.BytesIO()
    torch.save(model, stream)
    return torch.load(io.BytesIO(stream.getvalue()), weights_only=False)


def reloaded(model: Any) -> Any:
    twin = compressed("bert", seed=1)
    twin.load_state_dict(model.state_dict())
    return twin


@pytest.mark.parametrize("way", [copy.deepcopy, pickled, torch_saved, reloaded])
def test_a_copy_is_equal_and_its_own(way: Callable[[Any], Any]) -> None:
    model = compressed("bert")
    arguments = inputs(model)
    before = output(model, arguments)
    twin = way(model)
    assert torch.equal(output(twin, arguments), before)
    with torch.no_grad():
        for factor in twin.factor_banks.parameters():
            factor.zero_()
    assert torch.equal(output(model, arguments), before)
    assert (output(twin, arguments) - before).norm() > 0.1
    assert tenfold.plan_of(twin) == tenfold.plan_of(model)


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda model: model.to(torch.bfloat16), torch.bfloat16),
        (lambda model: model.half(), torch.float16),
        (lambda model: model.bfloat16(), torch.bfloat16),
        (lambda model: model.double(), torch.float64),
        (lambda model: model.half().float(), torch.float32),
    ],
)
@pytest.mark.parametrize("loaded", [False, True])
def test_precision_changes_as_in_any_module(convert: Any, dtype: torch.dtype, loaded: bool, tmp_path: Path) -> None:
    model = compressed("bert")
    arguments = inputs(model)
    before = output(model, arguments)
    if loaded:
        model.save_pretrained(tmp_path)
        model = AutoModel.from_pretrained(tmp_path)
    convert(model)
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert (output(model, arguments).float() - before).norm() < 0.03 * before.norm()


def test_autocast_computes_in_half() -> None:
    model = compressed("bert")
    arguments = inputs(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = output(model, arguments)
        assert model.encoder.layer[0].attention.self.query(torch.ones(1, 32)).dtype == torch.bfloat16
    assert 0 < (found - output(model, arguments)).norm() < 0.03 * found.norm()


@pytest.mark.parametrize("device_map", ["cpu", {"": "cpu"}, "auto"])
def test_a_device_map_places_all_of_it(device_map: Any, tmp_path: Path) -> None:
    model = compressed("bert", head="sequence_classification")
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path, device_map=device_map)
    torch.testing.assert_close(output(loaded, inputs(model)), output(model, inputs(model)), rtol=1e-6, atol=1e-6)


def test_meta_has_the_shapes_and_takes_no_memory(tmp_path: Path) -> None:
    model = compressed("bert")
    model.save_pretrained(tmp_path)
    empty = AutoModel.from_pretrained(tmp_path, device_map="meta")
    assert {k: v.shape for k, v in empty.state_dict().items()} == {k: v.shape for k, v in model.state_dict().items()}
    assert all(p.is_meta for p in empty.parameters())
    ids = inputs(model)["input_ids"]
    assert output(empty, {"input_ids": ids.to("meta")}).shape == output(model, {"input_ids": ids}).shape
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(model.state_dict())
    filled.embeddings.position_ids.copy_(model.embeddings.position_ids)
    filled.embeddings.token_type_ids.copy_(model.embeddings.token_type_ids)
    assert torch.equal(output(filled, inputs(model)), output(model, inputs(model)))


# Running


# Dynamo looks at the gradient of the products, which are no leaves; it hushes PyTorch's warning unless that is an error.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize(("name", "method"), [("bert", "IV-4-8"), ("llama", "III-8+II-alpha-2"), ("modernbert", "ALBERT")])
def test_compiled_it_is_one_graph_with_the_same_outputs_and_gradients(name: str, method: str) -> None:
    model = compressed(name, method)
    arguments = inputs(model)
    torch._dynamo.reset()
    faster: Any = torch.compile(model, backend="aot_eager", fullgraph=True)
    found = {name.removeprefix("_orig_mod."): gradient for name, gradient in gradients(faster, arguments).items()}
    expected = gradients(model, arguments)
    assert found.keys() - expected.keys() <= {"pooler.dense.weight", "pooler.dense.bias"}, "zeros, where eager has none"
    assert_equal({name: found[name] for name in expected}, expected, near=1e-5)
    torch.testing.assert_close(faster(**arguments)[0], model(**arguments)[0], rtol=1e-5, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "llama", "llama_gqa", "opt", "qwen2"])
def test_generating_with_a_cache_gives_the_most_likely_tokens(name: str) -> None:
    model = compressed(name, "III-8", head="causal_lm")
    ids = inputs(model, batch=1)["input_ids"]
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False, eos_token_id=None)
    assert made.shape == (1, 14)
    for length in range(9, 14):
        best = output(model, {"input_ids": made[:, :length]})[0, -1].argmax()
        assert made[0, length] == best


def test_trainer_trains_saves_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    compressed("bert", head="sequence_classification").save_pretrained(tmp_path / "model")
    words = tokenizer()
    data = [
        {**words(text, padding="max_length", max_length=24, truncation=True), "labels": int("good" in text)}
        for text in CORPUS[:64]
    ]

    def trainer(folder: str, steps: int, save: int = 1000) -> Trainer:
        arguments = TrainingArguments(
            tmp_path / folder, max_steps=steps, save_steps=save, per_device_train_batch_size=16, learning_rate=1e-2,
            report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no", save_strategy="steps",
        )  # fmt: skip
        model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
        return Trainer(model, arguments, train_dataset=data)

    run = trainer("run", steps=8, save=4)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    loss = run.evaluate(data)["eval_loss"]
    run.train()
    assert run.evaluate(data)["eval_loss"] < loss
    trained = run.model.state_dict()
    assert all(not torch.equal(value, before[name]) for name, value in trained.items() if "factor_banks" in name)

    run.save_model(tmp_path / "saved")
    saved = AutoModelForSequenceClassification.from_pretrained(tmp_path / "saved")
    assert all(torch.equal(value, trained[name]) for name, value in saved.state_dict().items())
    assert tenfold.plan_of(saved) == tenfold.plan_of(run.model)

    again = trainer("run", steps=8)
    again.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-4"))
    assert all(torch.equal(value, trained[name]) for name, value in again.model.state_dict().items())


def test_sentence_transformers_loads_and_saves_it(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = sentence_folder(tmp_path / "dense")
    recipe: Recipe = parse_recipe({"compress": {"method": "III-8"}})
    compress_folder(str(folder), tmp_path / "out", recipe, force=False, progress=lambda _: None)
    loaded = sentence_transformers.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    found = loaded.encode(CORPUS[:5], convert_to_tensor=True)

    encoded = tokenizer()(CORPUS[:5], padding=True, return_tensors="pt")
    model = AutoModel.from_pretrained(tmp_path / "out")
    hidden, mask = output(model, dict(encoded)), encoded["attention_mask"][..., None]
    torch.testing.assert_close(found, (hidden * mask).sum(1) / mask.sum(1), rtol=1e-5, atol=1e-5)
    dense = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(CORPUS[:5], convert_to_tensor=True)
    assert (found - dense).norm() > 0.1

    loaded.save(str(tmp_path / "again"), create_model_card=False)
    again = sentence_transformers.SentenceTransformer(str(tmp_path / "again"), device="cpu")
    torch.testing.assert_close(again.encode(CORPUS[:5], convert_to_tensor=True), found, rtol=1e-6, atol=1e-6)


ORDERS = {
    "tenfold first": "import tenfold; from transformers import AutoModel",
    "tenfold last": "from transformers import AutoModel; import transformers.quantizers.auto; import tenfold",
    "the hub module alone": "import tenfold.hub; from transformers import AutoModel",
}
SHOW = "; import sys; print(type(AutoModel.from_pretrained(sys.argv[1]).encoder.layer[0].output.dense).__name__)"


@pytest.mark.parametrize("order", ORDERS)
def test_transformers_knows_the_folder_in_either_order_of_imports(order: str, tmp_path: Path) -> None:
    compressed("bert").save_pretrained(tmp_path)
    command = [sys.executable, "-W", "error", "-c", ORDERS[order] + SHOW, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "FactoredLinear"), done.stderr
