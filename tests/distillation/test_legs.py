"""Phases worked out for two models: their steps, rates and terms."""

from itertools import pairwise
from typing import Any

import pytest

from tenfold.distillation.legs import LABELLED, PAIRS, ROWS, TOKENS, Leg, Models, leg_at, legs, wanted
from tenfold.distillation.stage import parse_stage
from tenfold.errors import RecipeError
from tenfold.tasks import Task

ONE = [{"name": "hidden"}]
REGRESSION = Task("own", "regression", ("text",), "label")


def worked_out(steps: int = 10, models: Models = Models(2, 2), task: Task | None = None, **data: Any) -> list[Leg]:  # noqa: B008
    given = {"text": "wiki.txt"} if task is None else {"stage": "task", "task": {"train": "rows.csv"}}
    return legs(parse_stage(given | data).resolved(), models, steps, task)


@pytest.mark.parametrize("steps", [3, 4, 5, 10, 101])
@pytest.mark.parametrize("shares", [(1, 1, 1), (1, 20, 1), (0.1, 5, 0.1)])
def test_phases_share_all_steps_and_each_has_one(steps: int, shares: tuple[float, ...]) -> None:
    found = worked_out(steps, phases=[{"share": share, "losses": ONE} for share in shares])
    assert (found[0].start, found[-1].stop) == (0, steps)
    assert all(leg.stop > leg.start for leg in found)
    assert all(a.stop == b.start for a, b in pairwise(found))
    assert [leg_at(found, step) for step in range(steps)] == [leg for leg in found for _ in range(leg.start, leg.stop)]
    assert leg_at(found, steps) is found[-1]


def test_fewer_steps_than_phases_are_refused() -> None:
    with pytest.raises(RecipeError, match="each of 3 phases needs a step, got 2 in all: give more tokens or epochs"):
        worked_out(2, phases=[{"losses": ONE}] * 3)


def test_rates_rise_in_the_warm_up_and_fall_to_zero_after_the_last_step() -> None:
    [leg] = worked_out(100, warmup=0.1, losses=ONE)
    rates = [leg.rate(step) for step in range(101)]
    assert all(a < b for a, b in pairwise(rates[:11])) and all(a > b for a, b in pairwise(rates[10:]))
    assert rates[0] > 0 and rates[10] == 1 and rates[100] == 0
    assert rates[55] == pytest.approx(0.5)


def test_short_stages_warm_up_for_as_many_steps_as_long_ones_but_no_more_than_half() -> None:
    def rising(steps: int, **data: Any) -> int:
        [leg] = worked_out(steps, losses=ONE, **data)
        return max(range(steps), key=leg.rate)

    assert [rising(steps, warmup=0.1, warmup_steps=30) for steps in (20, 60, 200, 1000)] == [10, 30, 30, 100]
    assert rising(200) == 100 and rising(10_000) == 500
    assert rising(200, warmup=0.1) == 20


def test_a_constant_phase_stays_level_and_the_next_one_warms_up_again() -> None:
    first, second = worked_out(
        40, warmup=0.25, phases=[{"losses": ONE, "decay": "constant", "lr": 2}, {"losses": ONE, "lr": 0.5}]
    )
    assert [first.rate(step) for step in (5, 19)] == [2, 2]
    assert second.rate(20) < second.rate(25) == 0.5 > second.rate(26)


def test_a_term_says_what_it_counts_and_of_how_many_tensors_it_is_the_mean() -> None:
    names = ["hidden", "vectors", "scores", "answers", "hard_labels", "patient", "sentence"]
    [leg] = worked_out(10, task=REGRESSION, losses=[{"name": name} for name in names])
    terms = {term.name: term for term in leg.terms}
    assert [terms[name].items for name in ("hidden", "vectors", "scores")] == [TOKENS, TOKENS, PAIRS]
    assert [terms[name].items for name in ("logit_mse", "hard_labels", "patient", "sentence")] == [ROWS, LABELLED, ROWS, ROWS]
    assert [terms[name].size for name in ("hidden", "vectors", "logit_mse")] == [2, 6, 1]
    assert terms["hard_labels"].options == {"problem": "regression"}
    assert terms["sentence"].options == {"pooling": "mean"}


def test_a_language_models_logits_are_counted_by_tokens() -> None:
    [leg] = worked_out(10, Models(2, 2, per_token=True), losses=[{"name": "soft_labels"}])
    assert leg.terms[0].items == TOKENS


def test_a_local_phase_has_one_term_over_the_map() -> None:
    [leg] = worked_out(10, Models(2, 6), map="uniform", phases=[{"local": True}])
    assert leg.local and [(term.name, term.pairs, term.size) for term in leg.terms] == [("blocks", ((1, 3), (2, 6)), 2)]


def test_models_keep_only_what_the_losses_read() -> None:
    [leg] = worked_out(10, Models(2, 6), map="uniform", losses=[{"name": "scores", "layers": [2]}, {"name": "soft_labels"}])
    assert wanted(leg, 0).layers == {"hidden": {-1}, "scores": {2}}
    assert wanted(leg, 1).layers == {"hidden": {-1}, "scores": {6}}
    assert wanted(leg, 1).logits
