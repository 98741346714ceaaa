"""`tenfold distill`: options to a stage, what it prints, and one line for each mistake."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Ran, ran, run
from distilling import HEADS, student_folder, write_table, write_text
from pico import save_folder

from tenfold.cli.distilling import _merged


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("verb")
    save_folder(place / "teacher", seed=1)
    save_folder(place / "headed", head="sequence_classification", seed=1, **HEADS["classification"])
    save_folder(place / "deep", layers=3)
    save_folder(place / "wide", hidden_size=64)
    words = (save_folder(place / "other") / "tokenizer.json").read_text(encoding="utf-8")
    (place / "other" / "tokenizer.json").write_text(words.replace('"good"', '"goods"'), encoding="utf-8")
    student_folder(place / "student")
    write_text(place / "text.txt")
    write_table(place / "rows.tsv", "classification")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENFOLD_CACHE", str(place / "cache"))
        yield place


SMALL = ("--batch", 8, "--set", "length=32", "--set", "evaluations=2")


def distill(place: Path, *words: object, teacher: str = "teacher", student: str = "student") -> Ran:
    return run("distill", place / student, place / "out", "--teacher", place / teacher, *SMALL, *words)


def test_json_is_one_object(place: Path, tmp_path: Path) -> None:
    words = ("--text", place / "text.txt", "--tokens", 1024, "--set", "held_out=8", "--seed", 3, "--json", *SMALL)
    done = ran("distill", place / "student", tmp_path / "out", "--teacher", place / "teacher", *words)
    assert done.data["steps"] == 4 and done.data["out"] == str(tmp_path / "out")
    assert [row["step"] for row in done.data["curve"]] == [0, 2, 4]


def test_a_task_is_told_in_words(place: Path, tmp_path: Path) -> None:
    words = ("--stage", "task", "--train", place / "rows.tsv", "--kind", "classification", "--epochs", 0.5, *SMALL)
    done = ran("distill", place / "student", tmp_path / "out", "--teacher", place / "headed", *words)
    assert "soft_labels" in done.out and "score" in done.out
    assert "note: no dev split was given" in done.out and "dev: accuracy " in done.out
    assert f"{tmp_path / 'out'}: 4 steps" in " ".join(done.out.split())


def test_only_the_first_of_several_processes_prints(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("tenfold.distillation.running.distill_folder", lambda *_: None)
    words = ("--text", place / "text.txt", "--json")
    assert ran("distill", place / "student", tmp_path / "out", "--teacher", place / "teacher", *words).out == ""


def test_set_reaches_into_sections_and_options_win() -> None:
    found = _merged({"task.dev_share": 0.2, "task.kind": "regression", "lr": 1}, {"task": {"kind": "embedding"}, "lr": 2})
    assert found == {"task": {"dev_share": 0.2, "kind": "embedding"}, "lr": 2}


# Mistakes


def line_of(done: Ran) -> str:
    assert (done.code, done.out) == (2, "")
    [line] = done.err.splitlines()
    assert line.startswith("tenfold: ")
    return line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "the general stage learns from text, got none: give --text FILE"),
        (("--stage", "task"), "the task stage needs a task, got none"),
        (("--stage", "both"), "the recipe key stage is wrong"),
        (("--text", "TEXT", "--task", "rte"), "the general stage takes no task"),
        (("--text", "TEXT", "--epochs", 3), "the general stage takes no epochs"),
        (("--text", "TEXT", "--augment"), "the general stage takes no augment"),
        (("--text", "TEXT", "--preset", "papers"), "the recipe key preset is wrong"),
        (("--text", "TEXT", "--set", "losses=[{name: hiden}]"), 'a loss must be one that exists, got "hiden": did you mean'),
        (("--text", "TEXT", "--set", "losses=[{name: hidden, layers: [7]}]"), "those that the map pairs (1, 2), got 7"),
        (("--text", "TEXT", "--set", "losses=[{name: soft_labels}]"), "logits need a model with a head, got BertModel"),
        (("--text", "TEXT", "--set", "lerning=2"), 'a recipe key must be one that this version knows, got "lerning"'),
        (("--text", "TEXT", "--set", "losses=[{name: hidden"), "--set takes values in YAML, got losses=[{name: hidden: close"),
        (("--text", "nowhere.txt"), "nowhere.txt"),
        (("--text", ""), "text must be a file, a folder, a glob or datasets:NAME, got an empty name"),
        (("--text", "TEXT", "--batch", 4000), "text must fill at least one batch of 4064 rows of 32 tokens"),
        (("--text", "TEXT", "--set", "length=65"), "got length 65 and 64 positions: lower it"),
        (("--text", "TEXT", "--batch", 9, "--micro", 2), "a step's rows must divide into micro-batches"),
        (("--text", "TEXT", "--set", "phases=[{local: true},{local: true}]", "--tokens", 9), "2 phases needs a step, got 1"),
        (("--stage", "task", "--train", "ROWS", "--label-column", "stars"), 'stars'),
        (("--stage", "task", "--train", "ROWS", "--text-column", "review"), 'review'),
        (("--stage", "task", "--train", "ROWS", "--task", "rte"), "either one of GLUE's (--task) or your own rows (--train)"),
        (("--stage", "task", "--train", "ROWS"), "which has no head: tenfold finetune makes one"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(place: Path, words: tuple[object, ...], line: str) -> None:
    names = {"TEXT": place / "text.txt", "ROWS": place / "rows.tsv"}
    found = line_of(distill(place, *(names.get(str(word), word) for word in words)))
    assert line.lower() in found.lower()
    assert not [path for path in place.iterdir() if path.name.startswith("out")], "nothing is left behind"


@pytest.mark.parametrize(
    ("teacher", "words", "line"),
    [
        ("other", (), 'must read the same tokens, got two vocabularies of 89 in which "good" is 13 and absent'),
        ("deep", (), "need a map of layers, got 2 layers of the student and 3 of the teacher and none: give last,"),
        ("deep", ("--set", "map=every-2"), "every-2 pairs layer k with 2 k"),
        ("deep", ("--set", "map={1: 9}"), "a map pairs layers 0 to 2 of the student with 0 to 3 of the teacher, got {1: 9}"),
        ("wide", ("--set", "phases=[{local: true}]"), "got widths 32 of the student and 64 of the teacher: take"),
        ("nowhere/at/all", (), "must be a folder"),
    ],
)  # fmt: skip
def test_models_that_do_not_fit_say_the_options(place: Path, teacher: str, words: tuple[object, ...], line: str) -> None:
    done = distill(place, "--text", place / "text.txt", "--tokens", 256, "--set", "held_out=8", *words, teacher=teacher)
    assert line in line_of(done)


def test_text_that_is_empty_or_no_text_is_refused(place: Path, tmp_path: Path) -> None:
    for name, content in (
        ("empty.txt", b""),
        ("binary.txt", bytes(range(256)) * 40),
        ("half.txt.gz", gzip.compress(b"a" * 9)[:-4]),
    ):
        (tmp_path / name).write_bytes(content)
        assert name in line_of(distill(place, "--text", tmp_path / name))
