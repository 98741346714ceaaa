"""A folder as an ONNX file: the same answers, each factor once, any batch and length, in plain onnxruntime."""

import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import ran, run
from pico import inputs, pico, save_folder, tokenizer
from transformers import AutoModel, AutoModelForSequenceClassification

import tenfold
from tenfold.errors import CheckpointError, OutputError, TenfoldError
from tenfold.exporters.onnx import Exported, check, export_onnx, write
from tenfold.exporters.quantizing import _gains, quantize_, rounded
from tenfold.exporters.serving import session
from tenfold.exporters.tracing import example

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def compressed(name: str, method: str = "IV-4-8", head: str | None = None, **changes: Any) -> Any:
    model = pico(name, head, **changes)
    tenfold.compress_(model, tenfold.plan(model, method), init="hosvd")
    return model


def weights(file: Path) -> dict[str, Any]:
    from onnx import numpy_helper

    return {i.name: numpy_helper.to_array(i) for i in onnx.load(file).graph.initializer}


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Exported]:
    """A bert that is wide enough for weights to be most of its file, with a head and shared and private factors."""
    place = tmp_path_factory.mktemp("onnx")
    model = compressed(
        "bert", "IV-6-48+II-8", "sequence_classification", hidden_size=128, intermediate_size=512, vocab_size=8000
    )
    model.save_pretrained(place / "model")
    tokenizer(token_types=True).save_pretrained(place / "model")
    return place / "model", place / "out", export_onnx(str(place / "model"), place / "out")


Thin = tuple[Any, Path, tuple[str, ...]]


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> Thin:
    """A model, its file and the names of the outputs."""
    file = tmp_path_factory.mktemp("onnx") / "model.onnx"
    model = compressed("distilbert", "III-8", hidden_size=64, hidden_dim=256, vocab_size=3000, layers=1)
    return model, file, write(model, file)[0]


def test_the_file_is_as_large_as_the_safetensors(wide: tuple[Path, Path, Exported]) -> None:
    folder, out, made = wide
    size = (folder / "model.safetensors").stat().st_size
    assert made.bytes == (out / "onnx" / "model.onnx").stat().st_size
    assert 0.98 * size < made.bytes < 1.02 * size


def test_each_factor_is_there_once(wide: tuple[Path, Path, Exported]) -> None:
    folder, out, _ = wide
    model: Any = AutoModel.from_pretrained(folder)
    found = list(weights(out / "onnx" / "model.onnx").values())
    for name, factor in model.factor_banks.named_parameters():
        same = [w for w in found if w.shape == factor.shape and np.array_equal(w, factor.detach().numpy())]
        assert len(same) == 1, name


def test_it_answers_alike_at_any_batch_and_length(wide: tuple[Path, Path, Exported]) -> None:
    folder, out, made = wide
    assert (made.inputs, made.outputs) == (("input_ids", "attention_mask", "token_type_ids"), ("logits",))
    assert 0 <= made.difference < 1e-4
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    served = session(out / "onnx" / "model.onnx")
    for batch, length in ((1, 1), (1, 9), (5, 2), (2, 64), (7, 33)):
        given = example(model, batch, length, seed=length)
        with torch.no_grad():
            expected = model(**given).logits
        found = served.run(["logits"], {name: value.numpy() for name, value in given.items()})[0]
        torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-4)


def test_the_folder_beside_the_file_needs_no_tenfold(wide: tuple[Path, Path, Exported]) -> None:
    _, out, _ = wide
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert "quantization_config" not in config and config["model_type"] == "bert"
    assert (out / "tokenizer.json").is_file()
    assert not list(out.glob("*.safetensors"))


def test_x_u_is_multiplied_once_for_the_layers_that_read_x(wide: tuple[Path, Path, Exported]) -> None:
    """The left factors of queries, keys and values go side by side into one product: three readers, one MatMul."""
    _, out, _ = wide
    graph = onnx.load(out / "onnx" / "model.onnx").graph
    attended = [node for node in graph.node if node.op_type == "Softmax"]
    assert len(attended) == 2
    products = [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]
    # Per layer 4 left and 6 right products, 2 of attention; the folds of 24 tiles, one mix, pooler and classifier.
    assert len(products) <= 2 * (4 + 6 + 2) + 24 + 1 + 2


@pytest.mark.parametrize(
    ("name", "head", "outputs"),
    [
        ("gpt2", "causal_lm", ("logits",)),
        *(
            pytest.param(name, None, ("last_hidden_state",), marks=pytest.mark.slow)
            for name in ("modernbert", "deberta_v2", "gpt_neox", "llama_gqa", "mpnet", "opt", "qwen2", "roberta")
        ),
        pytest.param("vit", "image_classification", ("logits",), marks=pytest.mark.slow),
    ],
)
def test_other_families(name: str, head: str | None, outputs: tuple[str, ...], tmp_path: Path) -> None:
    model = compressed(name, "III-8", head)
    names, _ = write(model, tmp_path / "model.onnx")
    assert names[: len(outputs)] == outputs
    assert check(model, tmp_path / "model.onnx", names) < 1e-5
    assert all(getattr(layer, "shortcut", None) is None for layer in model.modules())


def test_a_dense_folder_too_and_on_the_command_line(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "dense", "distilbert")
    done = ran("export", folder, tmp_path / "out", "--to", "onnx", "--json").data
    assert done["to"] == "onnx" and done["outputs"] == ["last_hidden_state"]
    model = AutoModel.from_pretrained(folder)
    given = inputs(model)
    found = session(tmp_path / "out" / done["file"]).run(None, {name: value.numpy() for name, value in given.items()})[0]
    with torch.no_grad():
        expected = model(**given)[0]
    mask = given["attention_mask"].bool()
    torch.testing.assert_close(torch.from_numpy(found)[mask], expected[mask], rtol=1e-4, atol=1e-4)


def test_eight_bits_for_the_table_and_for_products_that_gain(thin: Thin, tmp_path: Path, monkeypatch: Any) -> None:
    model, before, names = thin
    asked: list[tuple[int, int]] = []

    def gains(shape: tuple[int, int], _: Path) -> bool:
        asked.append(shape)
        return True

    monkeypatch.setattr("tenfold.exporters.quantizing._gains", gains)
    file = Path(shutil.copy(before, tmp_path))
    assert quantize_(file) == ("a table of 3000 x 64", "3 products with 64 x 8", "1 products with 256 x 8")
    assert sorted(asked) == [(64, 8), (256, 8)], "of x; the folds of factors are not asked about"
    found = weights(file)
    table = next(name for name, value in found.items() if value.shape == (3000, 64))
    assert found[table].dtype == np.int8
    assert file.stat().st_size < before.stat().st_size - 3000 * 64 * 4 * 0.7
    assert 0 < check(model, file, names, near=0.5) < 0.2
    monkeypatch.setattr("tenfold.exporters.quantizing._gains", lambda *_: False)
    again = Path(shutil.copy(before, tmp_path))
    assert quantize_(again) == ("a table of 3000 x 64",)
    assert check(model, again, names, near=0.5) < 0.05


def test_rows_are_rounded_to_their_own_scale() -> None:
    table = (
        np.random.default_rng(0).standard_normal((20, 8)).astype(np.float32) * np.logspace(-6, 3, 20, dtype=np.float32)[:, None]
    )
    table[3] = 0
    numbers, scales = rounded(table)
    assert numbers.dtype == np.int8 and scales.shape == (20, 1)
    assert (np.abs(numbers * scales - table).max(axis=1) <= np.abs(table).max(axis=1) / 254 + 1e-12).all()


def test_whether_a_product_gains_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ratio in (0.9, 1.1):
        monkeypatch.setattr(
            "tenfold.exporters.quantizing.interleaved",
            lambda calls, _, ratio=ratio: {name: call() and (ratio if name == "int8" else 1.0) for name, call in calls.items()},
        )
        assert _gains((32, 16), tmp_path) == (ratio < 1)
    assert not list(tmp_path.iterdir())


def test_a_file_that_answers_otherwise_is_refused(thin: Thin) -> None:
    model, file, names = thin
    other = deepcopy(model)
    with torch.no_grad():
        other.embeddings.word_embeddings.weight.mul_(1.01)
    with pytest.raises(CheckpointError, match=r"must answer as the model does \(to 0.0001\), got a difference of"):
        check(other, file, names)


def test_bad_words_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_folder(tmp_path / "dense")
    assert 'must be onnx or dense, got "onx": did you mean "onnx"?' in run("export", folder, tmp_path / "o", "--to", "onx").err
    assert "--int8 is for --to onnx, got --to dense" in run("export", folder, tmp_path / "o", "--int8").err
    with pytest.raises(OutputError, match="must not exist"):
        export_onnx(str(folder), folder)
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(TenfoldError, match=r"got no onnxscript: pip install 'tenfold\[onnx\]'"):
        export_onnx(str(folder), tmp_path / "o")
    assert not (tmp_path / "o").exists()
