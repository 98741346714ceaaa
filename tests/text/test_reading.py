"""Passages out of files of every suffix, and what is said about files that are none."""

import gzip
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tenfold.errors import TenfoldError
from tenfold.text import passages, reading
from tenfold.text.reading import LONGEST, TextFile

TEXT = "First article.\nIts second line, with é and 中.\n\n\n  Second article.  \n"
LINES = ["First article.", "Its second line, with é and 中.", "Second article."]
RECORDS = [{"text": "First article.\nIts second line, with é and 中."}, {"text": "Second article.", "other": 1}]
JSONL = "\n".join(map(json.dumps, RECORDS)) + "\n\n"


def zst(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard", reason="the optional package zstandard is not there")
    half = len(data) // 2
    return zstandard.compress(data[:half]) + zstandard.compress(data[half:])


PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zst}


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def documents(path: Path) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for passage in TextFile(path):
        if passage:
            found[-1].append(passage)
        elif found[-1]:
            found.append([])
    return [document for document in found if document]


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize(("suffix", "content"), [(".txt", TEXT), (".md", TEXT), ("", TEXT), (".jsonl", JSONL)])
def test_every_suffix_gives_the_same_passages(tmp_path: Path, suffix: str, packing: str, content: str) -> None:
    path = write(tmp_path / f"a.b{suffix}{packing}", PACK[packing](content.encode()))
    assert list(passages(path)) == LINES
    assert documents(path) == [LINES[:2], LINES[2:]]


@pytest.mark.parametrize("content", ["\ufeff" + TEXT, TEXT.replace("\n", "\r\n"), TEXT.replace("\n", "\r"), TEXT.strip()])
def test_the_ways_in_which_editors_save(tmp_path: Path, content: str) -> None:
    assert documents(write(tmp_path / "a.txt", content)) == [LINES[:2], LINES[2:]]


@pytest.mark.parametrize("block", [1, 2, 7])
def test_passages_do_not_depend_on_how_much_is_read_at_once(
    tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BLOCK", block)
    assert documents(write(tmp_path / "a.txt", TEXT.replace("\n", "\r\n"))) == [LINES[:2], LINES[2:]]


@pytest.mark.parametrize("packing", ["", ".xz"])
def test_a_file_of_one_line_is_cut_at_spaces(tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"word{i}" for i in range(20_000)]
    text = " ".join(words)
    whole = list(passages(write(tmp_path / f"a.txt{packing}", PACK[packing](text.encode()))))
    assert max(map(len, whole)) <= LONGEST
    assert " ".join(whole).split() == words
    monkeypatch.setattr(reading, "_BLOCK", 1000)
    assert list(passages(tmp_path / f"a.txt{packing}")) == whole
    assert list(passages(write(tmp_path / "a.jsonl", json.dumps({"text": text})))) == whole
    assert "".join(passages(write(tmp_path / "b.txt", "x" * 200_000))) == "x" * 200_000


def test_how_much_was_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt.gz", gzip.compress(TEXT.encode()))
    file = TextFile(path)
    assert (file.read, file.size) == (0, path.stat().st_size)
    assert list(file)
    assert file.read == file.size


def test_text_under_another_key(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"body": "Hello"}\n')
    assert list(passages(path, "body")) == ["Hello"]
    with pytest.raises(TenfoldError, match=r'text under "text", got the keys body in line 1 of .*a\.jsonl: set key'):
        list(passages(path))


def test_half_a_character_in_json_is_replaced(tmp_path: Path) -> None:
    assert list(passages(write(tmp_path / "a.jsonl", r'{"text": "a \ud83d b \u00e9"}'))) == ["a ? b é"]


GZ, XZ = gzip.compress(TEXT.encode() * 50), lzma.compress(TEXT.encode() * 50)
BAD: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.txt", b"", "at least one line of text, got an empty one"),
    "blank": ("a.txt", b" \n\n\t\n", "at least one line of text, got an empty one"),
    "empty gz": ("a.gz", gzip.compress(b""), "at least one line of text, got an empty one"),
    "no records": ("a.jsonl", b'{"text": " "}', "at least one line of text, got an empty one"),
    "zero bytes": ("a.txt", b"text\0text", "got zero bytes in .*: is it a binary file, or UTF-16?"),
    "UTF-16": ("a.txt", TEXT.encode("utf-16"), "got zero bytes in .*: is it a binary file, or UTF-16?"),
    "picture": ("a.txt", b"\x89PNG\r\n\x1a\n", "must be UTF-8, got .* at byte 0"),
    "latin-1": ("a.txt", "na\u00efve".encode("latin-1"), "must be UTF-8, got .* at byte 2.: convert it first"),
    "late latin-1": ("a.txt", b"x\n" * 2_000_000 + b"\xe9\n", "at byte 4000000.: convert"),
    "half a character": ("a.txt", "a é".encode()[:-1], "must be UTF-8, got .* at byte 2"),
    "cut gz": ("a.gz", GZ[:-9], "compressed text file must be whole"),
    "bad gz": ("a.gz", GZ[:12] + b"\xff" * 9 + GZ[21:], "compressed text file must be whole"),
    "no gz": ("a.gz", TEXT.encode(), "compressed text file must be whole"),
    "cut xz": ("a.xz", XZ[:-9], "compressed text file must be whole"),
    "no xz": ("a.xz", TEXT.encode(), "compressed text file must be whole"),
    "no JSON": ("a.jsonl", b'{"text": "a"}\n{"text"\n', "got no JSON in line 2 of"),
    "a huge number": ("a.jsonl", b'{"text": ' + b"1" * 5000 + b"}", "got no JSON in line 1 of"),
    "a list": ("a.jsonl", b'["a"]\n', "must be an object .*, got a list in line 1 of"),
    "a number": ("a.jsonl", b'{"text": 1}\n', 'an object with text under "text", got the keys text'),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_in_one_line(tmp_path: Path, name: str) -> None:
    file, data, message = BAD[name]
    with pytest.raises(TenfoldError, match=message) as caught:
        list(passages(write(tmp_path / file, data)))
    assert str(tmp_path / file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_zst_file_is_named(tmp_path: Path) -> None:
    data = zst(TEXT.encode() * 50)
    for damaged in (data[:-5], b"\x28\xb5\x2f\xfd" + b"\xff" * 40, TEXT.encode()):
        with pytest.raises(TenfoldError, match=r"compressed text file must be whole, got .*a\.zst"):
            list(passages(write(tmp_path / "a.zst", damaged)))


def test_without_zstandard_the_install_line_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(TenfoldError, match=r"needs the package zstandard, got none .*: pip install zstandard"):
        list(passages(write(tmp_path / "a.zst", b"...")))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TenfoldError, match=r"must be readable, got .*nowhere\.txt: No such file"):
        list(passages(tmp_path / "nowhere.txt"))
