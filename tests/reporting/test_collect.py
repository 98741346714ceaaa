"""What is read from a folder, and what is refused."""

import json
from pathlib import Path
from typing import Any

import made_up
import pytest
import torch
from safetensors.torch import save_file

from tenfold.errors import CheckpointError
from tenfold.reporting.collect import Count, collect, collect_all, distinct
from tenfold.reporting.story import missing


def test_everything_is_read(tmp_path: Path) -> None:
    run = collect(made_up.full(tmp_path / "taught"))
    assert (run.name, run.method, run.form) == ("taught", "III-70+II-20", "mixed")
    assert run.original == "sentence-transformers/all-MiniLM-L6-v2"
    assert run.taught
    assert [*run.parameters] == ["matrices", "paper", "model"]
    assert run.parameters["matrices"].ratio == pytest.approx(0.14)
    assert run.flops == Count(made_up.FLOPS, round(0.24 * made_up.FLOPS))
    assert run.scores is not None and run.scores.tasks["rte"].splits["dev"].mean == {"accuracy": 61.7}
    teacher = run.scores.tasks["rte"].splits["dev"].teacher
    assert teacher is not None and teacher.scores == {"accuracy": 64.1}
    assert run.measurement is not None and run.measurement.cells[0].batch == 1
    assert run.agreement is not None and run.agreement.rows[-1].cosine == 0.77
    [fit] = run.compression.fits
    assert fit.sites["layer.0.attn.q"] == (0.2, 0.0)
    assert run.recipe is not None and run.recipe.startswith("version: 1")


def test_a_folder_with_a_compression_alone(tmp_path: Path) -> None:
    run = collect(made_up.folder(tmp_path / "small", "II-36"))
    assert (run.scores, run.measurement, run.agreement, run.analysis, run.results) == (None,) * 5
    assert not run.taught
    assert run.disk is None  # there are no weights


def test_without_a_compress_entry_counts_come_from_file_and_plan(tmp_path: Path) -> None:
    """Made through Python: no history, a plan in config.json, factors in the file."""
    folder = made_up.folder(tmp_path / "small", "III-70")
    (folder / "history.json").unlink()
    save_file({"factors": torch.zeros(1000), "rest": torch.zeros(10, 10)}, folder / "model.safetensors")
    run = collect(folder)
    assert run.plan is not None
    saved = sum(group.dense - group.parameters for group in run.plan.groups)
    assert run.parameters == {"model": Count(1100 + saved, 1100)}
    assert run.disk is not None and run.disk.before is None and run.disk.after > 4400


def test_a_dense_model_has_no_ratio(tmp_path: Path) -> None:
    folder = made_up.folder(
        tmp_path / "teacher", None, history=[made_up.stamp("finetune", "finetune", model="bert", task="rte")]
    )
    save_file({"weight": torch.zeros(7)}, folder / "model.safetensors")
    run = collect(folder)
    assert (run.method, run.form, run.original) == ("dense", "dense", "bert")
    assert run.parameters["model"].ratio is None


def test_factors_that_were_multiplied_out_cost_what_the_original_does(tmp_path: Path) -> None:
    entry = made_up.stamp("export", "export", "small", "dense", to="dense", model="small", out="dense")
    run = collect(made_up.folder(tmp_path / "dense", None, history=[made_up.compress("III-70", 0.14), entry]))
    assert (run.method, run.form, run.taught) == ("dense", "dense", False)
    assert run.original == "sentence-transformers/all-MiniLM-L6-v2"
    assert {count.ratio for count in run.parameters.values()} == {1.0}
    assert run.flops == Count(made_up.FLOPS, made_up.FLOPS)


def test_an_onnx_file_has_the_method_and_the_counts_of_its_history(tmp_path: Path) -> None:
    entries = [made_up.compress("III-70", 0.14), made_up.distill()]
    entry = made_up.stamp("export", "export", "taught", "served", to="onnx", model="taught", out="served")
    folder = made_up.folder(tmp_path / "served", None, history=[*entries, entry])
    (folder / "onnx").mkdir()
    (folder / "onnx/model.onnx").write_bytes(bytes(700))
    (folder / "onnx/model.onnx.data").write_bytes(bytes(300))
    run = collect(folder)
    assert (run.method, run.form, run.taught) == ("III-70", "tensor_train", True)
    assert run.parameters["matrices"].ratio == pytest.approx(0.14)
    assert run.disk == Count(90_868_376, 1000)
    assert missing(run) == []


def test_an_analysis_alone_is_refused_with_the_folder_to_name(tmp_path: Path) -> None:
    record = made_up.stamp("analyze", "analyze", "small", "looked", model="small", figures=[], groups=[])
    (tmp_path / "analysis.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=r"more than an analysis, got .*: name the model's, small$"):
        collect(tmp_path)


def test_a_folder_without_any_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"a record of what was done to it, got .* run tenfold evaluate or measure"):
        collect(tmp_path)
    with pytest.raises(CheckpointError, match="which is none: check the path"):
        collect(tmp_path / "nowhere")


BROKEN: dict[str, Any] = {
    "scores": {"tasks": {"rte": {"metrics": ["accuracy"], "splits": {"dev": {"rows": "many"}}}}},
    "agreement": {"rows": []},
    "measurement": {"version": 7},
    "history": [{"no": "verb"}],
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_one_line_that_names_the_file(tmp_path: Path, name: str) -> None:
    folder = made_up.full(tmp_path / "taught")
    for content in (json.dumps(BROKEN[name]), "{"):
        (folder / f"{name}.json").write_text(content)
        with pytest.raises(CheckpointError, match=name) as caught:
            collect(folder)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"fits": [{"group": "all"}]}, r"0\.fits\.0\.init"),
        ({"parameters": {"model": {"after": 1}}}, r"0\.parameters\.model\.before"),
    ],
)
def test_a_broken_entry_is_refused_too(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    entries = [made_up.compress("II-36", 0.1, **changes), made_up.distill()]
    with pytest.raises(CheckpointError, match=rf"history\.json must be as tenfold writes it, got .* at {where}"):
        collect(made_up.folder(tmp_path / "a", None, history=entries))


def test_names_tell_folders_apart(tmp_path: Path) -> None:
    assert distinct([("a", "x", "small"), ("a", "y", "small"), ("a", "y", "big")]) == ["x/small", "y/small", "big"]
    runs = collect_all([made_up.folder(tmp_path / name / "small") for name in ("x", "y")])
    assert [run.name for run in runs] == ["x/small", "y/small"]
