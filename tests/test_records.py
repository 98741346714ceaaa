"""History travels with a folder; a broken file is the user's to mend."""

from pathlib import Path

import pytest

from tenfold.errors import CheckpointError
from tenfold.records import HISTORY, digest, history, read_json, stamp, write_history, write_json


def test_entries_are_kept_in_order(tmp_path: Path) -> None:
    assert history(tmp_path) == []
    write_history(tmp_path, history(tmp_path), stamp("compress", method="III-4"))
    write_history(tmp_path, history(tmp_path), stamp("distill", tokens=10))
    entries = history(tmp_path)
    assert [(entry["verb"], entry.get("method"), entry.get("tokens")) for entry in entries] == [
        ("compress", "III-4", None),
        ("distill", None, 10),
    ]
    assert entries[0]["versions"].keys() >= {"tenfold", "torch", "transformers"}
    assert [path.name for path in tmp_path.iterdir()] == [HISTORY]


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"no": "verb"}]'])
def test_a_broken_history_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / HISTORY).write_text(text)
    with pytest.raises(CheckpointError, match=r"history\.json must"):
        history(tmp_path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"a": object()})
    assert read_json(tmp_path / "x.json") == {"a": 1}


def test_a_digest_changes_with_content_only(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("1")
    b.write_text("1")
    assert digest([a]) == digest([b]) != digest([a, b])
