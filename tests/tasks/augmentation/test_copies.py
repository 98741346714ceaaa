"""Copies: what stays, what changes and how often; the same for the same seed; found again on disk."""

import re
from pathlib import Path
from typing import Any

import pytest
from command import ran, run
from pico import CORPUS, pico, save_folder, tokenizer

from tenfold.errors import TenfoldError
from tenfold.tasks import AugmentSpec, Rows, Task
from tenfold.tasks import augmentation as package
from tenfold.tasks.augmentation import Sources, augment, augmented, choose, usual_copies
from tenfold.tasks.augmentation.copying import make_copies
from tenfold.tasks.augmentation.words import words
from tenfold.tasks.tables import read_table

TASK = Task("own", "classification", ("sentence1", "sentence2"), "label", ("no", "yes"), ("accuracy",))
TEXTS = tuple((CORPUS[i], f"{CORPUS[i + 1]} Not in 1999, never!") for i in range(0, 24, 2))
ROWS = Rows(TEXTS, (0, 1) * 6)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "augmented"


@pytest.fixture(scope="module")
def masked() -> Any:
    return pico("bert", "masked_lm")


@pytest.fixture(scope="module")
def sources(masked: Any) -> Sources:
    return choose(AugmentSpec(), tokenizer(), masked, "pico")


def fixed(text: str) -> list[str]:
    """What may not change: the text without its replaceable words."""
    parts, at = [], 0
    for word in words(text):
        parts.append(text[at : word.start])
        at = word.end
    return [*parts, text[at:]]


def test_all_but_replaceable_words_survives(sources: Sources) -> None:
    """Stop words, numbers and punctuation stand where they stood; what is put in between are words."""
    made = make_copies(TEXTS, AugmentSpec(copies=5, p=1), sources)
    assert len(made) == 5 * len(TEXTS)
    for copy, origin in zip(made.texts, made.origin, strict=True):
        for new, old in zip(copy, TEXTS[origin], strict=True):
            pattern = r"[^\W\d]+".join(map(re.escape, fixed(old)))
            assert re.fullmatch(pattern, new), (old, new)
            assert len(words(new)) == len(words(old))
            assert all(a.text != b.text for a, b in zip(words(new), words(old), strict=True))


def test_every_word_is_replaced_with_probability_p(sources: Sources) -> None:
    rows = [(" ".join(CORPUS[i : i + 4]),) for i in range(0, 40, 4)]
    made = make_copies(rows, AugmentSpec(copies=30, p=0.4), sources)
    pairs = [
        (old.text, new.text)
        for (copy,), origin in zip(made.texts, made.origin, strict=True)
        for old, new in zip(words(rows[origin][0]), words(copy), strict=True)
    ]
    assert len(pairs) > 5000
    assert sum(old != new for old, new in pairs) / len(pairs) == pytest.approx(0.4, abs=0.02)


def test_candidates_are_those_of_the_sources(sources: Sources) -> None:
    """Two for each word: with every word replaced, no more than two different words stand in any place."""
    made = make_copies([("the old cat sees a house",)], AugmentSpec(copies=50, p=1, candidates=2), sources)
    seen = [{word.text for word in column} for column in zip(*(words(text) for (text,) in made.texts), strict=True)]
    assert len(seen) == 4
    assert [len(each) for each in seen] == [2] * 4
    assert len(made) == 2**4


def test_copies_differ_from_the_row_and_from_each_other(sources: Sources) -> None:
    made = make_copies(TEXTS, AugmentSpec(copies=8, p=0.1), sources)
    assert len({*zip(made.texts, made.origin, strict=True)}) == len(made)
    assert all(copy != TEXTS[origin] for copy, origin in zip(made.texts, made.origin, strict=True))
    assert max(made.origin.count(row) for row in range(len(TEXTS))) <= 8
    assert list(made.origin) == sorted(made.origin)


def test_the_seed_and_the_row_make_a_copy(sources: Sources) -> None:
    spec = AugmentSpec(copies=3)
    first = make_copies(TEXTS, spec, sources)
    assert make_copies(TEXTS, spec, sources) == first
    assert make_copies(TEXTS, AugmentSpec(copies=3, seed=1), sources) != first
    other = make_copies([*TEXTS[:5], ("a cat", "a dog")], spec, sources)
    many = len([row for row in first.origin if row < 5])
    assert other.texts[:many] == first.texts[:many]


@pytest.mark.parametrize(
    ("rows", "copies"),
    [(8551, 30), (3668, 30), (5749, 30), (2490, 30), (67349, 20), (104743, 20), (363846, 10), (392702, 10)],
)
def test_copies_of_the_glue_tasks_are_those_of_tinybert(rows: int, copies: int) -> None:
    """cola, mrpc, stsb, rte, sst2, qnli, qqp, mnli, as its data_augmentation.py has them."""
    assert usual_copies(rows) == copies


def test_augmented_rows_have_no_label(masked: Any) -> None:
    made = augment(ROWS, TASK, AugmentSpec(copies=2), tokenizer(), masked)
    assert len(made) == 24
    assert {*made.labels} == {None}


def test_a_classifier_and_words_of_several_pieces() -> None:
    rows = Rows((("cats and zebras",),), (0,))
    made = augment(rows, TASK, AugmentSpec(copies=4, p=1), tokenizer(), pico("bert", "sequence_classification"))
    assert len(made) == 4
    assert all(re.fullmatch(r"[a-z]+ and zebras", text) and not text.startswith("cats") for (text,) in made.texts)


def test_the_cache_is_found_by_content(masked: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = AugmentSpec(copies=2)
    first = augment(ROWS, TASK, spec, tokenizer(), masked)
    assert len([*cache.iterdir()]) == 1

    class Asked(Exception):
        pass

    def refuse(*_: Any) -> Any:
        raise Asked

    monkeypatch.setattr(package, "make_copies", refuse)
    assert augment(ROWS, TASK, spec, tokenizer(), masked) == first
    assert augment(ROWS.unlabelled(), TASK, spec, tokenizer(), pico("bert", "masked_lm")) == first
    others: list[tuple[Rows, AugmentSpec, Any]] = [
        (ROWS.take(range(11)), spec, masked),
        (ROWS, AugmentSpec(copies=2, p=0.5), masked),
        (ROWS, AugmentSpec(copies=3), masked),
        (ROWS, AugmentSpec(copies=2, candidates=3), masked),
        (ROWS, AugmentSpec(copies=2, seed=1), masked),
        (ROWS, spec, pico("bert", "masked_lm", seed=1)),
        (ROWS, spec, pico("bert")),
    ]
    for rows, asked, model in others:
        with pytest.raises(Asked):
            augment(rows, TASK, asked, tokenizer(), model)


def test_a_damaged_cache_is_made_again(masked: Any, cache: Path) -> None:
    spec = AugmentSpec(copies=2)
    first = augment(ROWS, TASK, spec, tokenizer(), masked)
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    assert augment(ROWS, TASK, spec, tokenizer(), masked) == first
    assert file.stat().st_size > 100


def test_rows_without_a_word_to_replace_are_refused(sources: Sources, cache: Path) -> None:
    with pytest.raises(TenfoldError, match="got none in the 1 rows"):
        augmented(Rows((("not 1999",),), (0,)), TASK, AugmentSpec(), sources)
    assert not cache.exists()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table of the user's and a model."""
    folder = tmp_path_factory.mktemp("given")
    table = folder / "train.tsv"
    lines = ["text\tlabel", *(f"{text}\t{'no' if i % 2 else 'yes'}" for i, text in enumerate(CORPUS[:40]))]
    table.write_text("\n".join(lines), encoding="utf-8")
    return table, save_folder(folder / "model", "bert", "masked_lm")


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "jsonl"])
def test_the_table_says_which_row_a_copy_came_from(given: tuple[Path, Path], tmp_path: Path, suffix: str) -> None:
    table, model = given
    out = tmp_path / "sub" / f"aug.{suffix}"
    words_ = ["augment", "--train", table, "--dev", table, "--model", model, "--copies", 2, "--seed", 3, "--out", out]
    told = ran(*words_, "--json").data
    columns = read_table(str(out))
    assert list(columns) == ["from_row", "text"]
    assert (told["rows"], told["copies"]) == (40, len(columns["text"]))
    assert told["sources"]["single"] == "masked LM (model)"
    for row, text in zip(columns["from_row"], columns["text"], strict=True):
        assert len(words(text)) == len(words(CORPUS[int(row)]))
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    assert "copies of 40 rows" in ran(*words_, "--force").out


def test_what_the_verb_refuses(given: tuple[Path, Path], tmp_path: Path) -> None:
    table, model = given
    (tmp_path / "there.csv").touch()
    fine = ["--train", table, "--model", model, "--out", tmp_path / "aug.csv"]
    for words_, told in [
        (["--train", table, "--model", model, "--out", tmp_path / "aug.xlsx"], "must end in"),
        (["--train", table, "--model", model, "--out", tmp_path / "there.csv"], "--force"),
        (["--task", "sst3", "--model", model, "--out", tmp_path / "aug.csv"], 'did you mean "sst2"'),
        (["--model", model, "--out", tmp_path / "aug.csv"], "got neither"),
        ([*fine, "--p", "0"], "p is wrong"),
        ([*fine, "--copies", "0"], "copies is wrong"),
        ([*fine, "--words", "elmo"], "words is wrong"),
        ([*fine, "--label-column", "labell"], 'did you mean "label"'),
    ]:
        done = run("augment", *words_)
        assert (done.code, done.err.count("\n"), told in done.err) == (2, 1, True), done.err
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]
