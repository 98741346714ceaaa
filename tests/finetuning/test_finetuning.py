"""A task learnt from its labels: the best cell is kept, all are told, what is done is not done again, OUT is whole."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from command import ran, run
from labelled import classes, pairs, write
from pico import pico, save_folder, sentence_folder
from transformers import AutoModelForSequenceClassification

import tenfold
from tenfold.checkpoints import find
from tenfold.errors import Interrupted, TenfoldError
from tenfold.finetuning import running
from tenfold.finetuning.cell import Cell, train
from tenfold.finetuning.material import prepare
from tenfold.finetuning.running import finetune_folder
from tenfold.finetuning.settings import Finetune, parse_finetune
from tenfold.records import history, read_json
from tenfold.tasks import TaskSpec, read_task

QUICK = {"lr": [3e-3], "batch": [16], "epochs": 3}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pico model, its quiet twin without dropout, and tables."""
    folder = tmp_path_factory.mktemp("finetune")
    save_folder(folder / "model")
    save_folder(folder / "quiet", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    write(folder / "rows.csv", classes())
    write(folder / "dev.csv", classes(32, seed=5, skip=200))
    return folder


def rows(place: Path, **more: Any) -> TaskSpec:
    return TaskSpec(train=str(place / "rows.csv"), dev=str(place / "dev.csv"), **more)


def settings(**more: Any) -> Finetune:
    return parse_finetune({**QUICK, **more})


@pytest.fixture(scope="module")
def grid(place: Path) -> tuple[Path, running.Finetuned]:
    """Two rates, of which one is useless, and two seeds of the best."""
    out = place / "grid"
    return out, finetune_folder(str(place / "model"), out, rows(place), settings(lr=[1e-7, 3e-3], seeds=2))


def test_the_best_cell_is_kept_and_all_are_told(grid: tuple[Path, running.Finetuned]) -> None:
    _, result = grid
    assert not any(note.startswith("warning") for note in result.notes)
    told = result.to_dict()
    assert [(cell["lr"], cell["seed"]) for cell in told["cells"]] == [(1e-7, 0), (3e-3, 0), (3e-3, 1)]
    assert told["best"] == {"lr": 3e-3, "batch": 16}
    useless, good = told["cells"][0]["score"], told["cells"][1]["score"]
    assert useless < 70 < 90 < good
    assert told["scores"]["dev"]["accuracy"] == np.mean([each["scores"]["dev"]["accuracy"] for each in told["seeds"]])
    json.dumps(told)


def test_seeds_lie_side_by_side_under_an_overview(grid: tuple[Path, running.Finetuned], place: Path) -> None:
    out, _ = grid
    assert sorted(path.name for path in out.iterdir()) == ["history.json", "seed-0", "seed-1", "task.json"]
    assert not (place / "grid.finetuning").exists()
    (overview,) = history(out)
    assert overview["verb"] == "finetune" and set(overview["std"]["dev"]) == {"accuracy", "f1_macro"}
    for k in (0, 1):
        (entry,) = history(out / f"seed-{k}")
        assert (entry["seed"], entry["settings"]["lr"]) == (k, [1e-7, 3e-3])
        assert entry["curve"][-1]["epoch"] == 3.0
        made = read_task(out / f"seed-{k}")
        assert made is not None and made[0].labels == ("neg", "pos") and made[1].train == str(place / "rows.csv")
    weights = [AutoModelForSequenceClassification.from_pretrained(out / f"seed-{k}").classifier.weight for k in (0, 1)]
    assert not torch.equal(*weights)


def test_a_killed_grid_goes_on_with_its_cells(place: Path) -> None:
    """The first run ends in its second cell, as at Ctrl-C; the second run trains that cell and no other."""
    spec, chosen, out = rows(place, limit=32), settings(lr=[3e-3, 1e-3, 1e-7], epochs=1), place / "resumed"
    trained: list[Cell] = []

    def watched(stop: int) -> Callable[..., Any]:
        def one(source: Any, material: Any, given: Any, cell: Cell, *rest: Any) -> Any:
            if len(trained) == stop:
                raise KeyboardInterrupt
            trained.append(cell)
            return train(source, material, given, cell, *rest)

        return one

    with patch.object(running, "train", watched(1)), pytest.raises(Interrupted, match="the same command goes on"):
        finetune_folder(str(place / "model"), out, spec, chosen)
    assert not out.exists()
    assert [cell.lr for cell in trained] == [3e-3]
    with patch.object(running, "train", watched(9)):
        result = finetune_folder(str(place / "model"), out, spec, chosen)
    assert [cell.lr for cell in trained] == [3e-3, 1e-3, 1e-7]
    assert len(result.cells) == 3 and out.is_dir() and not (place / "resumed.finetuning").exists()
    alone = finetune_folder(str(place / "model"), place / "alone", spec, settings(lr=[result.best[0].cell.lr], epochs=1))
    assert alone.scores == result.scores
    assert (place / "alone/model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


def test_an_unfinished_run_of_other_settings_is_not_mixed_in(place: Path) -> None:
    out = place / "mixed"
    with patch.object(running, "train", side_effect=KeyboardInterrupt), pytest.raises(Interrupted):
        finetune_folder(str(place / "model"), out, rows(place, limit=32), settings(epochs=1))
    with pytest.raises(TenfoldError, match="--fresh"):
        finetune_folder(str(place / "model"), out, rows(place, limit=48), settings(epochs=1))
    finetune_folder(str(place / "model"), out, rows(place, limit=48), settings(epochs=0.5), fresh=True)
    with pytest.raises(TenfoldError, match="--force"):
        finetune_folder(str(place / "model"), out, rows(place, limit=48), settings(epochs=0.5))


def test_force_replaces_a_folder_of_seeds_but_no_other(place: Path, grid: tuple[Path, running.Finetuned]) -> None:
    copy = place / "copy"
    shutil.copytree(grid[0], copy)
    finetune_folder(str(place / "model"), copy, rows(place, limit=16), settings(epochs=1), force=True)
    assert (copy / "config.json").is_file() and not (copy / "seed-0").exists()
    (place / "home").mkdir()
    (place / "home/letter.txt").write_text("dear")
    with pytest.raises(TenfoldError, match="replaces a model folder"):
        finetune_folder(str(place / "model"), place / "home", rows(place), settings(), force=True)


def test_a_cell_that_diverges_is_told_and_the_others_go_on(place: Path) -> None:
    result = finetune_folder(str(place / "model"), place / "one", rows(place, limit=32), settings(lr=[1e12, 1e-3], epochs=1))
    burst, kept = result.cells
    assert burst.score is None and "finite" in (burst.diverged or "") and kept.score is not None
    assert "diverged" in result.to_dict()["cells"][0]
    with pytest.raises(TenfoldError, match="at least one cell must end well"):
        finetune_folder(str(place / "model"), place / "none", rows(place, limit=32), settings(lr=[1e12], epochs=1))
    assert not (place / "none").exists()


def test_micro_batches_change_nothing(place: Path) -> None:
    source, spec = find(str(place / "quiet"), weights=True), rows(place, limit=40)
    found = []
    for micro in (None, 4):
        given = settings(epochs=2, lr=[1e-3], micro=micro, class_weights="balanced")
        material = prepare(source, spec, given, lambda _: None)
        model, outcome = train(source, material, given, Cell(1e-3, 16, 0), place, lambda _: None)
        assert outcome.steps == 6  # 40 rows are 16 + 16 + 8
        found.append(model.state_dict())
    for name, tensor in found[0].items():
        if not name.endswith("key.bias"):  # its gradient is 0 but for rounding, which Adam makes steps of
            torch.testing.assert_close(tensor, found[1][name], rtol=1e-3, atol=2e-5)


def test_patience_ends_a_run_and_the_best_state_is_kept(place: Path) -> None:
    result = finetune_folder(
        str(place / "model"), place / "patient", rows(place, limit=32), settings(lr=[1e-9], epochs=20, patience=2)
    )
    (outcome,) = result.best
    assert len(outcome.curve) == 3 and outcome.steps == 6 and outcome.epoch == 1.0
    last = finetune_folder(
        str(place / "model"), place / "last", rows(place, limit=32), settings(epochs=2, keep="last", evaluations=2)
    )
    assert last.best[0].epoch == 2.0 and len(last.best[0].curve) == 4


def test_a_compressed_model_learns_and_stays_compressed(place: Path) -> None:
    model = pico("bert")
    tenfold.compress_(model, tenfold.plan(model, "III-16"), init="hosvd")
    model.save_pretrained(place / "small")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(place / "model" / name, place / "small" / name)
    out = place / "small-tuned"
    result = finetune_folder(str(place / "small"), out, rows(place), settings(lr=[1e-3], factors=5))
    assert result.scores["dev"]["accuracy"] > 90
    tuned = AutoModelForSequenceClassification.from_pretrained(out)
    assert tenfold.plan_of(tuned).method == "III-16"


def test_sentence_vectors_learn_without_a_head(place: Path) -> None:
    pytest.importorskip("sentence_transformers")
    sentence_folder(place / "sentences")
    write(place / "pairs.csv", pairs())
    spec = TaskSpec(train=str(place / "pairs.csv"), kind="embedding", dev_share=0.25)
    result = finetune_folder(str(place / "sentences"), place / "vectors", spec, settings(lr=[3e-3], epochs=4))
    before = finetune_folder(str(place / "sentences"), place / "untaught", spec, settings(lr=[1e-12], epochs=1))
    assert result.scores["dev"]["spearman"] > before.scores["dev"]["spearman"] + 5
    assert (place / "vectors/modules.json").is_file()
    assert read_json(place / "vectors/config.json")["architectures"] == ["BertModel"]


def test_module_replacing_teaches_blocks_alone(place: Path, grid: tuple[Path, running.Finetuned]) -> None:
    teacher = grid[0] / "seed-0"
    chosen = settings(theseus={"teacher": str(teacher)}, epochs=2)
    save_folder(place / "half", layers=1)
    result = finetune_folder(str(place / "half"), place / "theseus", rows(place), chosen)
    assert not any("random" in note for note in result.notes)
    ours, theirs = (AutoModelForSequenceClassification.from_pretrained(path) for path in (place / "theseus", teacher))
    assert torch.equal(ours.classifier.weight, theirs.classifier.weight)
    with pytest.raises(TenfoldError, match="fine-tune it first"):
        finetune_folder(str(place / "half"), place / "no", rows(place), settings(theseus={"teacher": str(place / "model")}))


def test_cuts_splits_and_slices_are_told(place: Path) -> None:
    spec = TaskSpec(train=str(place / "rows.csv"), length=8, held_out=0.25)
    material = prepare(find(str(place / "model"), weights=True), spec, settings(), lambda _: None)
    told = " ".join(material.notes)
    assert "rows of train were cut at 8 tokens" in told
    assert "no dev split was given" in told and "held out" in told
    assert material.chooser == "held_out"
    table = [{**row, "label": str(1000 + k * 1.5)} for k, row in enumerate(classes(40))]
    far = TaskSpec(train=write(place / "far.csv", table))
    notes = prepare(find(str(place / "model"), weights=True), far, settings(), lambda _: None).notes
    assert any("scores go from 1000 to 1058.5" in note for note in notes)


def test_floors_are_told_and_a_model_that_gives_one_answer_is_warned_of(place: Path, tmp_path: Path) -> None:
    labels = {0: "neg", 1: "pos"}
    model = pico("bert", "sequence_classification", id2label=labels, label2id={v: k for k, v in labels.items()})
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 9.0]))
    save_folder(tmp_path / "constant")
    model.save_pretrained(tmp_path / "constant")
    words = ("--train", place / "rows.csv", "--dev", place / "dev.csv", "--lr", "1e-12", "--epochs", 1)
    shown = ran("finetune", tmp_path / "constant", tmp_path / "out", *words).out
    assert 'warning: dev: lr 1e-12, batch 32, seed 0 answers "pos" to all 32 rows' in shown
    assert "dev: accuracy 50.0 (floor 50.0), f1_macro 33.3 (floor 33.3)" in shown
    assert history(tmp_path / "out")[-1]["floors"] == {"dev": {"accuracy": 50.0, "f1_macro": pytest.approx(100 / 3)}}


def test_three_classes_and_a_label_that_dev_alone_has(place: Path, tmp_path: Path) -> None:
    write(tmp_path / "three.csv", classes(30, ("neg", "mid", "pos")))
    with pytest.raises(TenfoldError, match="labels that train lacks, got mid"):
        finetune_folder(
            str(place / "model"),
            tmp_path / "out",
            rows(place).model_copy(update={"dev": str(tmp_path / "three.csv")}),
            settings(),
        )
    three = TaskSpec(train=str(tmp_path / "three.csv"))
    finetune_folder(str(place / "model"), tmp_path / "out", three, settings(epochs=1))
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").config.num_labels == 3


def bad(tmp_path: Path, name: str) -> TaskSpec:
    table = classes(12)
    if name == "latin":
        (tmp_path / "rows.csv").write_bytes("text,label\nZo\xeb,a\nno,b\n".encode("latin-1"))
    else:
        write(tmp_path / "rows.csv", table)
    wrong: dict[str, dict[str, Any]] = {
        "column": {"label_column": "labl"},
        "class": {"limit": 1},
        "kind": {"kind": "embedding"},
    }
    return TaskSpec(train=str(tmp_path / "rows.csv"), **wrong.get(name, {}))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("column", 'did you mean "label"'),
        ("class", "every class needs rows in train"),
        ("latin", "must be UTF-8"),
        ("kind", "name two text columns"),
    ],
)
def test_rows_that_cannot_be_learnt_from(place: Path, tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        finetune_folder(str(place / "model"), tmp_path / "out", bad(tmp_path, name), settings())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv"]


def test_settings_that_cannot_be(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TenfoldError, match="micro must divide the batch, got 5 and 16"):
        finetune_folder(str(place / "model"), tmp_path / "out", rows(place), settings(micro=5))
    save_folder(tmp_path / "short", max_position_embeddings=16)
    with pytest.raises(TenfoldError, match="the 16 positions of"):
        finetune_folder(str(tmp_path / "short"), tmp_path / "out", rows(place), settings())
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TenfoldError, match="without torchrun"):
        finetune_folder(str(place / "model"), tmp_path / "out", rows(place), settings())


def test_on_the_command_line(place: Path, tmp_path: Path) -> None:
    verb = ("finetune", place / "model", tmp_path / "out", "--train", place / "rows.csv", "--set", "data.limit=24")
    data = ran(*verb, "--lr", "1e-3", "--lr", "1e12", "--batch", "8", "--epochs", "1", "--set", "evaluations=2", "--json").data
    assert [cell["lr"] for cell in data["cells"]] == [1e-3, 1e12] and data["best"] == {"lr": 1e-3, "batch": 8}
    assert len(history(tmp_path / "out")[0]["curve"]) == 2
    shown = ran(*verb, "--lr", "1e12", "--lr", "1e-3", "--epochs", "1", "--force", "--seed", "3").out
    assert "warning: lr 1e+12, batch 32, seed 3 was given up" in shown and "note: no dev split was given" in shown
    for words, told in (
        (["--grid", "--lr", "1e-3"], "leave one of them out"),
        (["--set", "epoch=3"], 'did you mean "epochs"'),
        (["--set", "data.limits=3"], 'did you mean "limit"'),
        (["--task", "sst2"], "either one of GLUE's"),
        (["--kind", "numbers"], "kind is wrong"),
    ):
        done = run(*verb, *words, "--force", "--json")
        assert done.code == 2 and told in done.err and done.err.count("\n") == 1, done.err
