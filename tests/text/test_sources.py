"""Files, folders, globs and datasets by name."""

import json
import os
import sys
from pathlib import Path

import pytest

from tenfold.errors import TenfoldError
from tenfold.text import sources
from tenfold.text.sources import NamedDataset


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.md", "sub/c.jsonl", "sub/d.txt.xz", ".hidden/e.txt", "sub/.f.txt", "picture.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n")
    return tmp_path


def names(folder: Path, *spec: str) -> list[str]:
    return [os.path.relpath(source.name, folder) for source in sources([str(folder / one) for one in spec])]


def test_folders_are_walked_and_sorted(folder: Path) -> None:
    assert names(folder, "") == ["a.md", "b.txt", "sub/c.jsonl", "sub/d.txt.xz"]
    assert [source.name for source in sources(folder)] == [source.name for source in sources(str(folder))]


def test_globs_match_files_and_folders(folder: Path) -> None:
    assert names(folder, "*.txt") == ["b.txt"]
    assert names(folder, "**/*.txt*") == ["b.txt", "sub/d.txt.xz"]
    assert names(folder, "su*") == ["sub/c.jsonl", "sub/d.txt.xz"]
    assert names(folder, "[b]*") == ["b.txt"]


def test_a_list_keeps_its_order_and_names_each_file_once(folder: Path) -> None:
    assert names(folder, "sub", "b.txt", "*.txt", "picture.png") == ["sub/c.jsonl", "sub/d.txt.xz", "b.txt", "picture.png"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nowhere.txt", "there is no such file"),
        ("*.zip", 'must match at least one file, got ".*zip"'),
        ("empty", r"hold files that end in .txt, .md, .jsonl, .gz, .xz, .zst, got none in .*empty: name the files"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, spec: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TenfoldError, match=message):
        sources(tmp_path / spec)


def test_nothing_at_all() -> None:
    with pytest.raises(TenfoldError, match="at least one file, folder, glob or datasets:NAME, got nothing"):
        sources([])


@pytest.mark.parametrize("spec", ["datasets:", "datasets::train", "datasets:a:b:c:d:e"])
def test_the_form_of_a_dataset_name(spec: str) -> None:
    with pytest.raises(TenfoldError, match=rf"datasets:NAME\[:CONFIG\]\[:SPLIT\]\[:COLUMN\], got {spec}"):
        sources(spec)


def test_without_datasets_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(TenfoldError, match=r"datasets:a needs the package datasets, got none .*: pip install datasets"):
        list(sources("datasets:a")[0])


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    pytest.importorskip("datasets", reason="the optional package datasets is not there")
    rows = [{"text": "One.\nTwo.", "title": "A"}, {"text": "Three.", "title": "B"}]
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "test.jsonl").write_text(json.dumps(rows[1]))
    return folder


def test_a_dataset_gives_a_document_a_row(dataset: Path) -> None:
    assert list(NamedDataset(f"datasets:{dataset}")) == ["One.", "Two.", "", "Three.", ""]
    assert list(NamedDataset(f"datasets:{dataset}::test")) == ["Three.", ""]
    assert list(NamedDataset(f"datasets:{dataset}:default:train:title")) == ["A", "", "B", ""]


def test_a_dataset_is_known_by_its_content(dataset: Path) -> None:
    prints = [NamedDataset(f"datasets:{dataset}{rest}").fingerprint() for rest in ("", "", "::test", ":::title")]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3
    file = dataset / "train.jsonl"
    before = file.stat()
    file.write_text(file.read_text().replace("Three", "Seven"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert NamedDataset(f"datasets:{dataset}").fingerprint() != prints[0]


def test_a_dataset_that_cannot_be_had_is_named(dataset: Path) -> None:
    for rest, message in {
        ":::body": r'in the column "body", got datasets:.* with the columns text, title',
        "::valid": r"must load, got datasets:.*::valid: .*valid",
        ":other": r"must load, got datasets:.*:other: .*other",
    }.items():
        with pytest.raises(TenfoldError, match=message) as caught:
            list(NamedDataset(f"datasets:{dataset}{rest}"))
        assert "\n" not in str(caught.value)
