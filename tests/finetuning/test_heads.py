"""Any text model gets the task's head; a head that answers the task already is kept, nothing inside the blocks is invented."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pico import pico, save_folder, tokenizer

from tenfold.checkpoints import find
from tenfold.errors import CheckpointError, TenfoldError
from tenfold.finetuning.heads import load_with_head
from tenfold.tasks import Task

TASK = Task("x", "classification", ("text",), "label", ("no", "maybe", "yes"), ("accuracy",))
FAMILIES = ["bert", "roberta", "distilbert", "electra", "mpnet", "modernbert", "deberta_v2", "gpt2", "llama", "gpt_neox", "opt"]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_text_family_takes_a_head(name: str, tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "m", name)
    torch.manual_seed(0)
    model, notes = load_with_head(find(str(folder), weights=True), TASK, pad=0)
    words = dict(tokenizer()(["a good cat", "no"], padding=True, return_tensors="pt"))
    assert model(**words).logits.shape == (2, 3)
    assert list(model.config.id2label.values()) == list(TASK.labels)
    assert "the head starts at random" in notes
    base = pico(name).state_dict()
    own = model.base_model.state_dict()
    assert all(torch.equal(own[key], value) for key, value in base.items() if key in own and "pooler" not in key)


def test_a_head_of_the_same_classes_is_kept_and_any_other_is_drawn(tmp_path: Path) -> None:
    labels = {0: "no", 1: "maybe", 2: "yes"}
    model = pico("bert", "sequence_classification", num_labels=3, id2label=labels, label2id={v: k for k, v in labels.items()})
    model.save_pretrained(tmp_path / "m")
    source = find(str(tmp_path / "m"), weights=True)
    kept, notes = load_with_head(source, TASK, pad=0)
    assert torch.equal(kept.classifier.weight, model.classifier.weight) and notes == ()
    other = replace(TASK, labels=("a", "b", "c"))
    for _ in range(2):
        torch.manual_seed(3)
        drawn, notes = load_with_head(find(str(tmp_path / "m"), weights=True), other, pad=0)
        assert notes == ("the head starts at random",)
    torch.manual_seed(3)
    again, _ = load_with_head(find(str(tmp_path / "m"), weights=True), other, pad=0)
    assert torch.equal(drawn.classifier.weight, again.classifier.weight)
    assert not torch.equal(drawn.classifier.weight, model.classifier.weight)
    assert float(drawn.classifier.weight.detach().std()) == pytest.approx(0.02, rel=0.3)


def test_a_compressed_model_keeps_its_factors(tmp_path: Path) -> None:
    import tenfold

    model = pico("bert")
    tenfold.compress_(model, tenfold.plan(model, "III-8"))
    model.save_pretrained(tmp_path / "m")
    headed, _ = load_with_head(find(str(tmp_path / "m"), weights=True), TASK, pad=0)
    ours, theirs = dict(headed.base_model.named_parameters()), dict(model.named_parameters())
    factors = [name for name in theirs if "factor_banks" in name]
    assert factors and all(torch.equal(ours[name], theirs[name]) for name in factors)


def test_an_absent_pooler_is_said(tmp_path: Path) -> None:
    model = pico("bert")
    model.pooler = None
    model.save_pretrained(tmp_path / "m")
    _, notes = load_with_head(find(str(tmp_path / "m"), weights=True), TASK, pad=0)
    assert any("no pooler" in note for note in notes)


def test_an_embedding_task_has_no_head(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", "bert", "sequence_classification")
    task = replace(TASK, kind="embedding", labels=(), columns=("a", "b"))
    model, notes = load_with_head(find(str(tmp_path / "m"), weights=True), task, pad=0)
    assert model.base_model is model and notes == ()


def test_what_takes_no_head_is_refused(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", "vit")
    with pytest.raises(TenfoldError, match="can give a classification head, got vit"):
        load_with_head(find(str(tmp_path / "m"), weights=True), TASK, pad=0)


def test_a_hole_in_the_blocks_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_folder(tmp_path / "m", "bert")
    state = load_file(folder / "model.safetensors")
    gone = next(key for key in state if "layer.1" in key)
    save_file({key: value for key, value in state.items() if key != gone}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="every weight below the head"):
        load_with_head(find(str(folder), weights=True), TASK, pad=0)
