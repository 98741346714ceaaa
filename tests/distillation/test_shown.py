"""What docs/distillation.md shows of speed and of parts is what the committed results hold."""

import json
import statistics
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def page() -> str:
    return (ROOT / "docs/distillation.md").read_text(encoding="utf-8")


def result(name: str) -> Any:
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))


def test_training_rows() -> None:
    rows = {row["model"]: row for row in result("training-minilm-cpu")["rows"]}
    for name, row in rows.items():
        if name != "dense":
            assert f"| {name} | {row['to_dense']:.2f} | {row['low']:.2f} to {row['high']:.2f} |" in page()
        if f"{name}, paper's order" in rows:
            assert row["to_dense"] > rows[f"{name}, paper's order"]["to_dense"]


def test_rows_of_parts() -> None:
    rows = sorted(result("parts-all-MiniLM-L6-v2")["rows"].values(), key=lambda row: (row["stage"], row["part"], row["seed"]))
    for (_, part), group in groupby(rows, key=lambda row: (row["stage"], row["part"])):
        own = list(group)
        scores = [row["spearman"] for row in own]
        each = ", ".join(f"{value:.1f}" for value in scores)
        error = statistics.mean(row["last"] for row in own)
        assert f"| {part} | {statistics.mean(scores):.1f} | {each} | {error:.3f} |" in page()
