"""GLUE out of its official folder: real files against their known counts, and every oddity of the format."""

import os
from functools import cache
from pathlib import Path

import pytest
from glue_files import HEADERS, write_task_files

from tenfold.errors import TenfoldError
from tenfold.tasks import TaskData, TaskSpec, duplicates, glue, load_task

COUNTS = {
    "cola": (8551, 1043, 1063),
    "mrpc": (3668, 408, 1725),
    "rte": (2490, 277, 3000),
    "sst2": (67349, 872, 1821),
    "stsb": (5749, 1500, 1379),
    "wnli": (635, 71, 146),
}
ROWS = {"train": 12, "dev": 6, "test": 4}


@cache
def real(name: str) -> TaskData:
    if "TENFOLD_DATA" not in os.environ:
        pytest.skip("TENFOLD_DATA names no folder with GLUE")
    return load_task(TaskSpec(task=name, data_dir=str(Path(os.environ["TENFOLD_DATA"]) / "data/glue")))


@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files_hold_the_published_numbers_of_rows(name: str) -> None:
    data = real(name)
    task, (dev,), (test,) = data.task, data.dev.values(), data.test.values()
    assert (len(data.train), len(dev), len(test)) == COUNTS[name]
    assert len(test) == sum(glue()[name].test_rows.values())
    assert {*test.labels} == {None}
    for rows in (data.train, dev, test):
        assert all(len(texts) == len(task.columns) and all(texts) for texts in rows.texts)
        assert not any(
            "\t" in text or text != text.strip() or text.startswith("\ufeff") for texts in rows.texts for text in texts
        )
    if task.kind == "regression":
        assert all(isinstance(label, float) and 0 <= label <= 5 for label in (*data.train.labels, *dev.labels))
    else:
        assert {*data.train.labels} == {*dev.labels} == {*range(len(task.labels))}


@pytest.mark.parametrize(
    ("name", "first", "label"),
    [
        ("cola", "Our friends won't buy this analysis, let alone the next one we propose.", 1),
        ("sst2", "hide new secretions from the parental units", 0),
        ("rte", "No Weapons of Mass Destruction Found in Iraq Yet.", 1),
        ("stsb", "A plane is taking off.", 5.0),
    ],
)
def test_the_first_real_row(name: str, first: str, label: float) -> None:
    rows = real(name).train
    assert (rows.texts[0][0], rows.labels[0]) == (first, label)


@pytest.mark.parametrize(("name", "lines"), [("mrpc", 169), ("rte", 13), ("stsb", 41), ("wnli", 2)])
def test_quotes_in_real_files_are_letters_like_others(name: str, lines: int) -> None:
    """So many lines open a quote that they never close; a CSV reader would swallow the next ones."""
    rows = real(name).train
    assert sum(sum(text.count('"') for text in texts) % 2 for texts in rows.texts) == lines


def test_rows_of_dev_that_were_seen_in_training_are_counted() -> None:
    """WNLI's dev is known for it: the same sentences with other answers."""
    data = real("cola")
    found = duplicates(data.dev["dev"], data.train)
    seen = set(data.train.texts)
    assert found.exact == sum(texts in seen for texts in data.dev["dev"].texts)
    assert any(f"{found.normalised} of 1043 rows" in note for note in data.notes) == (found.normalised > 0)


@pytest.mark.parametrize("name", HEADERS)
def test_every_task_in_its_official_layout(name: str, tmp_path: Path) -> None:
    row, spec = glue()[name], TaskSpec(task=name, data_dir=str(write_task_files(tmp_path, name, ROWS)))
    data = load_task(spec)
    assert len(data.train) == (ROWS["train"] if name != "ax" else 0)
    assert {**data.dev} == {split: data.dev[split] for split in row.files["dev"]}
    assert [len(rows) for rows in data.dev.values()] == [ROWS["dev"]] * len(row.files["dev"])
    assert [len(rows) for rows in data.test.values()] == [ROWS["test"]] * len(row.files["test"])
    for rows in (data.train, *data.dev.values()):
        expected = [i % len(row.spelling) if row.spelling else float(f"{(i * 0.7) % 5:.3f}") for i in range(len(rows))]
        assert list(rows.labels) == expected
        assert all(len(texts) == len(row.task.columns) and " " in texts[-1] for texts in rows.texts)


def test_matched_and_mismatched_are_kept_apart(tmp_path: Path) -> None:
    data = load_task(TaskSpec(task="MNLI", data_dir=str(write_task_files(tmp_path, "mnli", ROWS))))
    assert [*data.dev] == [*data.test] == ["matched", "mismatched"]
    assert data.dev["matched"].texts != data.dev["mismatched"].texts
    assert data.test["matched"].texts != data.test["mismatched"].texts


def test_mrpc_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    folder = write_task_files(tmp_path, "mrpc", ROWS)
    plain = load_task(TaskSpec(task="mrpc", data_dir=str(folder)))
    for file in (folder / "MRPC").iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert load_task(TaskSpec(task="mrpc", data_dir=str(folder))) == plain


def test_other_line_separators_are_text(tmp_path: Path) -> None:
    folder = write_task_files(tmp_path, "sst2", ROWS)
    odd = 'a "film\u2028and\x85a\x0cstory\t1\n'
    with (folder / "SST-2/train.tsv").open("a", encoding="utf-8", newline="") as file:
        file.write(odd)
    assert load_task(TaskSpec(task="sst2", data_dir=str(folder))).train.texts[-1][0] == odd.split("\t")[0]


def test_the_tasks_own_folder_may_be_named(tmp_path: Path) -> None:
    folder = write_task_files(tmp_path, "rte", ROWS)
    assert len(load_task(TaskSpec(task="rte", data_dir=str(folder / "RTE"))).train) == ROWS["train"]


def test_short_lines_of_train_are_left_out_and_said(tmp_path: Path) -> None:
    folder = write_task_files(tmp_path, "qqp", ROWS)
    with (folder / "QQP/train.tsv").open("a", encoding="utf-8") as file:
        file.write("7\t8\t9\tonly a question\n")
    data = load_task(TaskSpec(task="qqp", data_dir=str(folder)))
    assert len(data.train) == ROWS["train"]
    assert "1 lines of train.tsv lack columns and were left out" in data.notes


def damage(folder: Path, how: str) -> None:
    train, dev = folder / "RTE/train.tsv", folder / "RTE/dev.tsv"
    text = train.read_text(encoding="utf-8")
    if how == "latin-1":
        train.write_bytes(text.replace("a", "\xe4").encode("latin-1"))
    elif how == "label":
        train.write_text(text.replace("not_entailment", "contradiction", 1), encoding="utf-8")
    elif how == "column":
        train.write_text(text.replace("sentence1", "premise", 1), encoding="utf-8")
    elif how == "short dev":
        dev.write_text(dev.read_text(encoding="utf-8") + "9\tonly one\n", encoding="utf-8")
    elif how == "one class":
        lines = text.splitlines()
        train.write_text("\n".join(line for line in lines if not line.endswith("not_entailment")), encoding="utf-8")
    else:
        dev.unlink()


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("latin-1", "UTF-8"),
        ("label", 'got "contradiction" in line 3'),
        ("column", 'column "sentence1"'),
        ("short dev", "in line 8"),
        ("one class", "got none for not_entailment"),
        ("no dev", "needs dev.tsv"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, how: str, told: str) -> None:
    folder = write_task_files(tmp_path, "rte", ROWS)
    damage(folder, how)
    with pytest.raises(TenfoldError, match=told) as error:
        load_task(TaskSpec(task="rte", data_dir=str(folder)))
    assert "\n" not in str(error.value)


def test_a_folder_without_the_task_lists_what_it_has(tmp_path: Path) -> None:
    write_task_files(tmp_path, "rte", ROWS)
    with pytest.raises(TenfoldError, match="which has RTE"):
        load_task(TaskSpec(task="sst2", data_dir=str(tmp_path)))
    with pytest.raises(TenfoldError, match="no such folder"):
        load_task(TaskSpec(task="sst2", data_dir=str(tmp_path / "none")))


def test_a_score_that_is_no_number(tmp_path: Path) -> None:
    folder = write_task_files(tmp_path, "stsb", ROWS)
    file = folder / "STS-B/dev.tsv"
    file.write_text(file.read_text(encoding="utf-8").replace("0.700", "high"), encoding="utf-8")
    with pytest.raises(TenfoldError, match='got "high" in line 3'):
        load_task(TaskSpec(task="stsb", data_dir=str(folder)))
