"""Scores of every seed beside floors and rivals; what makes a score worthless is said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import ran, run
from glue_files import write_task_files
from labelled import classes, pairs, write
from pico import pico, save_folder, sentence_folder, tokenizer
from sklearn.metrics import accuracy_score, f1_score

from tenfold.checkpoints import find, load
from tenfold.errors import TenfoldError
from tenfold.evaluation import predict
from tenfold.evaluation.pooling import pooling_of
from tenfold.evaluation.scoring import evaluate_folder
from tenfold.records import digest, read_json, write_json
from tenfold.tasks import Rows, Task, TaskSpec, encode, floors, glue, load_task, write_task

TEXT = Task("own", "classification", ("text",), "label", ("neg", "pos"), ("accuracy", "f1_macro"))

LIVELY, TEACHER = (4, 6, 10), 11
"""Seeds of random models that do not answer all rows alike."""


def save(folder: Path, task: Task, spec: TaskSpec | None, seed: int = 0, bias: list[float] | None = None) -> Path:
    """A pico model with a random head for the task; with `bias`, one that always says the same."""
    model = pico("bert", "sequence_classification", seed=seed, num_labels=task.outputs)
    if task.labels:
        model.config.id2label, model.config.label2id = dict(enumerate(task.labels)), {n: i for i, n in enumerate(task.labels)}
    with torch.no_grad():
        model.classifier.weight.mul_(0 if bias else 20)
        model.classifier.bias.copy_(torch.tensor(bias) if bias else torch.zeros(task.outputs))
    model.save_pretrained(folder)
    tokenizer(token_types=True).save_pretrained(folder)
    if spec is not None:
        write_task(folder, task, spec)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own rows with two models of them, and small official files of three GLUE tasks."""
    folder = tmp_path_factory.mktemp("scores")
    write(folder / "rows.csv", classes(60))
    write(folder / "dev.csv", classes(41, seed=3, skip=200))
    own = TaskSpec(train=str(folder / "rows.csv"), dev=str(folder / "dev.csv"))
    for k, seed in enumerate(LIVELY):
        save(folder / f"seeds/seed-{k}", TEXT, own, seed)
    save(folder / "teacher", TEXT, own, TEACHER)
    save(folder / "constant", TEXT, own, bias=[1.0, -1.0])
    for name in ("mnli", "rte", "sst2"):
        write_task_files(folder / "glue", name, {"train": 12, "dev": 40, "test": 4})
        spec = TaskSpec(task=name, data_dir=str(folder / "glue"))
        for k, seed in enumerate(LIVELY[:2]):
            save(folder / f"glue-out/{name}/seed-{k}", glue()[name].task, spec, seed)
    return folder


def outputs(folder: Path, task: Task, rows: Rows) -> Any:
    source = find(str(folder), weights=True)
    return predict(load(source).float(), encode(rows, task, tokenizer(token_types=True)))


@pytest.fixture(scope="module")
def scored(place: Path) -> Any:
    baselines = {"self": str(place / "seeds"), "dead": str(place / "constant")}
    return evaluate_folder(str(place / "seeds"), None, str(place / "teacher"), baselines)


def test_scores_are_those_of_scikit_learn_with_mean_and_spread(place: Path, scored: Any) -> None:
    rows = load_task(TaskSpec(train=str(place / "rows.csv"), dev=str(place / "dev.csv"))).dev["dev"]
    found = scored["tasks"]["own"]["splits"]["dev"]
    said = [outputs(place / f"seeds/seed-{k}", TEXT, rows).argmax(1) for k in range(3)]
    accuracies = [100 * accuracy_score(rows.labels, each) for each in said]
    macro = [100 * f1_score(rows.labels, each, average="macro") for each in said]
    assert len(set(accuracies)) > 1
    assert [each["scores"]["accuracy"] for each in found["seeds"]] == pytest.approx(accuracies)
    assert found["mean"] == pytest.approx({"accuracy": np.mean(accuracies), "f1_macro": np.mean(macro)})
    assert found["std"]["accuracy"] == pytest.approx(np.std(accuracies, ddof=1))
    assert found["rows"] == 41 and found["floor"]["scores"] == pytest.approx(floors(TEXT, rows))
    assert found["floor"]["answer"] == "always neg"  # 21 of 41
    assert scored["tasks"]["own"]["metrics"] == ["accuracy", "f1_macro"]


def test_rivals_answer_the_same_rows(scored: Any) -> None:
    found = scored["tasks"]["own"]["splits"]["dev"]
    teacher, same, dead = found["against"]
    assert [(each["role"], each["name"]) for each in found["against"]] == [
        ("teacher", "teacher"), ("baseline", "self"), ("baseline", "dead"),
    ]  # fmt: skip
    ours = found["mean"]["accuracy"]
    for each in found["against"]:
        assert each["retention"] == pytest.approx(ours / each["scores"]["accuracy"])
        assert each["difference"] == pytest.approx(ours - each["scores"]["accuracy"])
        assert each["low"] <= each["difference"] <= each["high"] and 0 < each["p"] <= 1
    assert (same["difference"], same["p"]) == (pytest.approx(0.0), 1.0)
    assert teacher["low"] < teacher["high"]
    assert dead["scores"]["accuracy"] == pytest.approx(found["floor"]["scores"]["accuracy"])


def test_a_constant_student_is_warned_of(place: Path, scored: Any) -> None:
    warned = evaluate_folder(str(place / "constant"), None)["tasks"]["own"]["splits"]["dev"]["warnings"]
    assert any('the model answers "neg" to all 41 rows' in text for text in warned)
    assert any("the model is no better than its floor" in text for text in warned)
    assert any("the baseline" in text and '"neg"' in text for text in scored["tasks"]["own"]["splits"]["dev"]["warnings"])
    live = evaluate_folder(str(place / "teacher"), None)["tasks"]["own"]["splits"]["dev"]["warnings"]
    assert not any("answers" in text for text in live)


def test_the_file_says_what_it_takes_to_make_it_again(place: Path, scored: Any) -> None:
    assert read_json(place / "seeds/scores.json") == json.loads(json.dumps(scored))
    assert scored["verb"] == "evaluate" and scored["seed"] == 0 and "command" in scored
    assert scored["versions"].keys() >= {"tenfold", "torch", "transformers"}
    hashes = [each["model"] for each in scored["tasks"]["own"]["splits"]["dev"]["seeds"]]
    assert hashes[0] == digest([place / "seeds/seed-0/model.safetensors"]) and len(set(hashes)) == 3
    rows = load_task(TaskSpec(train=str(place / "rows.csv"), dev=str(place / "dev.csv"))).dev["dev"]
    assert scored["tasks"]["own"]["data"] == rows.digest
    again = evaluate_folder(str(place / "seeds"), None, str(place / "teacher"))
    assert again["tasks"]["own"]["splits"]["dev"]["against"][0] == scored["tasks"]["own"]["splits"]["dev"]["against"][0]


def test_rows_that_were_seen_in_training_are_counted(place: Path, tmp_path: Path) -> None:
    table, train = classes(10, seed=9, skip=250), classes(60)
    table[0] = train[0]
    table[1] = {**train[1], "text": f"  {train[1]['text'].upper()}"}
    dev = write(tmp_path / "leak.csv", table)
    record = evaluate_folder(str(place / "teacher"), [TaskSpec(dev=dev)])
    (text, *_) = record["tasks"]["own"]["splits"]["dev"]["warnings"]
    assert "2 of 10 rows were seen in training: 1 have exactly" in text
    assert record["tasks"]["own"]["splits"]["dev"]["rows"] == 10


def test_rows_that_cannot_be_compared_with_training_are_said(place: Path, tmp_path: Path) -> None:
    save(tmp_path / "moved", TEXT, TaskSpec(train=str(tmp_path / "gone.csv")))
    record = evaluate_folder(str(tmp_path / "moved"), [TaskSpec(dev=str(place / "dev.csv"))])
    assert "could not be checked" in record["tasks"]["own"]["splits"]["dev"]["warnings"][0]


def test_glue_tasks_side_by_side(place: Path) -> None:
    """MNLI's matched and mismatched are apart; --task restricts and orders; a folder for each task is a teacher for each."""
    out = str(place / "glue-out")
    record = evaluate_folder(out, None, out)
    assert list(record["tasks"]) == ["mnli", "rte", "sst2"]
    mnli = record["tasks"]["mnli"]["splits"]
    assert list(mnli) == ["matched", "mismatched"]
    assert mnli["matched"]["mean"] != mnli["mismatched"]["mean"]
    assert {"spade", "scored"} == set(record["averages"])
    spade = record["averages"]["spade"]
    two = [record["tasks"]["sst2"]["splits"]["dev"]["mean"]["accuracy"], mnli["matched"]["mean"]["accuracy"]]
    assert spade["mean"] == pytest.approx(np.mean(two)) and spade["against"][0]["retention"] == 1.0
    some = evaluate_folder(out, [TaskSpec(task="SST-2"), TaskSpec(task="rte")], seeds=1)
    assert list(some["tasks"]) == ["sst2", "rte"]
    assert some["tasks"]["rte"]["splits"]["dev"]["std"] is None


def test_a_model_without_a_record_is_scored_on_the_task_that_is_named(place: Path, tmp_path: Path) -> None:
    """Its classes may stand in another order, or have no names."""
    task = glue()["mnli"].task
    spec = TaskSpec(task="mnli", data_dir=str(place / "glue"))
    save(tmp_path / "plain", task, None, LIVELY[0])
    expected = evaluate_folder(str(place / "glue-out/mnli/seed-0"), None)["tasks"]["mnli"]["splits"]["matched"]["mean"]
    named = evaluate_folder(str(tmp_path / "plain"), [spec])["tasks"]["mnli"]["splits"]["matched"]["mean"]
    assert named == expected
    source = find(str(tmp_path / "plain"), weights=True)
    model = load(source)
    order = [2, 0, 1]
    with torch.no_grad():
        for parameter in model.classifier.parameters():
            parameter.copy_(parameter[order].clone())
    names = [task.labels[k].upper() for k in order]
    model.config.id2label, model.config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
    model.save_pretrained(tmp_path / "plain")
    turned = evaluate_folder(str(tmp_path / "plain"), [spec])["tasks"]["mnli"]["splits"]["matched"]["mean"]
    assert turned == expected
    names = [f"LABEL_{k}" for k in range(3)]
    save(tmp_path / "nameless", replace(task, labels=tuple(names)), None, LIVELY[0])
    entry = evaluate_folder(str(tmp_path / "nameless"), [spec])["tasks"]["mnli"]["splits"]["matched"]
    assert entry["mean"] == expected and any("does not name its classes" in text for text in entry["warnings"])


def test_a_model_without_a_record_takes_own_rows(place: Path, tmp_path: Path) -> None:
    save(tmp_path / "plain", TEXT, None, TEACHER)
    record = evaluate_folder(str(tmp_path / "plain"), [TaskSpec(dev=str(place / "dev.csv"))])
    (entry,) = record["tasks"].values()
    expected = evaluate_folder(str(place / "teacher"), None)["tasks"]["own"]["splits"]["dev"]["mean"]
    assert entry["splits"]["dev"]["mean"] == expected
    assert "could not be checked" in entry["splits"]["dev"]["warnings"][0]


def test_settings_chosen_on_a_slice_are_scored_on_dev(place: Path, tmp_path: Path) -> None:
    spec = TaskSpec(train=str(place / "rows.csv"), dev=str(place / "dev.csv"), held_out=0.3)
    save(tmp_path / "m", TEXT, spec)
    assert list(evaluate_folder(str(tmp_path / "m"), None)["tasks"]["own"]["splits"]) == ["dev"]


def test_sentence_vectors_are_compared_by_their_cosine(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    from scipy.stats import spearmanr

    folder, table = sentence_folder(tmp_path / "m"), pairs(40)
    dev = write(tmp_path / "dev.csv", table)
    record = evaluate_folder(str(folder), [TaskSpec(dev=dev)])
    (entry,) = record["tasks"].values()
    vectors = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    a, b = (vectors.encode([row[side] for row in table], normalize_embeddings=True) for side in ("sentence1", "sentence2"))
    expected = 100 * spearmanr((a * b).sum(1), [float(row["score"]) for row in table]).statistic
    assert entry["splits"]["dev"]["mean"]["spearman"] == pytest.approx(expected, abs=0.5)


def test_pooling_is_what_the_folder_says(tmp_path: Path) -> None:
    assert pooling_of(tmp_path) == "mean"
    (tmp_path / "1_Pooling").mkdir()
    modules = [{"type": "sentence_transformers.models.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}]
    write_json(tmp_path / "modules.json", modules)
    for config, expected in (
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "mean"}, "mean"),
    ):
        write_json(tmp_path / "1_Pooling/config.json", config)
        assert pooling_of(tmp_path) == expected
    write_json(tmp_path / "1_Pooling/config.json", {"pooling_mode": "lasttoken"})
    with pytest.raises(TenfoldError, match="mean or cls, got"):
        pooling_of(tmp_path)
    write_json(tmp_path / "modules.json", [*modules, {"type": "sentence_transformers.models.Dense", "path": "2_Dense"}])
    with pytest.raises(TenfoldError, match="Dense"):
        pooling_of(tmp_path)


def broken(tmp_path: Path) -> Path:
    """Its weights are finite; what it makes of them is not."""
    folder = save(tmp_path / "nan", TEXT, None)
    model = load(find(str(folder), weights=True))
    with torch.no_grad():
        model.classifier.weight.fill_(3e38)
    model.save_pretrained(folder)
    return folder


def test_outputs_that_are_not_finite_are_no_score(place: Path, tmp_path: Path) -> None:
    folder = broken(tmp_path)
    with pytest.raises(TenfoldError, match=r"NaN or infinity in \d+ of 41 rows of own dev"):
        evaluate_folder(str(folder), [TaskSpec(dev=str(place / "dev.csv"))])
    assert not (folder / "scores.json").exists()


def test_what_cannot_be_scored(place: Path, tmp_path: Path) -> None:
    def told(match: str, folder: Any, specs: Any = None, **more: Any) -> None:
        with pytest.raises(TenfoldError, match=match):
            evaluate_folder(str(folder), specs, **more)

    bare = save_folder(tmp_path / "bare")
    rte = TaskSpec(task="rte", data_dir=str(place / "glue"))
    told("with a classification head", bare, [rte])
    told("name one", bare)
    told("must be a folder, got", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    told("must be a model, or hold models", tmp_path / "empty")
    told("a model of, got sst2: it has own", place / "teacher", [TaskSpec(task="sst2")])
    told("--seeds 5 needs as many models", place / "seeds", seeds=5)
    told("names rows of one task, got 3", place / "glue-out", [TaskSpec(dev=str(place / "dev.csv"))])
    told(
        "give 3 numbers for mnli, got 2",
        save(tmp_path / "two", TEXT, None),
        [TaskSpec(task="mnli", data_dir=str(place / "glue"))],
    )
    told("classes must be those of rte", save(tmp_path / "named", replace(TEXT, labels=("cat", "dog")), None), [rte])
    told("must have a model of every task", place / "teacher", teacher=str(place / "glue-out"))
    write(tmp_path / "three.csv", classes(9, ("neg", "mid", "pos")))
    told("labels that train lacks, got mid", place / "teacher", [TaskSpec(dev=str(tmp_path / "three.csv"))])
    wrong = replace(TEXT, labels=("neg", "pos", "mid"))
    save(tmp_path / "changed", wrong, TaskSpec(train=str(place / "rows.csv"), dev=str(place / "dev.csv")))
    told("have they changed", tmp_path / "changed")


def test_on_the_command_line(place: Path) -> None:
    out, teacher = place / "seeds", place / "teacher"
    data = ran("evaluate", out, "--seeds", "2", "--teacher", teacher, "--json").data
    assert len(data["tasks"]["own"]["splits"]["dev"]["seeds"]) == 2
    shown = ran("evaluate", place / "constant", "--baseline", f"first={out}/seed-0").out
    assert "warning: own dev: the model answers" in shown and "first" in shown and "scores.json" in shown
    for words, told in (
        (["--baseline", "nothing"], "NAME=FOLDER"),
        (["--task", "sst2"], "--task must be one"),
        (["--dev", "no.csv"], "there is no such file"),
    ):
        done = run("evaluate", out, *words, "--json")
        assert done.code == 2 and told in done.err and done.err.count("\n") == 1
