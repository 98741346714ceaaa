"""docs/experiments.md lists the baselines and the recipes that there are, and its recipe is one."""

import json
import re
from pathlib import Path

import yaml

from tenfold.experiments.ablation import Ablation, variants
from tenfold.experiments.baselines import DENSE_LR, TEMPERATURE, TITLES, baseline
from tenfold.experiments.tables import gaps, rows
from tenfold.recipe import parse_recipe

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")


def test_every_baseline_is_there_and_no_other() -> None:
    rows = [line for line in PAGE.split("## Baselines")[1].split("\n##")[0].splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1]) if name != "--baselines"]
    assert {baseline(name, "student").name for name in named} == {*named}
    assert {*named} == {"dense", "low_rank", "tinybert", "theseus", "tinybert-IV-72-384", *(f"every-2-{how}" for how in TITLES)}
    assert (TEMPERATURE, DENSE_LR) == (5, 5e-5)


def test_every_shipped_ablation_is_there() -> None:
    shipped = {f"recipes/ablations/{path.name}" for path in (ROOT / "recipes/ablations").glob("*.yaml")}
    assert {*re.findall(r"recipes/ablations/[\w-]+\.yaml", PAGE)} == shipped


def test_the_recipe_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = parse_recipe(yaml.safe_load(text), Ablation)
    assert [cell.name for cell in variants(found)] == [
        "init=hosvd lr=0.001", "init=hosvd lr=0.0003", "init=activation lr=0.001", "init=activation lr=0.0003",
    ]  # fmt: skip


def test_the_measured_rows_stand_in_docs_tasks() -> None:
    record = json.loads((ROOT / "benchmarks/results/tasks-all-MiniLM-L6-v2.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/tasks.md").read_text(encoding="utf-8").split("## Measured")[1]
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith(("| model ", "| --- "))]
    assert lines == [f"| {' | '.join(cells)} |" for cells in (*rows(record), *gaps(record))]
    assert [row["role"] for row in record["rows"]] == ["teacher", "student", "baseline"]
    assert all(f"- {text}" in page for text in record["warnings"])
