"""The same text gives the same rows, and text that gives none is refused."""

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pico import CORPUS, tokenizer

from tenfold.errors import TenfoldError
from tenfold.text import Corpus, Settings, build, building, encoding, sources

SHORT = Settings(length=24, pairs=0.4)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.mkdir()
    sentences = [line for k, sentence in enumerate(CORPUS) for line in ([sentence, ""] if k % 8 == 7 else [sentence])]
    (path / "a.txt").write_text("\n".join(sentences[:200]))
    (path / "b.txt.xz").write_bytes(lzma.compress("\n".join(sentences[200:]).encode()))
    return path


def files(corpus: Corpus) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in corpus.folder.iterdir()}


def test_any_number_of_workers_gives_the_same_bytes(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_CHUNK", 200)
    found = [files(build(text, tokenizer(), SHORT, tmp_path / str(workers), workers)) for workers in (1, 2, 5)]
    monkeypatch.setattr(encoding, "_CHUNK", 1 << 20)
    found.append(files(build(text, tokenizer(), SHORT, tmp_path / "whole")))
    assert set(found[0]) == {"tokens.bin", "rows.bin", "meta.json"}
    assert found[0] == found[1] == found[2] == found[3]


def test_the_tokens_are_those_of_the_text(text: Path, tmp_path: Path) -> None:
    own = tokenizer()
    tokens = np.fromfile(build(text, own, SHORT, tmp_path / "cache").folder / "tokens.bin", np.uint16)
    assert tokens.tolist() == own(" ".join(CORPUS), add_special_tokens=False)["input_ids"]


def test_a_document_ends_with_its_file_and_reading_with_the_last_byte(text: Path) -> None:
    found = list(building._chunks(sources(text)))
    assert len(found) == 2
    assert all(chunk.texts[-1] == "" for chunk in found)
    assert [chunk.read for chunk in found] == [(text / "a.txt").stat().st_size, sum(p.stat().st_size for p in text.iterdir())]


def test_the_limit_is_exact(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_CHUNK", 100)
    whole = np.fromfile(build(text, tokenizer(), SHORT, tmp_path / "cache").folder / "tokens.bin", np.uint16)
    for limit in (22, 501, len(whole), 10**9):
        corpus = build(text, tokenizer(), Settings(24, limit=limit), tmp_path / "cache")
        tokens = np.fromfile(corpus.folder / "tokens.bin", np.uint16)
        assert tokens.tolist() == whole[:limit].tolist()
        assert len(corpus) == len(tokens) // 22


def test_text_shorter_than_a_row(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat sees a dog.")
    message = r"at least one row of 24 tokens, got 6 tokens from .*a\.txt: give more text, a smaller length, or mode"
    with pytest.raises(TenfoldError, match=message):
        build(tmp_path / "a.txt", tokenizer(), Settings(24), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    assert len(build(tmp_path / "a.txt", tokenizer(), Settings(24, "paragraph"), tmp_path / "cache")) == 1


def test_an_empty_file_leaves_no_cache(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(TenfoldError, match="got an empty one"):
        build(tmp_path / "a.txt", tokenizer(), SHORT, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "pakced"}, 'packed or paragraph, got "pakced": did you mean "packed"?'),
        ({"pairs": 1.5}, "pairs must be a share from 0 to 1, got 1.5"),
        ({"length": 0}, "length must be at least 1 token, got 0"),
        ({"limit": 0}, "limit must be at least 1 token, got 0"),
        ({"length": 4}, "room for special tokens and text, at least 5 tokens, got length 4"),
    ],
)
def test_settings_that_cannot_be(text: Path, tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TenfoldError, match=message):
        build(text, tokenizer(), Settings(**settings), tmp_path / "cache")


def test_no_workers(text: Path, tmp_path: Path) -> None:
    with pytest.raises(TenfoldError, match="workers must be at least 1, got 0: leave them out for all cores"):
        build(text, tokenizer(), SHORT, tmp_path / "cache", workers=0)
