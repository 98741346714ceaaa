"""--to: the share that is kept is what was asked for, nearly and never more."""

import re
from fractions import Fraction
from typing import Any

import pytest
import torch
from pico import HEADS, pico_config
from transformers import BertConfig, BertModel

from tenfold import plan
from tenfold.checkpoints import build
from tenfold.errors import PlanError
from tenfold.forms import LowRank
from tenfold.modules import install_
from tenfold.planning import Candidate, Plan, parse_ratio, plan_model
from tenfold.recipe import Compress


@pytest.fixture(scope="module")
def bert() -> Any:
    return build(BertModel, BertConfig())


def meta(name: str, head: str | None = None) -> Any:
    with torch.device("meta"):
        return HEADS[head].from_config(pico_config(name))


def table_rank(found: Plan) -> int | None:
    """The rank of the word table, where it is factored."""
    return next(
        (group.form.d for group in found.groups if group.name == "embeddings" and isinstance(group.form, LowRank)), None
    )


def candidates(model: Any, to: str, **settings: Any) -> list[Candidate]:
    return plan_model(model, Compress(to=to, **settings))


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("1/48", Fraction(1, 48)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("10%", Fraction(1, 10)),
        (" 2.5 % ", Fraction(1, 40)),
        ("99.9%", Fraction(999, 1000)),
        ("1e-2", Fraction(1, 100)),
    ],
)
def test_a_size_is_a_share(text: str, ratio: Fraction) -> None:
    assert parse_ratio(text) == ratio


@pytest.mark.parametrize("text", ["", "small", "1/0", "10x", "1/2/3", "nan", "inf", "10%%%x"])
def test_what_is_no_share_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(PlanError, match=f'a size must be a share that is kept, got "{text}": write 1/10, 0.1 or 10%'):
        parse_ratio(text)


@pytest.mark.parametrize("text", ["0", "1", "10", "48/1", "100%", "-0.1", "0%"])
def test_a_share_lies_between_nothing_and_everything(text: str) -> None:
    with pytest.raises(PlanError, match=rf"a size must lie between 0 and 1 \(kept / original\), got {text}: 1/10 keeps"):
        parse_ratio(text)


@pytest.mark.parametrize("to", ["1/2", "1/5", "1/10", "1/20", "1/48"])
@pytest.mark.parametrize("of", ["model", "paper", "matrices"])
def test_the_share_is_met_and_used_up(bert: Any, of: str, to: str) -> None:
    asked = float(parse_ratio(to))
    found = candidates(bert, to, of=of)
    assert [candidate.chosen for candidate in found] == [True] + [False] * (len(found) - 1)
    assert 0.9 * asked < found[0].plan.ratio(of) <= asked
    assert all(candidate.plan.ratio(of) <= asked for candidate in found)
    methods = [candidate.plan.method for candidate in found]
    kinds = {re.sub(r"\d+", "", method) for method in methods}
    assert kinds == {"II-", "III-", "IV--", "III-+II-"}
    assert [method.split("-")[1] for method in methods if method.startswith("IV")] == ["72", "36"]
    assert sum(candidate.plan.ratio(of) > 0.9 * asked for candidate in found) >= len(found) - 2


@pytest.mark.parametrize("of", ["model", "paper", "matrices"])
def test_one_more_rank_would_be_too_much(bert: Any, of: str) -> None:
    for candidate in candidates(bert, "1/10", of=of):
        if "+" in candidate.plan.method:
            continue
        *first, rank = candidate.plan.method.split("-")
        larger = "-".join([*first, str(int(rank) + 1)])
        assert plan(bert, larger, tile=candidate.tile, embeddings=table_rank(candidate.plan)).ratio(of) > 0.1


def test_a_candidate_is_the_plan_of_its_name(bert: Any) -> None:
    for candidate in candidates(bert, "1/7", of="paper"):
        assert plan(bert, candidate.plan.method, tile=candidate.tile) == candidate.plan


def test_the_matrices_share_leaves_the_word_table_alone(bert: Any) -> None:
    for of in ("matrices", "paper"):
        assert {table_rank(candidate.plan) for candidate in candidates(bert, "1/48", of=of)} == {None}


def test_the_word_table_shrinks_where_matrices_alone_cannot_pay(bert: Any) -> None:
    large, small = candidates(bert, "1/2")[0], candidates(bert, "1/10")[0]
    assert table_rank(large.plan) is None
    assert "The word table" not in large.why
    assert f"The word table takes rank {table_rank(small.plan)}:" in small.why
    assert table_rank(candidates(bert, "1/10", embeddings=16)[0].plan) == 16


@pytest.mark.parametrize(
    ("sites", "of", "to"),
    [
        ("attention", "matrices", 0.7),
        ("ffn", "matrices", 0.7),
        ("attention", "model", 0.7),
        ("attention", "model", 0.55),
        ("ffn", "model", 0.5),
        ("ffn", "model", 0.3),
    ],
)
def test_a_size_of_some_sites(bert: Any, sites: str, of: str, to: float) -> None:
    found = candidates(bert, str(to), of=of, sites=sites)
    for candidate in found:
        roles = {site.role.split(".")[0] for group in candidate.plan.matrix_groups for site in group.sites}
        assert roles == {{"ffn": "ffn", "attention": "attn"}[sites]}
        assert candidate.plan.ratio(of) <= to
        named = plan(bert, candidate.plan.method, tile=candidate.tile, embeddings=table_rank(candidate.plan))
        assert named.groups == candidate.plan.groups
    assert found[0].plan.ratio(of) > 0.95 * to


@pytest.mark.parametrize("name", ["bert", "llama_gqa", "modernbert", "vit"])
@pytest.mark.parametrize("group", ["all", "role", "none"])
def test_pico_models_reach_a_size_with_what_they_have(name: str, group: str) -> None:
    for index in range(len(candidates(meta(name), "1/3", of="matrices", group=group))):
        model = meta(name)
        found = candidates(model, "1/3", of="matrices", group=group)[index].plan
        install_(model, found)
        assert sum(p.numel() for p in model.parameters()) == found.kept("model")
        assert found.ratio("matrices") <= 1 / 3


SMALLEST = re.compile(r"cannot be met: the smallest that can is 0\.\d{4} \(([\d,]+) of ([\d,]+) parameters\): ask for more")


def smallest(model: Any, **settings: Any) -> Fraction:
    """What the message says that can be had."""
    with pytest.raises(PlanError) as caught:
        candidates(model, "1/100000", **settings)
    match = SMALLEST.search(str(caught.value))
    assert match, str(caught.value)
    kept, total = (int(number.replace(",", "")) for number in match.groups())
    return Fraction(kept, total)


@pytest.mark.parametrize(
    "settings",
    [
        {"of": "paper"},
        {"of": "matrices"},
        {"of": "model"},
        {"of": "model", "group": "role"},
        {"of": "paper", "group": "none"},
        {"of": "paper", "sites": "ffn"},
        {"of": "model", "sites": "ffn"},
        {"of": "model", "embeddings": 16},
        {"of": "matrices", "tile": "whole"},
    ],
    ids=str,
)
def test_the_smallest_size_that_is_named_can_be_had_and_less_cannot(bert: Any, settings: dict[str, Any]) -> None:
    least = smallest(bert, **settings)
    had = candidates(bert, str(least), **settings)[0].plan
    assert had.totals is not None
    assert Fraction(had.kept(settings["of"]), had.totals.of(settings["of"])) == least
    with pytest.raises(PlanError, match="cannot be met"):
        candidates(bert, str(least * Fraction(999, 1000)), **settings)


@pytest.mark.parametrize(("name", "head"), [("vit", None), ("gpt2", "causal_lm"), ("llama_gqa", None)])
def test_the_smallest_size_is_named_for_models_whose_table_stays_too(name: str, head: str | None) -> None:
    assert 0 < smallest(meta(name, head), of="model") < 1


def test_a_size_of_the_model_that_cannot_be_met_hints_at_the_matrices(bert: Any) -> None:
    with pytest.raises(PlanError, match=r"1/1000 of model \(everything\) cannot be met: .*--of matrices"):
        candidates(bert, "1/1000")
