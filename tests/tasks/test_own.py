"""The user's own tables: every format and kind, what is found out about them, and what is refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from tenfold.errors import TenfoldError
from tenfold.tasks import TaskSpec, load_rows, load_task
from tenfold.tasks import tables as module
from tenfold.tasks.tables import read_table

Table = dict[str, Sequence[Any]]

REVIEWS: Table = {
    "review": [f'film {i}, "{"good" if i % 2 else "bad"}"\nsaid\twe' for i in range(40)],
    "label": ["yes" if i % 2 else "no" for i in range(40)],
}


def write(folder: Path, name: str, table: Table) -> str:
    """By its suffix; CSV and TSV quoted where they must be."""
    import csv

    path = folder / name
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table({key: list(values) for key, values in table.items()}), path)
    elif path.suffix in (".jsonl", ".json"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*table], delimiter="," if path.suffix == ".csv" else "\t")
            writer.writeheader()
            writer.writerows(rows)
    return str(path)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "parquet", "CSV"])
def test_the_same_rows_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, f"train.{suffix.lower()}", REVIEWS)
    if suffix != suffix.lower():
        path = str(Path(path).rename(tmp_path / f"train.{suffix}"))
    data = load_task(TaskSpec(train=path, dev=path))
    assert (data.task.kind, data.task.columns, data.task.labels) == ("classification", ("review",), ("no", "yes"))
    assert data.train == data.dev["dev"]
    assert data.train.texts == tuple((text,) for text in REVIEWS["review"])
    assert data.train.labels == (0, 1) * 20
    assert "took review as text and label as label" in data.notes
    assert any(note.startswith("taken for 2 classes (no, yes)") for note in data.notes)
    assert any("40 of 40 rows of dev have the text of a training row" in note for note in data.notes)


def test_a_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('\ufefftext,label\r\n"a, b",x\r\nc,y\r\n'.encode())
    assert read_table(str(tmp_path / "a.csv")) == {"text": ["a, b", "c"], "label": ["x", "y"]}


def test_a_tsv_whose_quotes_are_letters(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('text\tlabel\n"open\tx\nit\'s 5" long\ty\n', encoding="utf-8")
    assert read_table(str(tmp_path / "a.tsv"))["text"] == ['"open', "it's 5\" long"]


@pytest.mark.parametrize(
    ("labels", "kind", "names", "first"),
    [
        (["b", "a", "c", "a"] * 10, "classification", ("a", "b", "c"), 1),
        (["10", "9", "2", "9"] * 10, "classification", ("2", "9", "10"), 2),
        ([1, 0, 1, 0] * 10, "classification", ("0", "1"), 1),
        ([True, False] * 20, "classification", ("false", "true"), 1),
        ([1.0, 2.0] * 20, "classification", ("1", "2"), 0),
        (["0.5", "1", "2.25", "3"] * 10, "regression", (), 0.5),
        ([*range(60)], "regression", (), 0.0),
        ([["x", "y"], ["y"], [], ["z"]] * 10, "multi_label", ("x", "y", "z"), (0, 1)),
    ],
)
def test_the_kind_of_a_label_column(
    tmp_path: Path, labels: list[Any], kind: str, names: tuple[str, ...], first: object
) -> None:
    path = write(tmp_path, "train.jsonl", {"text": [f"row {i}" for i in range(len(labels))], "label": labels})
    data = load_task(TaskSpec(train=path, dev=path))
    assert (data.task.kind, data.task.labels, data.train.labels[0]) == (kind, names, first)
    assert load_rows(data.task, path).labels == data.train.labels


def test_several_labels_in_a_cell(tmp_path: Path) -> None:
    cells = ["news|sport", "sport", "", "art | news"] * 10
    path = write(tmp_path, "train.csv", {"text": [f"row {i}" for i in range(40)], "tags": cells})
    spec = TaskSpec(train=path, dev=path, text_columns=("text",), label_column="tags", kind="multi_label")
    data = load_task(spec)
    assert data.task.labels == ("art", "news", "sport")
    assert data.train.labels[:4] == ((1, 2), (2,), (), (0, 1))
    assert not any(note.startswith(("took", "taken")) for note in data.notes)


def test_pairs_with_a_score_for_sentence_vectors(tmp_path: Path) -> None:
    table: Table = {
        "text1": [f"a {i}" for i in range(30)],
        "text2": [f"b {i}" for i in range(30)],
        "score": [i / 29 for i in range(30)],
    }
    path = write(tmp_path, "train.parquet", table)
    data = load_task(TaskSpec(train=path, dev=path, kind="embedding"))
    assert (data.task.kind, data.task.columns, data.task.outputs) == ("embedding", ("text1", "text2"), 1)
    with pytest.raises(TenfoldError, match="compares two texts"):
        load_task(TaskSpec(train=path, text_columns=("text1",), label_column="score", kind="embedding"))


def test_a_dataset_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Split(dict[str, list[Any]]):
        features: dict[str, Any] = {"text": object(), "label": type("ClassLabel", (), {"names": ["neg", "pos"]})()}  # noqa: RUF012
        column_names = ("text", "label")

    class Package:
        @staticmethod
        def load_dataset(name: str, config: str | None, split: str) -> Split:
            asked.append((name, config, split))
            if name == "none":
                raise RuntimeError("no\nnetwork")
            return Split({"text": [f"{split} {i}" for i in range(20)], "label": [0, 1] * 10})

    monkeypatch.setattr(module, "_package", lambda: Package)
    data = load_task(TaskSpec(train="datasets:me/set:en", dev="datasets:me/set:en"))
    assert asked == [("me/set", "en", "train"), ("me/set", "en", "validation")]
    assert (data.task.labels, data.train.labels[:2]) == (("neg", "pos"), (0, 1))
    read_table("datasets:set::test")
    assert asked[-1] == ("set", None, "test")
    with pytest.raises(TenfoldError, match="no network: name local files"):
        read_table("datasets:none")
    with pytest.raises(TenfoldError, match="mind the colons"):
        read_table("datasets:a:b:c:d")


def test_a_test_split_may_lack_labels(tmp_path: Path) -> None:
    train = write(tmp_path, "train.csv", REVIEWS)
    bare = write(tmp_path, "bare.csv", {"review": ["x", "y"]})
    empty = write(tmp_path, "empty.csv", {"review": ["x", "y"], "label": ["", ""]})
    for path in (bare, empty):
        assert load_task(TaskSpec(train=train, test=path)).test["test"].labels == (None, None)
    with pytest.raises(TenfoldError, match='no column "label"'):
        load_task(TaskSpec(train=train, dev=bare))


def bad(folder: Path, name: str, **changes: Sequence[Any]) -> str:
    return write(folder, name, {**REVIEWS, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"label": ["yes"] * 40}, "at least two classes, got yes"),
        ({"label": ["yes", *[""] * 39]}, "39 without"),
        ({"label": ["yes", "nan"] * 20}, "20 without"),
        ({"review": ["x"] * 39 + [" "]}, "1 empty cells"),
        ({"review": [*range(40)]}, "text must be strings"),
    ],
)
def test_cells_that_cannot_be(tmp_path: Path, changes: Table, told: str) -> None:
    with pytest.raises(TenfoldError, match=told) as error:
        load_task(TaskSpec(train=bad(tmp_path, "train.jsonl", **changes)))
    assert "\n" not in str(error.value)


def test_too_many_classes_are_no_classes(tmp_path: Path) -> None:
    table: Table = {"text": [f"t {i}" for i in range(70)], "label": [f"name {i}" for i in range(70)]}
    with pytest.raises(TenfoldError, match="70 different values in 70 rows"):
        load_task(TaskSpec(train=write(tmp_path, "train.csv", table)))


def test_labels_of_dev_that_train_lacks(tmp_path: Path) -> None:
    train = write(tmp_path, "train.csv", REVIEWS)
    dev = write(tmp_path, "dev.csv", {"review": ["x", "y"], "label": ["maybe", "yes"]})
    with pytest.raises(TenfoldError, match="labels that train lacks, got maybe"):
        load_task(TaskSpec(train=train, dev=dev))


def test_scores_that_are_none(tmp_path: Path) -> None:
    path = write(tmp_path, "train.csv", {"text": ["a", "b", "c"], "score": ["1.5", "high", "2"]})
    with pytest.raises(TenfoldError, match='got "high" in row 2'):
        load_task(TaskSpec(train=path, kind="regression"))


@pytest.mark.parametrize(
    ("columns", "spec", "told"),
    [
        ({"words": ["a"], "more": ["b"], "verdict": ["x"]}, {}, "give --label-column"),
        ({"words": ["a"], "more": ["b"], "label": ["x"]}, {}, "give --text-column"),
        ({"text": ["a"], "label": ["x"]}, {"text_columns": ("txt",)}, 'did you mean "text"'),
        ({"text": ["a"], "label": ["x"]}, {"label_column": "lable"}, 'did you mean "label"'),
        ({"text": ["a"], "label": ["x"]}, {"text_columns": ("label",), "label_column": "label"}, "column of its own"),
        ({"text": ["a"], "b": ["a"], "c": ["x"]}, {"text_columns": ("text", "b", "c")}, "got 3 text columns"),
    ],
)
def test_columns_that_cannot_be_told(tmp_path: Path, columns: Table, spec: dict[str, Any], told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        load_task(TaskSpec(train=write(tmp_path, "train.csv", columns), **spec))


def test_columns_by_their_usual_names(tmp_path: Path) -> None:
    def columns(*names: str, **spec: Any) -> tuple[tuple[str, ...], str]:
        table: Table = {
            name: [f"{name} {i}" if k < len(names) - 1 else f"{i % 2}" for i in range(40)] for k, name in enumerate(names)
        }
        task = load_task(TaskSpec(train=write(tmp_path, "t.csv", table), **spec)).task
        return task.columns, task.label

    assert columns("id", "Text", "Label") == (("Text",), "Label")
    assert columns("premise", "hypothesis", "gold_label") == (("premise", "hypothesis"), "gold_label")
    assert columns("anything", "stars") == (("anything",), "stars")
    assert columns("text", "verdict", text_columns=("text",)) == (("text",), "verdict")
    assert columns("text", "text_a", "text_b", "y") == (("text_a", "text_b"), "y")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"", "at least one row"),
        ("a.csv", b"text,label\n", "at least one row"),
        ("a.csv", b"text,text\na,b\n", "each once"),
        ("a.csv", b"text,\na,b\n", "each once"),
        ("a.csv", b"text,label\na,b,c\n", "3 cells in row 1"),
        ("a.csv", b'text,label\n"a,b\n', "well-formed"),
        ("a.tsv", b"text\tlabel\na\n", "1 cells in row 1"),
        ("a.csv", "text,label\näh,x\n".encode("latin-1"), "iconv"),
        ("a.csv", "text,label\na,x\n".encode("utf-16"), "UTF-16"),
        ("a.jsonl", b'{"text": 1}\n[1]\n', "a list in line 2"),
        ("a.jsonl", b'{"text": \n', "in line 1"),
        ("a.parquet", b"PAR1 not really", "whole Parquet file"),
        ("a.xlsx", b"x", "must end in"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TenfoldError, match=told) as error:
        read_table(str(tmp_path / name))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TenfoldError, match="no such file"):
        read_table(str(tmp_path / "none.csv"))
