"""Tokens are found again while nothing changed, and never taken for those of other text."""

import gzip
import json
import lzma
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pico import CORPUS, tokenizer

from tenfold.errors import TenfoldError
from tenfold.text import Corpus, Settings, build, building, encoding, rows

SHORT = Settings(length=24, pairs=0.4)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.mkdir()
    sentences = [line for k, sentence in enumerate(CORPUS) for line in ([sentence, ""] if k % 8 == 7 else [sentence])]
    (path / "a.txt").write_text("\n".join(sentences[:200]))
    (path / "b.txt.xz").write_bytes(lzma.compress("\n".join(sentences[200:]).encode()))
    return path


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Builds into one cache and says whether anything was tokenised."""
    calls: list[int] = []

    def counted(*args: Any) -> Any:
        calls.append(1)
        return encoding.encode(*args)

    monkeypatch.setattr(building, "encode", counted)

    def run(spec: Any, settings: Settings = SHORT, own: Any = None, **kw: Any) -> bool:
        calls.clear()
        build(spec, own or tokenizer(True), settings, tmp_path / "cache", workers=1, **kw)
        return bool(calls)

    return run


def files(corpus: Corpus) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in corpus.folder.iterdir()}


def test_the_same_again_comes_from_the_cache(text: Path, made: Callable[..., bool], tmp_path: Path) -> None:
    said: list[str] = []
    assert made(text)
    assert not made(text, progress=said.append)
    assert said == [f"tokens from the cache: {next((tmp_path / 'cache').iterdir())}"]
    assert not made([text / "a.txt", text / "b.txt.xz"])
    moved = text.rename(tmp_path / "moved")
    os.utime(moved / "a.txt", (0, 0))
    assert not made(moved)
    used = tokenizer(True)
    used("a cat", truncation=True, padding="max_length", max_length=4)
    assert not made(moved, own=used)


def test_other_content_is_other_text(text: Path, made: Callable[..., bool]) -> None:
    assert made(text)
    file = text / "a.txt"
    content, stat = file.read_text(), file.stat()
    file.write_text(content.replace("cat", "dog"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert made(text)
    file.write_text(content)
    assert not made(text)
    assert made([text / "b.txt.xz", text / "a.txt"])
    same = [text / f"same{suffix}.gz" for suffix in (".txt", ".jsonl")]
    for path in same:
        path.write_bytes(gzip.compress("\n".join(json.dumps({"text": line}) for line in CORPUS).encode()))
    assert made(same[0])
    assert made(same[1])


def test_another_tokenizer_makes_other_tokens(text: Path, made: Callable[..., bool]) -> None:
    assert made(text)
    assert made(text, own=tokenizer(False))
    more, other_pad, split = (tokenizer(True) for _ in range(3))
    more.add_tokens(["cat"])
    other_pad.pad_token = "[MASK]"
    split.split_special_tokens = True
    assert all(made(text, own=own) for own in (more, other_pad, split))


def test_every_setting_counts(text: Path, made: Callable[..., bool]) -> None:
    assert made(text)
    changes: dict[str, Any] = {"length": 25, "mode": "paragraph", "pairs": 0.5, "limit": 500, "key": "body", "seed": 1}
    assert set(changes) == set(SHORT.as_dict())
    for name, value in changes.items():
        assert made(text, replace(SHORT, **{name: value})), name


@pytest.mark.parametrize("name", ["tokens.bin", "rows.bin", "meta.json"])
@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: os.truncate(path, path.stat().st_size // 2)])
def test_a_damaged_cache_is_made_again(
    text: Path, made: Callable[..., bool], tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    assert made(text)
    folder = next((tmp_path / "cache").iterdir())
    before = files(Corpus(folder))
    damage(folder / name)
    said: list[str] = []
    assert made(text, progress=said.append)
    assert said[0] == f"warning: the tokens in the cache are damaged, making them again: {folder}"
    assert files(Corpus(folder)) == before
    assert list((tmp_path / "cache").iterdir()) == [folder]


def test_text_that_changes_meanwhile_is_refused(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def meddle(*args: Any) -> Any:
        (text / "a.txt").write_text("something else")
        return rows.plan_rows(*args)

    monkeypatch.setattr(building, "plan_rows", meddle)
    with pytest.raises(TenfoldError, match=r"must not change while it is read, got a change in .*a\.txt: start again"):
        build(text, tokenizer(), SHORT, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_who_made_the_same_first_wins(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = build(text, tokenizer(), SHORT, tmp_path / "other").folder
    first = tmp_path / "cache" / other.name

    def be_late(*args: Any) -> Any:
        shutil.copytree(other, first)
        (first / "by another process").touch()
        return rows.plan_rows(*args)

    monkeypatch.setattr(building, "plan_rows", be_late)
    assert build(text, tokenizer(), SHORT, tmp_path / "cache").folder == first
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    assert (first / "by another process").exists()


def test_where_the_cache_is(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path / "mine"))
    assert build(text, tokenizer(), SHORT).folder.parent == tmp_path / "mine" / "corpora"
    monkeypatch.delenv("TENFOLD_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build(text, tokenizer(), SHORT).folder.parent == tmp_path / ".cache" / "tenfold" / "corpora"


def test_a_dataset_is_cached_by_its_content(made: Callable[..., bool], tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason="the optional package datasets is not there")
    (tmp_path / "local").mkdir()
    lines = [json.dumps({"text": sentence}) for sentence in CORPUS]
    (tmp_path / "local" / "train.jsonl").write_text("\n".join(lines))
    spec = f"datasets:{tmp_path / 'local'}"
    assert made(spec)
    assert not made(spec)
    (tmp_path / "local" / "train.jsonl").write_text("\n".join(lines[:300]))
    assert made(spec)
