"""A student's block or its teacher's: which runs is p's to say in training, and the student's alone in eval mode."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pico import inputs, pico
from torch import Tensor

from tenfold.errors import TenfoldError
from tenfold.finetuning.blocks import block_list
from tenfold.finetuning.settings import Theseus
from tenfold.finetuning.theseus import Replacing, Schedule, inherit_

QUIET: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
HEAD = "sequence_classification"


def pair(name: str = "bert", **kw: Any) -> tuple[Any, Any]:
    return pico(name, HEAD, layers=2, seed=1, **kw), pico(name, HEAD, layers=4, seed=2, **kw)


def logits(model: Any) -> Tensor:
    with torch.no_grad():
        found = model(**inputs(model)).logits
    assert isinstance(found, Tensor)
    return found


@pytest.mark.parametrize(
    ("name", "quiet"),
    [("bert", QUIET), ("distilbert", {"dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0}), ("llama", {})],
)
def test_p_decides_in_training_only(name: str, quiet: dict[str, float]) -> None:
    student, teacher = pair(name, **quiet)
    own, theirs = logits(student), logits(teacher)
    inherit_(student, teacher)
    mine = logits(student)
    with Replacing(student, teacher, p=0.0) as replacing:
        torch.testing.assert_close(logits(student), mine)
        student.train()
        torch.testing.assert_close(logits(student), theirs)
        replacing.p = 1.0
        torch.testing.assert_close(logits(student), mine)
        student.eval()
    torch.testing.assert_close(logits(student), mine)
    assert not torch.allclose(mine, own) and not torch.allclose(mine, theirs)
    assert all("forward" not in vars(block) for block in block_list(student)[1])


def test_only_blocks_are_left_to_learn() -> None:
    import tenfold

    student, teacher = pair()
    tenfold.compress_(student, tenfold.plan(student, "III-8"), init="random")
    left = inherit_(student, teacher)
    names = {name for name, parameter in student.named_parameters() if id(parameter) in left}
    assert any("factor_banks" in name for name in names)
    assert all("factor_banks" in name or ".layer." in name for name in names)
    assert torch.equal(student.classifier.weight, teacher.classifier.weight)
    assert torch.equal(student.get_input_embeddings().weight, teacher.get_input_embeddings().weight)


def test_gradients_reach_the_student_through_the_teacher_which_stays() -> None:
    student, teacher = pair(**QUIET)
    student.train()
    torch.manual_seed(1)
    with Replacing(student, teacher, p=0.5):
        for _ in range(4):
            student(**inputs(student)).logits.sum().backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert any(p.grad is not None for p in block_list(student)[1][0].parameters())


def test_the_schedule_ends_with_the_student_alone() -> None:
    student, teacher = pair()
    with Replacing(student, teacher, p=0.0) as replacing:
        schedule = Schedule(replacing, Theseus(teacher="t", start=0.2, share=0.5))
        found = []
        for step in (0, 25, 50, 99):
            schedule.on_step_begin(None, SimpleNamespace(global_step=step, max_steps=100), None)
            found.append(replacing.p)
    assert found == pytest.approx([0.2, 0.6, 1.0, 1.0])


@pytest.mark.parametrize(
    ("student", "teacher", "told"),
    [
        (("bert", 2), ("bert", 3), "got 2 and 3"),
        (("bert", 2), ("electra", 4), "got bert of width 32 and electra"),
        (("modernbert", 2), ("modernbert", 4), "whose layers differ"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(student: tuple[str, int], teacher: tuple[str, int], told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        Replacing(pico(student[0], HEAD, layers=student[1]), pico(teacher[0], HEAD, layers=teacher[1]), 0.5)
