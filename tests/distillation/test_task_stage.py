"""The task stage: a student learns a teacher's answers on a task's rows, whatever kind of task it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from distilling import HEADS, LENGTH, student_folder, task, weights, write_table
from pico import pico, save_folder, tokenizer
from safetensors.torch import save_file
from transformers import AutoModel, AutoModelForSequenceClassification

from tenfold.checkpoints import find, load
from tenfold.distillation.losses import labelled
from tenfold.distillation.material import Material, task_material
from tenfold.distillation.pairing import inherit_, student_for, teacher_for
from tenfold.distillation.running import Distilled, distill_folder
from tenfold.distillation.stage import Stage, parse_stage
from tenfold.errors import CheckpointError, TenfoldError
from tenfold.evaluation import predict
from tenfold.tasks import Rows, Task, encode, load_task, read_task

KINDS = [*HEADS, "embedding"]


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """By kind of task a teacher and a table; one student for all, which has no head."""
    place = tmp_path_factory.mktemp("task")
    student_folder(place / "student", "II-12")
    for kind in KINDS:
        save_folder(place / kind, head="sequence_classification" if kind in HEADS else None, seed=1, **HEADS.get(kind, {}))
        write_table(place / f"{kind}.tsv", kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENFOLD_CACHE", str(place / "cache"))
        yield place


def distill(place: Path, out: Path, kind: str, student: str = "student", **changes: Any) -> Distilled:
    stage = task(place / f"{kind}.tsv", kind, **changes)
    return distill_folder(str(place / student), out, str(place / kind), stage)


@pytest.fixture(scope="module", params=KINDS)
def taught(request: pytest.FixtureRequest, place: Path) -> tuple[str, Distilled]:
    kind = request.param
    return kind, distill(place, place / f"{kind}-taught", kind, epochs=3, keep="best", lr=0.01)


def rows_of(place: Path, kind: str) -> tuple[Task, Rows]:
    data = load_task(task(place / f"{kind}.tsv", kind).resolved().task)  # type: ignore[arg-type]
    return data.task, data.dev["dev"]


def test_the_student_answers_more_like_its_teacher(place: Path, taught: tuple[str, Distilled]) -> None:
    kind, result = taught
    described, rows = rows_of(place, kind)
    encoded = encode(rows, described, tokenizer(token_types=True), LENGTH)
    source, after, before = (find(str(place / name), weights=True) for name in (kind, result.out, "student"))
    teacher = teacher_for(source, described)
    models = teacher, load(after), student_for(before, teacher, described, inherit=True)
    said = [torch.tensor(predict(model, encoded)) for model in models]
    if kind == "classification":
        said = [logits.log_softmax(-1) for logits in said]
    assert said[0].std() > 1e-3, "the teacher says something"
    assert (said[1] - said[0]).square().mean() < 0.7 * (said[2] - said[0]).square().mean()
    assert result.curve[-1]["last"] < 0.7 * result.curve[0]["last"]


def test_the_best_state_of_those_that_were_measured_is_kept(taught: tuple[str, Distilled]) -> None:
    _, result = taught
    best = max(row["score"] for row in result.curve[1:])
    assert next(iter(result.scores["dev"].values())) == pytest.approx(best, abs=1e-4)
    assert result.notes[-1].startswith("kept the state after step ") and result.notes[-1].endswith("that score is flattering")


def test_the_folder_says_what_it_was_made_for(place: Path, taught: tuple[str, Distilled]) -> None:
    kind, result = taught
    said = read_task(result.out)
    assert said is not None
    described, spec = said
    assert described == rows_of(place, kind)[0] and spec.train == str(place / f"{kind}.tsv")
    entry = json.loads((result.out / "history.json").read_text(encoding="utf-8"))[-1]
    assert entry["scores"] == result.to_dict()["scores"] and entry["settings"]["task"]["kind"] == kind
    config = json.loads((result.out / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["BertForSequenceClassification" if kind in HEADS else "BertModel"]
    if kind == "classification":
        assert config["id2label"] == {"0": "no", "1": "yes"}


def test_embeddings_and_head_come_from_the_teacher_unless_told_otherwise(place: Path) -> None:
    data = load_task(task(place / "classification.tsv").resolved().task)  # type: ignore[arg-type]
    source = find(str(place / "student"), weights=True)
    teacher = teacher_for(find(str(place / "classification"), weights=True), data.task)
    theirs = teacher.state_dict()
    for inherit in (True, False):
        torch.manual_seed(0)
        state = student_for(source, teacher, data.task, inherit).state_dict()
        for name in ("bert.embeddings.word_embeddings.weight", "classifier.weight", "bert.pooler.dense.bias"):
            assert torch.equal(state[name], theirs[name]) is inherit
        assert not torch.equal(
            state["bert.encoder.layer.0.output.dense.bias"], theirs["bert.encoder.layer.0.output.dense.bias"]
        )


def test_nothing_is_inherited_where_shapes_differ() -> None:
    narrow, teacher = pico("bert", "sequence_classification", hidden_size=16), pico("bert", "sequence_classification", seed=1)
    before = {name: tensor.clone() for name, tensor in narrow.state_dict().items()}
    assert inherit_(narrow, teacher) == 1  # the bias of two classes
    assert [name for name, tensor in narrow.state_dict().items() if not torch.equal(tensor, before[name])] == [
        "classifier.bias"
    ]


def test_a_student_with_a_head_of_its_own_keeps_it_where_told(place: Path, tmp_path: Path) -> None:
    save_folder(tmp_path / "headed", head="sequence_classification", seed=5, **HEADS["classification"])
    stage = task(place / "classification.tsv", inherit=False, lr=1e-9, lr_rest=1e-9)
    result = distill_folder(str(tmp_path / "headed"), tmp_path / "out", str(place / "classification"), stage)
    ours, theirs = weights(result.out)["classifier.weight"], weights(tmp_path / "headed")["classifier.weight"]
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


def material(place: Path, kind: str, **changes: Any) -> tuple[Material, Stage]:
    stage = task(place / f"{kind}.tsv", kind, **changes).resolved()
    assert stage.task is not None
    data = load_task(stage.task)
    teacher = teacher_for(find(str(place / kind), weights=True), data.task)
    return task_material(stage, data, tokenizer(token_types=True), teacher, lambda _: None), stage


@pytest.mark.parametrize("kind", ["classification", "regression", "multi_label"])
def test_changed_copies_have_no_label_of_their_own(place: Path, kind: str) -> None:
    """Only the teacher's answers teach on them; hard labels count on the task's own rows alone."""
    plain, stage = material(place, kind)
    more, _ = material(place, kind, augment={"copies": 2, "words": "embeddings"})
    own, all_ = len(plain.train), len(more.train)  # type: ignore[arg-type]
    assert own < all_ <= 3 * own
    assert more.steps(stage) == plain.steps(stage), "an epoch is one of the task's rows"
    assert more.content != plain.content
    assert [note for note in more.notes if "changed copies" in note]
    batch = more.collate([more.train[own - 1], more.train[own]])
    assert labelled(batch["labels"]).tolist() == [True, False]


def test_more_texts_have_no_label_of_their_own(place: Path, tmp_path: Path) -> None:
    """A table of texts alone, as many steps as without it; changed copies are of the task's own rows."""
    plain, stage = material(place, "classification")
    lines = (place / "classification.tsv").read_text(encoding="utf-8").splitlines()[:21]
    (tmp_path / "more.tsv").write_text("\n".join(line.rpartition("\t")[0] for line in lines) + "\n", encoding="utf-8")
    more, _ = material(
        place, "classification", unlabelled=str(tmp_path / "more.tsv"), augment={"copies": 1, "words": "embeddings"}
    )
    own, all_ = len(plain.train), len(more.train)  # type: ignore[arg-type]
    assert own + 20 < all_ <= 2 * own + 20 and more.steps(stage) == plain.steps(stage)
    batch = more.collate([more.train[own - 1], more.train[own], more.train[own + 19]])
    assert labelled(batch["labels"]).tolist() == [True, False, False]
    assert [note for note in more.notes if note.startswith("20 more rows of") and note.endswith("labelled by the teacher")]


def test_augmented_rows_are_trained_on(place: Path, tmp_path: Path) -> None:
    losses = [{"name": "answers"}, {"name": "hard_labels", "weight": 0.5}]
    augment = {"copies": 2, "words": "embeddings"}
    result = distill(place, tmp_path / "out", "classification", augment=augment, losses=losses)
    assert {"soft_labels", "hard_labels", "score"} <= result.curve[-1].keys()
    assert any("labelled by the teacher" in note for note in result.notes)


def test_a_student_that_gives_one_answer_is_warned_of(place: Path, tmp_path: Path) -> None:
    """Its head comes from a teacher whose head is a constant."""
    teacher = save_folder(tmp_path / "constant", head="sequence_classification", seed=1)
    head = AutoModelForSequenceClassification.from_pretrained(teacher)
    with torch.no_grad():
        head.classifier.weight.zero_()
        head.classifier.bias.copy_(torch.tensor([0.0, 9.0]))
    head.save_pretrained(teacher)
    stage = task(place / "classification.tsv", lr=1e-6, lr_rest=1e-6)
    result = distill_folder(str(place / "student"), tmp_path / "out", str(teacher), stage)
    told = [note for note in result.notes if note.startswith("warning: dev: the student")]
    assert len(told) == 2 and "it does not look at the text" in told[0] and "no better than its floor" in told[1]


def test_the_papers_two_parts(place: Path, tmp_path: Path) -> None:
    result = distill(place, tmp_path / "out", "regression", preset="paper", lr=1e-3, lr_rest=1e-3, batch=8, epochs=2)
    assert {"hidden", "scores"} <= result.curve[0].keys() and "logit_mse" in result.curve[-1]


def test_another_depth_and_width(place: Path, tmp_path: Path) -> None:
    save_folder(tmp_path / "narrow", layers=1, hidden_size=16, intermediate_size=64)
    stage = task(place / "classification.tsv", map="uniform")
    result = distill_folder(str(tmp_path / "narrow"), tmp_path / "out", str(place / "classification"), stage)
    assert result.curve[-1]["loss"] < result.curve[0]["loss"]
    assert not any("projections" in name for name in weights(result.out))
    assert AutoModelForSequenceClassification.from_pretrained(result.out).config.num_labels == 2


def test_epochs_default_by_the_number_of_rows(place: Path) -> None:
    found, stage = material(place, "classification")
    free = parse_stage({**stage.model_dump(exclude={"epochs", "losses", "text", "tokens", "key", "mode", "pairs", "held_out"})})
    rows = {100: 30, 6_000: 10, 60_000: 3}
    for count, epochs in rows.items():
        assert (
            Material(found.train, found.held_out, found.collate, 1.0, count, "", found.data).steps(free) == epochs * count / 8
        )


# Mistakes


def test_a_teacher_without_a_head_for_the_task_is_refused(place: Path, tmp_path: Path) -> None:
    stage = task(place / "classification.tsv")
    for teacher, line in (
        ("embedding", r"a teacher must answer the task own, got .*embedding, which has no head: tenfold finetune makes one"),
        ("multi_label", r"must answer the task own with 2 outputs, got .*multi_label with 3: take a model that was fine-tuned"),
    ):
        with pytest.raises(TenfoldError, match=line):
            distill_folder(str(place / "student"), tmp_path / "out", str(place / teacher), stage)
        assert not list(tmp_path.iterdir()), "a mistake leaves nothing behind"
    other: dict[str, Any] = {"num_labels": 2, "id2label": {0: "yes", 1: "no"}, "label2id": {"yes": 0, "no": 1}}
    save_folder(tmp_path / "turned", head="sequence_classification", **other)
    with pytest.raises(TenfoldError, match="must number the labels alike, got yes, no and no, yes"):
        distill_folder(str(place / "student"), tmp_path / "out", str(tmp_path / "turned"), stage)


def test_a_student_that_lacks_weights_is_refused(place: Path, tmp_path: Path) -> None:
    model = AutoModel.from_pretrained(place / "embedding")
    state = {name: tensor for name, tensor in model.state_dict().items() if "layer.1.output.dense.weight" not in name}
    save_folder(tmp_path / "part")
    save_file(state, tmp_path / "part" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"every weight .* got none for .*layer.1.output.dense.weight"):
        distill_folder(
            str(tmp_path / "part"), tmp_path / "out", str(place / "classification"), task(place / "classification.tsv")
        )


def test_fewer_rows_than_a_batch_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(TenfoldError, match="must fill at least one batch of 500 rows, got 72: give a smaller batch"):
        distill(place, tmp_path / "out", "classification", batch=500)
