"""Which model answers which test set, and that the archive holds its answers."""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from command import ran, run
from glue_files import write_task_files
from pico import save_folder, tokenizer

from tenfold.checkpoints import find, load
from tenfold.evaluation import predict
from tenfold.pipeline import tokenizer_of
from tenfold.records import SCORES, write_json
from tenfold.tasks import TaskSpec, encode, glue, load_task, write_task

ROWS = {"wnli": {"train": 4, "dev": 2, "test": 146}, "cola": {"train": 4, "dev": 2, "test": 1063}}
MNLI: Mapping[str, int] = {"train": 6, "dev": 3, "test": 9}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("glue")
    for name, rows in ROWS.items():
        write_task_files(folder, name, rows)
    return folder


def model(folder: Path, name: str, data: Path, seed: int = 0) -> Path:
    """Its bias is such that every class is answered."""
    task = glue()[name].task
    save_folder(folder, "bert", "sequence_classification", seed=seed, num_labels=task.outputs)
    network, found = load(find(str(folder), weights=True)), load_task(TaskSpec(task=name, data_dir=str(data)))
    (rows, *_) = found.test.values()
    with torch.no_grad():
        network.classifier.bias -= torch.from_numpy(predict(network, encode(rows, task, tokenizer()))).mean(0)
    network.save_pretrained(folder)
    write_task(folder, task, TaskSpec(task=name, data_dir=str(data)))
    return folder


def answers(archive: Path, table: str) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        return [line.split("\t")[1] for line in opened.read(f"{table}.tsv").decode().splitlines()[1:]]


def expected(folder: Path, name: str, data: Path) -> list[str]:
    source, found = find(str(folder), weights=True), load_task(TaskSpec(task=name, data_dir=str(data)))
    outputs = predict(load(source), encode(found.test["test"], found.task, tokenizer_of(source)))
    return [glue()[name].spelling[c] for c in np.argmax(outputs, 1)]


def test_every_model_answers_its_table(tmp_path: Path, data: Path) -> None:
    """As tenfold glue leaves them: OUT/TASK/seed-K, of which the best on dev answers."""
    out = tmp_path / "out"
    model(out / "cola/seed-0", "cola", data)
    model(out / "wnli/seed-0", "wnli", data)
    best = model(out / "wnli/seed-1", "wnli", data, seed=1)
    seeds = [{"folder": f"wnli/seed-{k}", "scores": {"accuracy": 40.0 + 20 * k}} for k in (0, 1)]
    write_json(out / SCORES, {"tasks": {"wnli": {"metrics": ["accuracy"], "splits": {"dev": {"seeds": seeds}}}}})
    told = ran("submit", tmp_path / "glue.zip", "--from", out, "--json").data
    assert told["tables"]["WNLI"]["folder"] == str(best)
    assert {*told["filled"]} == {*told["tables"]} - {"WNLI", "CoLA"}
    assert told["tables"]["RTE"] == {"rows": 3000, "folder": None, "constant": "entailment"}
    assert told["notes"] == [f"wnli: {best} is the best of 2 on dev (60.0)"]
    assert answers(tmp_path / "glue.zip", "WNLI") == expected(best, "wnli", data)
    assert answers(tmp_path / "glue.zip", "CoLA") == expected(out / "cola/seed-0", "cola", data)
    assert len({*answers(tmp_path / "glue.zip", "CoLA")}) == 2
    again = ran("submit", tmp_path / "glue.zip", "--from", best, "--from", out / "cola", "--data-dir", data, "--force").out
    assert "2 tables answered of 11" in again


def test_the_diagnostic_set_is_answered_by_mnli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mnli", "ax"):
        for table in glue()[name].test_rows:
            monkeypatch.setitem(glue()[name].test_rows, table, MNLI["test"])
    write_task_files(tmp_path / "glue", "mnli", MNLI)
    folder = model(tmp_path / "mnli", "mnli", tmp_path / "glue")
    without = ran("submit", tmp_path / "a.zip", "--from", folder, "--json").data
    assert [name for name, row in without["tables"].items() if row["folder"]] == ["MNLI-m", "MNLI-mm"]
    write_task_files(tmp_path / "glue", "ax", MNLI)
    told = ran("submit", tmp_path / "b.zip", "--from", folder, "--json").data
    assert [name for name, row in told["tables"].items() if row["folder"]] == ["MNLI-m", "MNLI-mm", "AX"]
    assert answers(tmp_path / "b.zip", "MNLI-m") != answers(tmp_path / "b.zip", "MNLI-mm")


def test_what_cannot_be_submitted(tmp_path: Path, data: Path) -> None:
    plain = save_folder(tmp_path / "plain", "bert")
    own = model(tmp_path / "own", "wnli", data)
    write_task(own, glue()["wnli"].task, TaskSpec(train="rows.csv"))
    two = tmp_path / "two"
    for seed in (0, 1):
        model(two / f"seed-{seed}", "wnli", data, seed)
    short = write_task_files(tmp_path / "short", "wnli", {"train": 4, "dev": 2, "test": 7})
    for folder, told in [
        (plain, "task.json"),
        (tmp_path / "none", "check the path"),
        (data, "got none"),
        (own, "made for rows.csv"),
        (two, "score them first"),
        (model(tmp_path / "few", "wnli", short), "expects 146 answers for WNLI, got 7"),
    ]:
        done = run("submit", tmp_path / "glue.zip", "--from", folder)
        assert (done.code, done.err.count("\n"), told in done.err) == (2, 1, True), done.err
    assert not (tmp_path / "glue.zip").exists()
