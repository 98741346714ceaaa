"""report and compare over folders that verbs really made: every kind of them."""

from pathlib import Path
from typing import Any

import pytest
from command import ran, run
from pico import CORPUS, save_folder

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, what explore saw in it, small, and small as export writes it."""
    root = tmp_path_factory.mktemp("made")
    save_folder(root / "model")
    (root / "text.txt").write_text("\n".join(CORPUS), encoding="utf-8")
    text = ("--text", root / "text.txt", "--tokens", "512", "--length", "32")
    ran("explore", root / "model", root / "looked", *text, "--sizes", "1/2", "--pairs", "2")
    ran("compress", root / "model", root / "small", "--method", "II-6")
    ran("export", root / "small", root / "dense")
    ran("export", root / "small", root / "served", "--to", "onnx")
    ran("export", root / "model", root / "plain", "--to", "onnx")
    return root


def values(data: Any, name: str) -> dict[str, float]:
    [found] = [model for model in data["models"] if model["name"] == name]
    return dict(found["values"])


def test_compare_takes_all_of_them(root: Path) -> None:
    names = ("looked", "small", "dense", "served", "plain")
    data = ran("compare", *(root / name for name in names), "--json").data
    methods = {model["name"]: model["method"] for model in data["models"]}
    assert {name: methods[name] for name in names[1:]} == {
        "small": "II-6",
        "dense": "dense",
        "served": "II-6",
        "plain": "dense",
    }
    original, small = values(data, "model"), values(data, "small")
    assert values(data, "served")["parameters:matrices"] == small["parameters:matrices"] < original["parameters:matrices"]
    assert values(data, "dense")["parameters:matrices"] == original["parameters:matrices"]
    assert values(data, "dense")["disk"] > small["disk"]
    assert values(data, "plain")["disk"] == sum(file.stat().st_size for file in (root / "plain/onnx").iterdir())
    assert any("explore" in note for note in data["notes"])


def test_what_explore_predicts_lies_on_the_axes_of_what_compress_found(root: Path, tmp_path: Path) -> None:
    data = ran("explore", root / "model", tmp_path / "looked", "--sizes", "1/2", "--pairs", "0", "--json").data
    [low_rank] = [row for row in data["predictions"] if row["method"].startswith("II-") and row["tile"] == "square"]
    ran("compress", root / "model", tmp_path / "small", "--method", low_rank["method"])
    compared = ran("compare", tmp_path / "looked", tmp_path / "small", "--json").data
    predicted = values(compared, f"looked: {low_rank['method']} square, 1/2")
    found = values(compared, "small")
    assert predicted["lost:weights"] == pytest.approx(found["lost:weights"], rel=1e-4)
    for axis in ("parameters:matrices", "parameters:model", "flops"):
        assert predicted[axis] == found[axis]


def test_each_can_be_reported(root: Path) -> None:
    pages = {}
    for name in ("looked", "dense", "served", "plain"):
        data = ran("report", root / name, "--json").data
        pages[name] = Path(data["report"]).read_text(encoding="utf-8")
        assert (data["card"] is None) == (name == "looked")
    assert "What could be compressed" in pages["looked"]
    assert pages["looked"].count("data:image/png;base64,") == len(list((root / "looked").glob("*.png")))
    assert (
        "II-6 (" not in pages["plain"] and "then written as ONNX" in pages["served"] and "then multiplied out" in pages["dense"]
    )
    card = (root / "served/README.md").read_text(encoding="utf-8")
    assert "onnx/model.onnx" in card and 'from_pretrained("served")' not in card


def test_the_snippet_for_an_onnx_file_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran("report", root / "served")
    [code] = (root / "served/README.md").read_text(encoding="utf-8").split("```python\n")[1:]
    monkeypatch.chdir(root)
    held: dict[str, Any] = {}
    exec(code.split("```")[0], held)
    assert held["outputs"][0].shape[0] == 1


def test_an_analysis_alone_is_named(root: Path, tmp_path: Path) -> None:
    ran("analyze", root / "small", tmp_path / "analysed")
    done = run("compare", root / "small", tmp_path / "analysed")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "name the model's" in done.err
