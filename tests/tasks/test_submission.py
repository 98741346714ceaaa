"""The archive as GLUE's server wants it: names, headers, row counts, spelling."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tenfold.errors import TenfoldError
from tenfold.tasks import Task, glue
from tenfold.tasks.submission import constant, spelled, tables, write_archive

EXPECTED = {
    "CoLA": (1063, {"0", "1"}),
    "SST-2": (1821, {"0", "1"}),
    "MRPC": (1725, {"0", "1"}),
    "STS-B": (1379, None),
    "QQP": (390965, {"0", "1"}),
    "MNLI-m": (9796, {"entailment", "neutral", "contradiction"}),
    "MNLI-mm": (9847, {"entailment", "neutral", "contradiction"}),
    "QNLI": (5463, {"entailment", "not_entailment"}),
    "RTE": (3000, {"entailment", "not_entailment"}),
    "WNLI": (146, {"0", "1"}),
    "AX": (1104, {"entailment", "neutral", "contradiction"}),
}
"""What gluebenchmark.com asks for: the tables, their rows and their labels."""


def contents(out: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(out) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode().split("\n") for name in archive.namelist()}


def test_the_whole_archive(tmp_path: Path) -> None:
    filled = write_archive(tmp_path / "glue.zip", {"WNLI": ["0", "1"] * 73}, force=False)
    assert {*filled} == {*EXPECTED} - {"WNLI"}
    found = contents(tmp_path / "glue.zip")
    assert {*found} == {f"{name}.tsv" for name in EXPECTED}
    for name, (rows, labels) in EXPECTED.items():
        header, *lines, last = found[f"{name}.tsv"]
        assert (header, last, len(lines)) == ("index\tprediction", "", rows)
        cells = [line.split("\t") for line in lines]
        assert [cell[0] for cell in cells] == [str(i) for i in range(rows)]
        said = {cell[1] for cell in cells}
        assert said <= labels if labels is not None else all(0 <= float(each) <= 5 for each in said)
        assert len(said) == (2 if name == "WNLI" else 1)


def test_the_same_answers_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        write_archive(tmp_path / name, {}, force=False)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TenfoldError, match="expects 146 answers for WNLI, got 145"):
        write_archive(tmp_path / "glue.zip", {"WNLI": ["0"] * 145}, force=False)
    assert not [*tmp_path.iterdir()]


def test_an_archive_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "glue.zip").write_text("mine")
    with pytest.raises(TenfoldError, match="--force"):
        write_archive(tmp_path / "glue.zip", {}, force=False)
    assert (tmp_path / "glue.zip").read_text() == "mine"
    write_archive(tmp_path / "glue.zip", {}, force=True)
    assert len(contents(tmp_path / "glue.zip")) == 11


@pytest.mark.parametrize("name", [name for name, row in glue().items() if row.task.kind == "classification"])
def test_classes_are_spelled_as_in_the_files(name: str) -> None:
    row = glue()[name]
    outputs = np.eye(len(row.task.labels))
    assert spelled(row, row.task, outputs) == list(row.spelling)
    turned = Task(name, "classification", row.task.columns, "label", row.task.labels[::-1])
    assert spelled(row, turned, outputs) == list(row.spelling[::-1])


def test_scores_lie_within_the_servers_range() -> None:
    row = glue()["stsb"]
    assert spelled(row, row.task, np.array([[-0.3], [2.34567], [5.4]])) == ["0.000", "2.346", "5.000"]
    vectors = Task("stsb", "embedding", row.task.columns, "label")
    assert spelled(row, vectors, np.array([[-0.5], [0.5], [1.0]])) == ["0.000", "2.500", "5.000"]


def test_a_model_for_other_classes_is_refused() -> None:
    row = glue()["rte"]
    with pytest.raises(TenfoldError, match="got a model for negative, positive"):
        spelled(row, glue()["sst2"].task, np.eye(2))
    with pytest.raises(TenfoldError, match="got a model for a score"):
        spelled(row, glue()["stsb"].task, np.ones((2, 1)))
    with pytest.raises(TenfoldError, match="NaN"):
        spelled(row, row.task, np.array([[0, np.nan]]))


def test_constants_are_answers_that_the_server_takes() -> None:
    assert {name: constant(row) for name, (row, _) in tables().items()} == {
        "CoLA": "0", "SST-2": "0", "MRPC": "0", "STS-B": "2.500", "QQP": "0", "MNLI-m": "entailment", "MNLI-mm": "entailment",
        "QNLI": "entailment", "RTE": "entailment", "WNLI": "0", "AX": "entailment",
    }  # fmt: skip
