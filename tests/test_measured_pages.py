"""The tables of docs/measuring.md and docs/exploration.md are those that the committed records give."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tenfold.measurement import from_dict

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def load(name: str) -> Any:
    found = import_module(name)
    assert Path(found.__file__ or "").parent == ROOT / "benchmarks"
    sys.modules.pop(name)
    return found


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_exploration_page() -> None:
    tables, found = load("exploration"), json.loads((RESULTS / "exploration.json").read_text(encoding="utf-8"))
    text = page("exploration.md")
    assert list(found) == ["all-MiniLM-L6-v2", "all-mpnet-base-v2"]
    for table in (
        tables.halves(found),
        tables.roles(found),
        tables.alike(found),
        *(tables.predictions(found, m) for m in found),
    ):
        assert len(table.splitlines()) >= 4
        assert table in text


def test_the_measuring_page() -> None:
    [file] = RESULTS.glob("measure-*.json")
    found = from_dict(json.loads(file.read_text(encoding="utf-8")))
    text = page("measuring.md")
    assert load("measure_table").table(found) in text
    assert all(line in text for line in found.crossovers)


@pytest.mark.parametrize("name", ["exploration.md", "measuring.md", "reports.md"])
def test_pictures_are_there_and_small(name: str) -> None:
    shown = [part.split(")")[0] for part in page(name).split("](")[1:] if part.split(")")[0].endswith(".png")]
    assert shown
    for picture in shown:
        assert (ROOT / "docs" / picture).stat().st_size < 250_000, picture
