"""explore and analyze as they are typed: what they print, write and refuse."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ran, run
from pico import CORPUS, save_folder
from safetensors.torch import load_file, save_file

KINDS = ("png", "svg", "csv")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model, its text, small (a bank) and taught: small with its mixes doubled."""
    root = tmp_path_factory.mktemp("verbs")
    save_folder(root / "model")
    (root / "text.txt").write_text("\n".join(CORPUS), encoding="utf-8")
    ran("compress", root / "model", root / "small", "--method", "IV-6-8")
    shutil.copytree(root / "small", root / "taught")
    weights = load_file(root / "taught/model.safetensors")
    weights["factor_banks.all.P"] *= 2
    save_file(weights, root / "taught/model.safetensors", {"format": "pt"})
    return root


@pytest.fixture(scope="module")
def explored(root: Path) -> Path:
    out = root / "explored"
    text = ("--text", root / "text.txt", "--tokens", "1024", "--length", "32")
    ran("explore", root / "model", out, *text, "--sizes", "1/2,1/4", "--pairs", "5")
    return out


@pytest.fixture(scope="module")
def analyzed(root: Path) -> Path:
    ran("analyze", root / "taught", "--original", root / "model", "--start", root / "small")
    return root / "taught/analysis"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def record(folder: Path) -> Any:
    return json.loads((folder / "analysis.json").read_text(encoding="utf-8"))


def files_of(folder: Path) -> set[str]:
    found = {f"{figure['name']}.{kind}" for figure in record(folder)["figures"] for kind in KINDS}
    assert found | {"analysis.json"} == {file.name for file in folder.iterdir()}
    return {figure["name"] for figure in record(folder)["figures"]}


def test_explore_writes_a_record_and_every_figure_thrice(explored: Path) -> None:
    kinds = ("variance", "half", "pairs")
    expected = {f"{kind}-{view}" for kind in kinds for view in ("weights", "outputs")}
    expected |= {"modes", "orthogonality", "predicted", "similarity-slices", "similarity-inputs", "similarity-outputs"}
    assert files_of(explored) == expected
    found = record(explored)
    assert (found["verb"], found["version"], found["command"][:2]) == ("explore", 1, ["tenfold", "explore"])


def test_the_tables_hold_what_the_record_says(explored: Path) -> None:
    [group] = record(explored)["groups"]
    halves = {f"{row['layer']} {row['block']}": float(row["variance captured"]) for row in table(explored / "half-weights.csv")}
    assert halves == {tile["name"]: tile["half"] for tile in group["weights"]["tiles"]}
    curves = table(explored / "variance-weights.csv")
    of_query = [float(row["captured"]) for row in curves if (row["line"], row["name"]) == ("mean of role", "attn.q")]
    assert of_query == group["weights"]["roles"]["attn.q"]["curve"]
    drawn = {(row["error of"], row["method"], row["size"]): float(row["error"]) for row in table(explored / "predicted.csv")}
    for row in record(explored)["predictions"]:
        assert drawn["weights", row["method"], row["size"]] == row["weight_error"]
        assert drawn["outputs on real text", row["method"], row["size"]] == row["output_error"]
    chance = [float(row["captured"]) for row in curves if row["line"] == "random numbers"]
    assert chance[len(chance) // 2] == group["weights"]["half_random"] and group["outputs"]["half_random"] is None
    pairs = {row["pair"] for row in table(explored / "pairs-weights.csv") if row["line"] == "along rows"}
    assert len(pairs) == 5


def test_explore_prints_the_suggestion_as_a_command_that_runs(root: Path, tmp_path: Path) -> None:
    shown = ran("explore", root / "model", tmp_path / "out", "--sizes", "1/2", "--pairs", "0").out
    assert "held by half of the dimensions" in shown and "random ones" in shown
    [line] = [line for line in shown.replace("\n", " ").split("-> ") if line.startswith("tenfold compress")]
    words = line.split(" OUT ")[1].split()[:4]
    assert words[::2] == ["--method", "--tile"]
    ran("compress", root / "model", tmp_path / "small", *words)
    assert not (tmp_path / "out/pairs-weights.png").exists()


def test_each_group_has_its_figures(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    how = ("--sites", "ffn", "--tile", "whole", "--sizes", "1/2", "--pairs", "2")
    data = ran("explore", root / "model", out, *how, "--json").data
    names = [group["name"] for group in data["groups"]]
    assert len(names) == 2 and data["out"] == str(out)
    assert {f"modes-{name}" for name in names} <= files_of(out)


def test_analyze_writes_beside_the_model(analyzed: Path) -> None:
    expected = {"distances", "distances-in-layers", "norms", "usage", "error", "entropy-rank", "raw-entropy-rank", "moved"}
    assert files_of(analyzed) == expected
    found = record(analyzed)
    assert (found["verb"], found["method"], found["notes"]) == ("analyze", "IV-6-8", [])


def test_the_heatmap_is_layer_by_layer_in_the_order_of_the_paper(analyzed: Path, root: Path) -> None:
    rows = table(analyzed / "distances.csv")
    parts = [f"ffn.{side} {part}" for side in ("in", "out") for part in (1, 2, 3, 4)]
    assert [row["tile"] for row in rows] == [
        f"{layer} {block}" for layer in (0, 1) for block in ("attn.q", "attn.k", "attn.v", "attn.o", *parts)
    ]
    mix = load_file(root / "taught/model.safetensors")["factor_banks.all.P"].double()
    expected = 1 - torch.nn.functional.cosine_similarity(mix[3], mix[17], dim=0).item()
    assert float(rows[3]["1 ffn.in 2"]) == pytest.approx(expected)
    inside = table(analyzed / "distances-in-layers.csv")
    assert [float(row["distance"]) for row in inside if (row["layer"], row["block"]) == ("0", "attn.o")] == [
        float(rows[3][name]) for name in list(rows[0])[1:13]
    ]


def test_doubled_mixes_moved_by_as_much_as_they_were(analyzed: Path) -> None:
    [group] = record(analyzed)["groups"]
    assert {row["|change| / |start|"] for row in table(analyzed / "moved.csv")} == {
        str(tile["moved"]) for tile in group["tiles"]
    }
    assert [tile["moved"] for tile in group["tiles"]] == pytest.approx([1] * 24, abs=1e-6)
    assert group["factors"]["P"]["moved"] == pytest.approx(1, abs=1e-6)
    assert group["factors"]["U"]["moved"] == 0


def test_a_report_shows_it(analyzed: Path) -> None:
    page = Path(ran("report", analyzed.parent, "--json").data["report"]).read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == len(record(analyzed)["figures"])


def test_analyze_alone_says_what_more_it_could_tell(root: Path, tmp_path: Path) -> None:
    shown = ran("analyze", root / "small", tmp_path / "out").out
    assert "--original MODEL" in shown and "--start FOLDER" in shown
    assert "1 - cosine of P, same layer, same part" in " ".join(shown.split())
    assert files_of(tmp_path / "out") == {"distances", "distances-in-layers", "norms", "usage", "entropy-rank"}


@pytest.mark.parametrize("method", ["II-6", "ALBERT", "III-8+II-2"])
def test_every_form_is_analyzed(root: Path, tmp_path: Path, method: str) -> None:
    ran("compress", root / "model", tmp_path / "small", "--method", method)
    data = ran("analyze", tmp_path / "small", tmp_path / "out", "--original", root / "model", "--json").data
    [group] = data["groups"]
    assert len(group["tiles"]) == 24
    assert ("private" in files_of(tmp_path / "out")) == ("+" in method)
    assert (group["bank"] is None) == (not method.startswith("IV"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("explore", "small", "x"), "small"),
        (("explore", "model", "x", "--sizes", "2"), "2"),
        (("explore", "model", "x", "--sizes", ","), "--sizes takes shares"),
        (("explore", "model", "explored"), "--force"),
        (("explore", "model", "model", "--force"), "holds no analysis.json"),
        (("explore", "model", "x", "--text", "nothing.txt"), "nothing.txt"),
        (("analyze", "model"), "which is dense"),
        (("analyze", "taught", "x", "--original", "small"), "small"),
        (("analyze", "taught", "x", "--start", "model"), "which is dense"),
        (("analyze", "taught", "x", "--start", "other"), "must have the plan of the model"),
        (("analyze", "taught", "x", "--original", "wide"), "must be the model that was compressed"),
        (("analyze", "taught"), "--force"),
    ],
)
@pytest.mark.usefixtures("explored", "analyzed")
def test_a_mistake_costs_one_line_and_writes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(root)
    if "other" in words and not (root / "other").exists():
        ran("compress", "model", "other", "--method", "IV-6-7")
    if "wide" in words and not (root / "wide").exists():
        save_folder(root / "wide", hidden_size=64)
    before = sorted(root.iterdir())
    done = run(*words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done
    assert told in done.err
    assert sorted(root.iterdir()) == before
