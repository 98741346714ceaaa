"""benchmarks/speed.py on an encoder of one thin layer: every way in every form answers alike, and all of it is written."""

import json
from pathlib import Path
from typing import Any

import pytest
import speed
import torch
from transformers import BertModel

from tenfold.measurement.statistics import Ratio


@pytest.fixture
def thin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name, value in (("WIDTH", 32), ("HEADS", 2), ("VOCABULARY", 50)):
        monkeypatch.setattr(speed, name, value)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_run_measures_every_way_and_checks_it(thin: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cells = ["--layers", "1", "--forms", "III-8", "--lengths", "128", "--batches", "1,2", "--most", "256"]
    words = [*cells, "--parts", "encoder,mixed", "--rounds", "6", "--out", str(thin), "--plot", str(thin)]
    monkeypatch.setattr("sys.argv", ["speed.py", *words])
    speed.main()
    found = json.loads((thin / "speed-cpu.json").read_text(encoding="utf-8"))
    assert str(thin) not in str(found["command"]) and found["command"][-1] == "6"
    ways = {(row["part"], row["form"], row["way"]) for row in found["rows"] if row["batch"] == 2}
    dense = {("encoder", "dense", way) for way in ("eager", "blocks", "compiled")}
    ours = {("encoder", "III-8", way) for way in ("paper's order", "chain", "fused", "auto")}
    mixed = {("mixed", "dense", way) for way in ("eager", "blocks")}
    mixed |= {("mixed", "III-8", way) for way in ("factors", "fused", "auto")}
    assert ways == dense | ours | mixed
    assert all(row["error"] < 2e-5 and row["seconds"] > 0 for row in found["rows"])
    assert any(row["ratio"]["estimate"] == 1 for row in found["rows"] if row["form"] == "dense")
    assert {file.name for file in thin.glob("speed-cpu.*")} == {f"speed-cpu.{end}" for end in ("json", "png", "svg", "csv")}
    shown = capsys.readouterr().out
    assert "slower than the strongest dense" in shown and "III-8" in shown


def test_an_answer_that_is_off_ends_the_run(thin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = speed.contenders
    setting = speed.Setting(torch.device("cpu"), torch.float32, 6, 1.0)
    models = {"dense": BertModel(speed.config(1), add_pooling_layer=False).eval(), "III-8": speed.compressed("III-8", 1)}

    def wrong(model: Any, x: Any, ways: Any) -> Any:
        calls, chosen = made(model, x, ways)
        return calls | {"chain": lambda: calls["fused"]() * 1.001}, chosen

    monkeypatch.setattr(speed, "contenders", wrong)
    with pytest.raises(AssertionError, match=r"\('III-8', 'chain'\) at 2 x 4 is off by 1.0e-03"):
        speed.encoder_cell(models, 4, 2, setting)
    assert thin.is_dir()


def test_what_is_slower_and_what_reaches_its_goal_is_told() -> None:
    def row(way: str, estimate: float, high: float) -> speed.Row:
        return speed.Row("encoder", "III-64", way, 128, 1, 1.0, Ratio(estimate, estimate - 0.1, high, 6), 0.0)

    assert speed.slower([row("auto", 0.9, 0.95), row("auto", 0.9, 1.0), row("chain", 0.5, 0.6)]) == [
        "III-64 at 1 x 128: 0.90 (0.80 to 0.95)"
    ]
    assert speed.goals([row("chain", 4.0, 4.1), row("fused", 5.6, 5.7)])[1].split() == ["III-64", "1", "5.50", "5.60", "fused"]


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.parametrize("file", sorted(RESULTS.glob("speed-*.json")), ids=lambda file: file.stem)
def test_the_page_shows_the_results(file: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "speed.md").read_text(encoding="utf-8")
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert len(rows) > 5
    for row in (row for row in rows if row["form"] != "dense"):
        found = row["ratio"]
        cell = f"{found['estimate']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
        assert any(line.startswith(f"| {row['form']} ") and cell in line for line in page.splitlines()), (row["way"], cell)
