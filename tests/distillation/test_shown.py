"""What docs/distillation.md shows of speed and of parts is what the committed results hold."""

import json
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
