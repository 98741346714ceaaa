"""compare: several runs in one table, and what it writes; report and compare on the command line."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import made_up
import pytest
from command import ran, run

from tenfold.measurement.figure import Line, chart_of
from tenfold.reporting import times
from tenfold.reporting.comparing import compare

EVIL = "[bold]<b>|x</b>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("runs")
    other = made_up.full(
        root / "other", "IV-36-128", scores=made_up.scores(58.1, 84.0, None), agreement=made_up.agreement(0.2, 0.7)
    )
    entry = made_up.stamp("finetune", "finetune", "bert", "teacher", model="bert", task="rte", curve=[])
    dense = made_up.folder(root / "teacher", None, history=[entry], scores=made_up.scores(64.1, 91.2))
    return [made_up.full(root / "taught"), other, made_up.folder(root / "bare", "II-36"), dense]


def test_the_table_on_the_terminal(runs: list[Path]) -> None:
    shown = ran("compare", *runs[:2]).out
    [line] = [line for line in shown.splitlines() if "rte (dev): accuracy" in line]
    assert line.split()[-5:] == ["64.1", "-", "61.7", "-", "58.1"]
    assert "0.87 to 1.90" in shown
    many = ran("compare", *runs).out
    assert all(name in many for name in ("taught", "other", "bare", "teacher"))
    assert max(map(len, many.splitlines())) <= 120


def test_json_is_one_object_with_exact_numbers(runs: list[Path]) -> None:
    data = ran("compare", *runs, "--json").data
    names = ["all-MiniLM-L6-v2", "bert", "taught (compressed)", "taught", "other (compressed)", "other", "bare", "teacher"]
    assert [model["name"] for model in data["models"]] == names
    taught = data["models"][3]
    assert (taught["folder"], taught["form"], taught["method"]) == (str(runs[0]), "mixed", "III-70+II-20")
    assert taught["values"]["score:rte:dev:accuracy"] == 61.7
    assert {axis["key"] for axis in data["axes"]} >= set(taught["values"])
    assert data["files"] == []


def test_a_folder_with_everything(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    data = ran("compare", *runs[:3], "--out", out, "--quality", "cosine", "--cost", "flops", "--json").data
    charts = [f"{chart}.{kind}" for chart in ("pareto", "times") for kind in ("csv", "png", "svg")]
    files = ["compare.csv", "compare.html", "compare.md", *charts]
    assert data["files"] == [str(out / name) for name in files]
    table = list(csv.DictReader((out / "compare.csv").read_text().splitlines()))
    assert [row["model"] for row in table] == [model["name"] for model in data["models"]]
    assert float(table[2]["score:rte:dev:accuracy"]) == 61.7
    assert table[-1]["score:rte:dev:accuracy"] == ""
    drawn = list(csv.DictReader((out / "pareto.csv").read_text().splitlines()))
    assert [row["model"] for row in drawn] == [row["model"] for row in table if row["alike:cosine"]]
    assert {row["model"] for row in drawn if row["on the front"] == "True"} == {"taught", "all-MiniLM-L6-v2"}
    assert float(drawn[0]["flops"]) == made_up.FLOPS
    markdown = (out / "compare.md").read_text()
    assert "| taught | III-70+II-20 | 13.6M | 1.49M |" in markdown
    assert "![cost against quality](pareto.png)" in markdown
    page = (out / "compare.html").read_text()
    assert "<h1>taught, other and bare</h1>" in page
    assert page.count("<h3>") == 3


def test_runs_without_a_quality_have_no_chart(tmp_path: Path) -> None:
    folders = [
        made_up.folder(tmp_path / name, None, measurement=made_up.measurement(speed))
        for name, speed in (("a", 1.5), ("b", 1.2))
    ]
    ran("compare", *folders, "--out", tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"compare.csv", "compare.html", "compare.md", "times.csv", "times.png", "times.svg"}
    assert "pareto.png" not in (tmp_path / "out" / "compare.md").read_text()


def test_times_against_batch_of_every_measured_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each on its fastest path, beside the original as it was measured with it."""
    charts: list[Any] = []

    def kept(lines: Sequence[Line]) -> Any:
        charts.append(chart_of(lines))
        return charts[-1]

    monkeypatch.setattr(times, "chart_of", kept)
    fast, slow = made_up.measurement(2.0), made_up.measurement(0.5)
    other = {**fast["cells"][1]["timings"][1], "path": "fused", "median": 1e-4}
    fast["cells"][1]["timings"].append(other)
    fast["cells"][1]["timings"].append({**other, "path": "compiled", "median": 1e-5, "state": "wrong"})
    folders = [made_up.folder(tmp_path / name, None, measurement=m) for name, m in (("fast", fast), ("slow", slow))]
    bare = made_up.folder(tmp_path / "bare")
    ran("compare", *folders, bare, "--out", tmp_path / "out")
    rows = list(csv.DictReader((tmp_path / "out/times.csv").read_text().splitlines()))
    ways = [(row["run"], row["model"], row["batch"], row["path"], float(row["median_ms"])) for row in rows]
    old, base = "all-MiniLM-L6-v2", 1e3 * 8 * 128 * 1e-5
    of_eight = [way for way in ways if way[2] == "8"]
    assert [way[:4] for way in of_eight] == [
        ("fast", old, "8", "eager"),
        ("fast", "fast", "8", "fused"),
        ("slow", old, "8", "eager"),
        ("slow", "slow", "8", "eager"),
    ]
    assert [way[4] for way in of_eight] == pytest.approx([base, 0.1, base, 2 * base])
    [chart] = charts
    [panel] = chart.axes
    assert [text.get_text() for text in chart.legends[0].get_texts()] == [old, "fast", "slow"]
    assert [line.get_ydata()[1] for line in panel.lines] == [way[4] for way in of_eight]
    assert "![time against batch](times.png)" in (tmp_path / "out/compare.md").read_text()
    assert "Time against batch" in (tmp_path / "out/compare.html").read_text()
    ran("compare", bare, made_up.folder(tmp_path / "bare too"), "--out", tmp_path / "nothing")
    assert not (tmp_path / "nothing/times.png").exists()


def test_force_replaces_a_comparison_and_nothing_else(runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran("compare", *runs[:2], "--out", out)
    again = run("compare", *runs[:2], "--out", out)
    assert (again.code, again.err.count("\n")) == (2, 1) and "pass --force to replace it" in again.err
    ran("compare", *runs[:2], "--out", out, "--force")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("dear")
    refused = run("compare", *runs[:2], "--out", tmp_path / "home", "--force")
    assert refused.code == 2 and "holds no compare.csv" in refused.err
    assert (tmp_path / "home" / "letter").exists()


def test_what_does_not_compare_is_said(tmp_path: Path) -> None:
    """Two machines, two texts."""
    speed = made_up.measurement()
    speed["machine"] = {**speed["machine"], "cpu": "Another CPU"}
    alike = {**made_up.agreement(), "sentences": 50}
    folders = [made_up.full(tmp_path / "a"), made_up.full(tmp_path / "b", measurement=speed, agreement=alike)]
    first, second = compare(folders).notes()
    assert "different machines" in first
    assert "different passages" in second
    assert compare([folders[0], made_up.full(tmp_path / "c")]).notes() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{0}"], "compare takes two runs or more, got 1"),
        (["{0}", "{0}/../taught"], "each run is named once"),
        (["{0}", "nowhere"], "got nowhere, which is none"),
        (["{0}", "{1}", "--quality", "sst2"], "add --out FOLDER"),
        (["{0}", "{1}", "--out", "{0}-x", "--quality", "score:rte:dev:acuracy"], 'did you mean "score:rte:dev:accuracy"'),
    ],
)
def test_mistakes_are_one_line(runs: list[Path], words: list[str], message: str) -> None:
    done = run("compare", *(word.format(*runs) for word in words))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err


def test_names_are_text_everywhere(runs: list[Path], tmp_path: Path) -> None:
    folder = made_up.full(tmp_path / "[bold]$x^2 & $")
    out = tmp_path / "out"
    done = ran("compare", runs[0], folder, "--out", out)
    assert "[bold]$x^2" in done.out.replace("\n", "")
    assert "$x^2 &amp; $" in (out / "compare.md").read_text()
    scores = made_up.scores()
    scores["tasks"][EVIL] = scores["tasks"].pop("rte")
    evil = made_up.full(tmp_path / "evil", scores=scores)
    assert "[bold]<b>|x</b> (dev): accuracy" in ran("compare", evil, runs[0]).out
    ran("compare", evil, runs[0], "--out", out, "--force")
    assert "<b>|x" not in (out / "compare.md").read_text() + (out / "compare.html").read_text()


def test_report_on_the_command_line(tmp_path: Path, runs: list[Path]) -> None:
    folder = made_up.folder(tmp_path / "small", "II-36")
    data = ran("report", folder, "--with", runs[0], "--with", runs[1], "--json").data
    assert data["report"] == str(folder / "report.html")
    assert data["card"] == str(folder / "README.md")
    assert [each["what"] for each in data["missing"]][:2] == ["No scores on a task", "No measured speed"]
    page = (folder / "report.html").read_text()
    assert '"run": "taught"' in page and '"run": "other"' in page
    shown = ran("report", folder).out
    assert f"tenfold measure {folder}" in "".join(shown.split("\n"))


def test_report_leaves_somebody_elses_card(tmp_path: Path) -> None:
    folder = made_up.folder(tmp_path / "small", "II-36")
    (folder / "README.md").write_text("mine")
    assert ran("report", folder, "--json").data["card"] is None
    assert "was left as it is: tenfold did not write it" in ran("report", folder).out.replace("\n", "")
    assert (folder / "README.md").read_text() == "mine"
    assert (folder / "report.html").is_file()
    assert ran("report", folder, "--force", "--base-model", "org/bert", "--json").data["card"] == str(folder / "README.md")
    assert "base_model: org/bert" in (folder / "README.md").read_text()


def test_a_table_of_models_is_compared_and_gets_no_card(tmp_path: Path, runs: list[Path]) -> None:
    folder = tmp_path / "stages"
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(made_up.results()))
    data = ran("report", folder, "--json").data
    assert data == {"report": str(folder / "report.html"), "card": None, "missing": []}
    assert not (folder / "README.md").exists()
    shown = ran("compare", runs[0], folder).out
    assert "60.2" in shown and "both stages" in shown


def test_report_refuses_what_is_no_run(tmp_path: Path) -> None:
    done = run("report", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert not list(tmp_path.iterdir())
    made_up.folder(tmp_path / "small")
    (tmp_path / "small" / "history.json").write_text(json.dumps({"no": "list"}))
    assert run("report", tmp_path / "small").code == 2
