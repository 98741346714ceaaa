"""The tables in docs are those that the committed results give."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RESULTS = sorted((ROOT / "benchmarks/results").glob("initialisation-*.json"))
STARTS = ("random", "hosvd", "hooi", "activation", "recollected")


@pytest.mark.parametrize("file", RESULTS, ids=lambda f: f.stem)
def test_initialisation_rows_stand_in_the_page(file: Path) -> None:
    page = (ROOT / "docs/initialisation.md").read_text(encoding="utf-8")
    result = json.loads(file.read_text(encoding="utf-8"))
    section = page.split(f"## {result['model']}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| 1/")]
    assert len(rows) == len(result["rows"]) > 10
    for line, row in zip(rows, result["rows"], strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        shown = [row["starts"].get(start) for start in STARTS]
        expected = [f"{s['error']:.2f} / {s['cosine']:.2f}" if s else "-" for s in shown]
        assert cells == [row["size"], row["method"], row["tile"], f"{row['parameters'] / 1e6:.2f}M", *expected]


def test_both_real_models_are_there() -> None:
    assert {file.stem for file in RESULTS} == {"initialisation-all-MiniLM-L6-v2", "initialisation-all-mpnet-base-v2"}


@pytest.mark.parametrize("batch", [1, 8])
def test_readme_shows_the_measured_speed(batch: int) -> None:
    rows = json.loads((ROOT / f"benchmarks/results/speed-cpu-batch-{batch}.json").read_text(encoding="utf-8"))["rows"]
    found = {row["form"]: row["ratio"]["estimate"] for row in rows if row["way"] == "fused"}
    shown = [f"{found[form]:.2f}" for form in ("III-384", "IV-36-256", "IV-36-128", "III-64")]
    assert f"| batch {batch} | {' | '.join(shown)} |" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_shows_the_measured_scores() -> None:
    """A row a model: its form, what is kept of it, each task's headline, retention."""
    record = json.loads((ROOT / "benchmarks/results/tasks-all-MiniLM-L6-v2.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for row in record["rows"]:
        scores = [row["scores"][name]["dev"]["mean"][task["metrics"][0]] for name, task in record["tasks"].items()]
        cells = [f"{row['kept']:.2f}", *(f"{score:.1f}" for score in scores), f"{100 * row['retention']:.1f}%"]
        assert f"| {row['method']} | {' | '.join(cells)} |" in readme


def test_distillation_rows_stand_in_the_page_and_in_readme() -> None:
    page, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/distillation.md", "README.md"))
    rows = json.loads((ROOT / "benchmarks/results/general-all-MiniLM-L6-v2.json").read_text(encoding="utf-8"))["rows"]
    shown = {r["cell"]: [f"{r[when]['error']:.3f} / {r[when]['cosine']:.3f}" for when in ("before", "after")] for r in rows}
    for row in rows:
        cells = [row["cell"], f"{row['parameters']['ratio']:.3f}", f"{row['tokens'] / 1e6:.1f}M", *shown[row["cell"]]]
        assert f"| {' | '.join(cells)} |" in page
    for cell in ("II-36:whole", "III-139:square", "IV-36-194:square", "III-70+II-20:square"):
        assert all(number in readme for number in shown[f"{cell}:activation:tenfold"])


def test_compress_rows_stand_in_the_page_and_keep_the_limits() -> None:
    page = (ROOT / "docs/compress-speed.md").read_text(encoding="utf-8")
    result = json.loads((ROOT / "benchmarks/results/compress.json").read_text(encoding="utf-8"))
    for name, row in result["cases"].items():
        beyond = row["peak_gb"] - row["weights_gb"] - result["imports_gb"]
        assert f"| {name} | {row['seconds']:.0f} | {row['cpu_seconds']:.0f} | {row['peak_gb']:.2f} | {beyond:.2f} |" in page
        assert row["cpu_seconds"] < (60 if "BERT" in name and "HOOI" in name else 300 if "BERT" in name else 3600)
        assert beyond < 3 if "BERT" in name else row["peak_gb"] < 8
    assert all(f"{value}" in page for value in result["machine"].values())
    cases = list(result["cases"])
    for words in (("BERT-base", "HOOI"), ("BERT-base", "activation")):
        assert any(all(word in name for word in words) for name in cases)
