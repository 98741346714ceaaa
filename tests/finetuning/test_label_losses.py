"""Losses are torch's own, weights scikit-learn's, and a step's loss does not change when its batch is split."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pico import pico
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional as F

from tenfold.errors import TenfoldError
from tenfold.finetuning.losses import Scale, balanced_weights, cosine_scale, row_losses, row_weights
from tenfold.finetuning.settings import Finetune, parse_finetune
from tenfold.finetuning.trainer import parameter_groups
from tenfold.nn import FactorBank
from tenfold.tasks import Rows, Task

TASK = Task("x", "classification", ("text",), "label", ("a", "b", "c"), ("accuracy",))


def rows(*labels: Any) -> Rows:
    return Rows(tuple((str(i),) for i in range(len(labels))), labels)


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    labels = [0, 1, 1, 2, 2, 2, 2, 1, 0, 2]
    expected = compute_class_weight("balanced", classes=np.arange(3), y=np.array(labels))
    np.testing.assert_allclose(balanced_weights(TASK, rows(*labels)).numpy(), expected, rtol=1e-6)


def test_balanced_weights_need_every_class_and_one_class_a_row() -> None:
    with pytest.raises(TenfoldError, match="got none of b in train"):
        balanced_weights(TASK, rows(0, 2, 2))
    with pytest.raises(TenfoldError, match="got regression"):
        balanced_weights(replace(TASK, kind="regression", labels=()), rows(0.5))


def test_the_weighted_mean_is_that_of_cross_entropy() -> None:
    outputs, labels, weights = torch.randn(7, 3), torch.tensor([0, 1, 2, 1, 0, 2, 2]), torch.tensor([0.2, 1.0, 3.0])
    losses, each = row_losses(TASK, outputs, labels), row_weights(labels, weights)
    torch.testing.assert_close((losses * each).sum() / each.sum(), F.cross_entropy(outputs, labels, weight=weights))
    torch.testing.assert_close(row_weights(labels, None), torch.ones(7))


def test_losses_of_the_other_kinds() -> None:
    several = replace(TASK, kind="multi_label")
    outputs, held = torch.randn(5, 3), torch.randint(0, 2, (5, 3)).float()
    torch.testing.assert_close(row_losses(several, outputs, held).mean(), F.binary_cross_entropy_with_logits(outputs, held))
    number = replace(TASK, kind="regression", labels=())
    outputs, true = torch.randn(5, 1), torch.randn(5)
    torch.testing.assert_close(row_losses(number, outputs, true).mean(), F.mse_loss(outputs[:, 0], true))
    cosine = replace(number, kind="embedding")
    torch.testing.assert_close(row_losses(cosine, outputs, true, Scale(1.0, 4.0)), (outputs[:, 0] - (true - 1) / 4).square())


def test_scores_become_cosines() -> None:
    assert cosine_scale([-0.2, 0.9]) == Scale()
    scale = cosine_scale([0.0, 2.5, 5.0])
    torch.testing.assert_close(scale(torch.tensor([0.0, 2.5, 5.0])), torch.tensor([0.0, 0.5, 1.0]))
    assert cosine_scale([3.0, 3.0]).width == 1.0


def test_factors_learn_at_a_multiple_of_the_rate_and_vectors_do_not_decay() -> None:
    import tenfold

    model = pico("bert", "sequence_classification")
    tenfold.compress_(model, tenfold.plan(model, "III-8"), init="random")
    groups = parameter_groups(model, 1e-3, Finetune(factors=5, weight_decay=0.1))
    banks = {id(p) for module in model.modules() if isinstance(module, FactorBank) for p in module.parameters()}
    assert banks
    seen = [id(p) for group in groups for p in group["params"]]
    assert sorted(seen) == sorted({id(p) for p in model.parameters()})
    for group in groups:
        for parameter in group["params"]:
            assert group["lr"] == pytest.approx(5e-3 if id(parameter) in banks else 1e-3)
            assert group["weight_decay"] == (0.1 if parameter.ndim > 1 else 0.0)
    (head,) = parameter_groups(model, 1e-3, Finetune(), {id(model.classifier.weight)})
    assert [id(p) for p in head["params"]] == [id(model.classifier.weight)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"lrs": 1}, 'did you mean "lr"'),
        ({"lr": []}, "lr is wrong"),
        ({"lr": [0.0]}, "lr"),
        ({"batch": [0]}, "batch"),
        ({"theseus": {"teacher": "x", "strat": 0.1}}, 'did you mean "start"'),
        ({"class_weights": "some"}, "class_weights"),
    ],
)
def test_settings_are_strict(given: dict[str, Any], told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        parse_finetune(given)
