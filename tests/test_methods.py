"""Names of methods: what each stands for, and what a wrong one is told."""

import pytest

from tenfold.errors import PlanError
from tenfold.forms import Form, LayerShared, LowRank, Mixed, TensorTrain, Tucker
from tenfold.methods import ALL, ATTENTION, EXAMPLES, FFN, parse

N, PER_LAYER = 144, 12

NAMES: dict[str, tuple[str, Form]] = {
    "II-245": (ALL, LowRank(245)),
    "II-beta-245": (ALL, LowRank(245)),
    "II-alpha-245": (ALL, LowRank(245, diagonal=True)),
    "III-384": (ALL, TensorTrain(384, 384)),
    "III-64": (ALL, TensorTrain(64, 64)),
    "III-128x96": (ALL, TensorTrain(128, 96)),
    "IV-72-384": (ALL, Tucker(72, 384, 384)),
    "IV-36-256": (ALL, Tucker(36, 256, 256)),
    "IV-36-128": (ALL, Tucker(36, 128, 128)),
    "IV-36-128x96": (ALL, Tucker(36, 128, 96)),
    "IV-FFN-48-384": (FFN, Tucker(48, 384, 384)),
    "IV-SAN-24-384": (ATTENTION, Tucker(24, 384, 384)),
    "III-SAN-64": (ATTENTION, TensorTrain(64, 64)),
    "II-alpha-FFN-8": (FFN, LowRank(8, diagonal=True)),
    "ALBERT": (ALL, LayerShared(PER_LAYER, N)),
    "ALBERT-FFN": (FFN, LayerShared(PER_LAYER, N)),
    "III-64+II-4": (ALL, Mixed(TensorTrain(64, 64), LowRank(4))),
    "IV-36-128+II-alpha-4": (ALL, Mixed(Tucker(36, 128, 128), LowRank(4, diagonal=True))),
    "IV-SAN-24-384+II-SAN-8": (ATTENTION, Mixed(Tucker(24, 384, 384), LowRank(8))),
    "ALBERT+II-8": (ALL, Mixed(LayerShared(PER_LAYER, N), LowRank(8))),
}


@pytest.mark.parametrize(("name", "sites", "form"), [(name, *meaning) for name, meaning in NAMES.items()], ids=NAMES)
def test_a_name_stands_for_sites_and_a_form(name: str, sites: str, form: Form) -> None:
    method = parse(name)
    assert method.name == name
    assert method.sites == sites
    assert method.form(N, PER_LAYER) == form


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("iv-36-128", "IV-36-128"),
        ("ii-ALPHA-245", "II-alpha-245"),
        ("Albert", "ALBERT"),
        ("iv-san-24-384", "IV-SAN-24-384"),
        ("BERT-IV-36-128", "IV-36-128"),
        ("TinyBERT-IV-72-256", "IV-72-256"),
        ("GPT-III-64", "III-64"),
        ("  III-64 + II-4 ", "III-64+II-4"),
        ("bert-iii-64+bert-ii-4", "III-64+II-4"),
    ],
)
def test_case_spaces_and_the_models_name_do_not_matter(name: str, plain: str) -> None:
    found, expected = parse(name), parse(plain)
    assert (found.sites, found.parts) == (expected.sites, expected.parts)


def test_the_examples_in_messages_are_names() -> None:
    assert len([parse(example) for example in EXAMPLES.split(", ")]) > 5


@pytest.mark.parametrize(
    "name", ["", "V-3", "IV36-128", "IV-36-128-", "IV--36-128", "IV-a-b", "III-64x", "BERT", "III-64+", "+"]
)
def test_what_is_no_name_is_told_some(name: str) -> None:
    with pytest.raises(
        PlanError, match=r"a method must be one of the paper's names or a sum of two, got .*: (did you mean|known:)"
    ):
        parse(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("IV-FNN-48-384", "IV-FFN-48-384"), ("IV36-128", "IV-36-128"), ("ALBRT", "ALBERT"), ("II-alfa-245", "II-alpha-245")],
)
def test_what_is_no_name_is_told_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(PlanError, match=f'got "{name}": did you mean "{meant}"'):
        parse(name)


def test_three_parts_are_too_many() -> None:
    with pytest.raises(PlanError, match=r'a sum of two, got "III-64\+II-4\+II-4"'):
        parse("III-64+II-4+II-4")


@pytest.mark.parametrize(
    "name",
    ["II", "II-2-3", "II-2x3", "III", "III-3-4", "IV-36", "IV-36-128-64", "IV-36x2-128", "ALBERT-3", "III-64+II", "III+II-4"],
)
def test_the_wrong_number_of_numbers_is_told_how_many(name: str) -> None:
    rule = "II and III take one rank, IV a bank size and a rank, ALBERT none, got"
    with pytest.raises(PlanError, match=rule):
        parse(name)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("II-4+III-64", "put III, IV or ALBERT first"),
        ("II-4+II-4", "put III, IV or ALBERT first"),
        ("III-64+IV-36-64", "the second part must be II-d"),
        ("III-64+ALBERT", "the second part must be II-d"),
    ],
)
def test_a_sum_is_shared_and_private(name: str, advice: str) -> None:
    with pytest.raises(PlanError, match=f"a sum is a shared form . a private II, got .*: {advice}"):
        parse(name)


@pytest.mark.parametrize("name", ["IV-SAN-24-384+II-8", "IV-24-384+II-SAN-8", "IV-SAN-24-384+II-FFN-8"])
def test_both_parts_of_a_sum_take_the_same_sites(name: str) -> None:
    with pytest.raises(
        PlanError, match=r"both parts of a sum must take the same sites, got .*: name SAN or FFN in both or in neither"
    ):
        parse(name)
