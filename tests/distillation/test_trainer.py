"""The loop: what a step's loss is, what it trains and what it leaves alone."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from distilling import LENGTH
from pico import inputs, pico
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedModel, TrainerCallback, TrainingArguments

import tenfold
from tenfold.distillation.legs import Models, legs
from tenfold.distillation.probing import probe
from tenfold.distillation.stage import Stage, parse_stage
from tenfold.distillation.trainer import Distiller
from tenfold.nn.bank import BANKS

BATCH = 8


class Random(Dataset[dict[str, Tensor]]):
    """Rows of random tokens, padded unequally."""

    def __init__(self, model: PreTrainedModel, rows: int) -> None:
        self.batch = inputs(model, rows, 12, seed=3)

    def __len__(self) -> int:
        return len(self.batch["input_ids"])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: tensor[index] for name, tensor in self.batch.items()}


def collate(rows: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def stage_of(**data: Any) -> Stage:
    return parse_stage({"text": "none", "batch": BATCH, "length": LENGTH, "warmup": 0.0} | data).resolved()


def distiller(
    tmp_path: Path, student: PreTrainedModel, teacher: PreTrainedModel, stage: Stage, steps: int = 10, micro: int = BATCH
) -> Distiller:
    depths = [model.config.num_hidden_layers for model in (student, teacher)]
    chosen = legs(stage, Models(depths[0], depths[1]), steps)
    rows = Random(teacher, 4 * BATCH)
    facts = probe(student, teacher, chosen, [collate([rows[i] for i in range(8)])])
    if len(list(facts.projections.parameters())):
        student.add_module("tenfold_projections", facts.projections)
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=steps,
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=BATCH // micro,
        learning_rate=stage.lr,
        logging_steps=1,
        save_strategy="no",
        optim="adamw_torch",
        use_cpu=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        report_to="none",
        disable_tqdm=True,
    )
    return Distiller(
        student, teacher, stage, chosen, facts, args=arguments, train_dataset=rows, eval_dataset=rows, data_collator=collate
    )


def factored(method: str = "II-8", dtype: torch.dtype = torch.float32, layers: int = 2, **kw: Any) -> PreTrainedModel:
    student = pico("bert", dtype=dtype, layers=layers, **kw)
    tenfold.compress_(student, tenfold.plan(student, method), init="hosvd")
    return student


def gradients(trainer: Distiller, batches: Sequence[dict[str, Tensor]]) -> tuple[float, dict[str, Tensor]]:
    """The loss of one step over these micro-batches, and what it asks of the student."""
    student = trainer.model
    student.zero_grad()
    counts = trainer._counts(batches)
    losses = [trainer.compute_loss(student, batch, num_items_in_batch=counts) for batch in batches]
    torch.stack(losses).sum().backward()
    found = {name: p.grad.clone() for name, p in student.named_parameters() if p.grad is not None}
    return float(sum(loss.detach() for loss in losses)), found


SPLITS = [{"losses": [{"name": "hidden"}, {"name": "scores"}, {"name": "relations", "heads": 2}, {"name": "sentence"}]},
          {"phases": [{"local": True}]}]  # fmt: skip


@pytest.mark.parametrize("data", SPLITS, ids=["losses", "local"])
def test_a_steps_loss_and_gradients_do_not_change_when_the_batch_is_split(tmp_path: Path, data: dict[str, Any]) -> None:
    trainer = distiller(tmp_path, factored(dtype=torch.float64), pico("bert", dtype=torch.float64), stage_of(**data))
    whole = collate([trainer.train_dataset[i] for i in range(BATCH)])
    loss, expected = gradients(trainer, [whole])
    for cuts in ([4, 4], [1, 2, 5]):
        parts = [dict(zip(whole, piece, strict=True)) for piece in zip(*(t.split(cuts) for t in whole.values()), strict=True)]
        split_loss, found = gradients(trainer, parts)
        assert split_loss == pytest.approx(loss, rel=1e-12)
        assert found.keys() == expected.keys()
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-12)


def test_micro_batches_end_in_the_same_weights(tmp_path: Path) -> None:
    ends = []
    for micro in (BATCH, 2):
        trainer = distiller(tmp_path, factored(dtype=torch.float64), pico("bert", dtype=torch.float64), stage_of(), 4, micro)
        trainer.train()
        ends.append(trainer.model.state_dict())
    for name, tensor in ends[0].items():
        torch.testing.assert_close(tensor, ends[1][name], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("method", ["II-8", "II-alpha-8", "III-8", "IV-4-8", "ALBERT", "III-4+II-4"])
def test_ten_steps_lower_the_loss_for_every_form(tmp_path: Path, method: str) -> None:
    trainer = distiller(tmp_path, factored(method), pico("bert", seed=1), stage_of())
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < 0.9 * before["eval_loss"]
    assert after["eval_last"] < before["eval_last"]


def test_the_teacher_is_in_eval_mode_and_has_no_gradients(tmp_path: Path) -> None:
    teacher = pico("bert", seed=1, hidden_dropout_prob=0.5).train()
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    trainer = distiller(tmp_path, factored(), teacher, stage_of(dropout=True), steps=3)
    seen: list[tuple[bool, bool]] = []
    teacher.register_forward_hook(lambda module, _, output: seen.append((module.training, output[0].requires_grad)))
    trainer.train()
    assert set(seen) == {(False, False)}
    assert not any(p.requires_grad or p.grad is not None for p in teacher.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())


def test_dropout_is_off_in_the_student_unless_asked_for(tmp_path: Path) -> None:
    for asked in (False, True):
        student = factored(hidden_dropout_prob=0.5)
        trainer = distiller(tmp_path, student, pico("bert", seed=1), stage_of(dropout=asked), steps=1)
        seen: list[bool] = []
        student.register_forward_pre_hook(lambda module, _, seen=seen: seen.append(module.training))
        trainer.train()
        assert set(seen) == {asked}


def test_what_is_frozen_has_no_optimiser_state(tmp_path: Path) -> None:
    """The word table as asked, the pooler because no loss reaches it."""
    student = factored()
    student.get_input_embeddings().requires_grad_(False)
    trainer = distiller(tmp_path, student, pico("bert", seed=1), stage_of(), steps=2)
    before = {name: p.detach().clone() for name, p in student.named_parameters()}
    trainer.train()
    assert trainer.optimizer is not None
    held = {id(p) for p in trainer.optimizer.state}
    changed = {name for name, p in student.named_parameters() if not torch.equal(p, before[name])}
    assert held == {id(p) for p in student.parameters() if p.requires_grad}
    assert changed == {name for name, p in student.named_parameters() if p.requires_grad}
    assert not any("pooler" in name or "word_embeddings" in name for name in changed)


def test_factors_and_the_rest_have_rates_of_their_own(tmp_path: Path) -> None:
    trainer = distiller(tmp_path, factored(), pico("bert", seed=1), stage_of(lr=0.5, lr_rest=0.25, weight_decay=0.1))
    groups = trainer.create_optimizer().param_groups
    rates = {id(p): (group["lr"], group["weight_decay"]) for group in groups for p in group["params"]}
    for name, parameter in trainer.model.named_parameters():
        if parameter.requires_grad:
            assert rates[id(parameter)] == (0.5 if BANKS in name else 0.25, 0.1 if parameter.ndim > 1 else 0.0)


def test_what_a_phase_does_not_reach_stays_as_it_is_meanwhile(tmp_path: Path) -> None:
    """A local phase feeds blocks, so embeddings wait for the second phase, although Adam has momentum by the third."""
    phases: list[dict[str, Any]] = [{"local": True}, {"losses": [{"name": "hidden"}]}, {"local": True}]
    student = factored()
    trainer = distiller(tmp_path, student, pico("bert", seed=1), stage_of(phases=phases), steps=6)
    table = student.embeddings.position_embeddings.weight
    kept = [table.detach().clone()]
    trainer.add_callback(AfterEachStep(lambda: kept.append(table.detach().clone())))
    trainer.train()
    moved = [not torch.equal(a, b) for a, b in pairwise(kept)]
    assert moved == [False, False, True, True, False, False]


class AfterEachStep(TrainerCallback):  # type: ignore[misc]
    def __init__(self, do: Callable[[], None]) -> None:
        self.do = do

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.do()


@pytest.fixture
def narrow() -> PreTrainedModel:
    """One layer of half the teacher's width."""
    return pico("bert", layers=1, hidden_size=16, intermediate_size=64)


def test_another_depth_and_width_learn_through_a_projection(tmp_path: Path, narrow: PreTrainedModel) -> None:
    teacher = pico("bert", layers=3, seed=1)
    trainer = distiller(tmp_path, narrow, teacher, stage_of(map="uniform", lr=0.02, lr_rest=0.02), steps=30)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] < 0.8 * before["eval_loss"] and after["eval_last"] < before["eval_last"]
    assert [tuple(linear.weight.shape) for linear in narrow.tenfold_projections.linears.values()] == [(32, 16)] * 4


def test_states_of_unequal_width_that_no_loss_projects_are_not_measured(tmp_path: Path, narrow: PreTrainedModel) -> None:
    stage = stage_of(losses=[{"name": "relations", "heads": 4, "layers": "last"}], map="uniform")
    trainer = distiller(tmp_path, narrow, pico("bert", layers=3, seed=1), stage)
    assert "eval_last" not in trainer.evaluate()
