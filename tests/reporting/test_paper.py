"""Every printed cell is computed or explained, and what computes it can fail.

Letters: L layers, D width, d rank, l bank, n tokens of a sequence.
"""

import re
from dataclasses import replace
from math import isclose
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from tenfold.errors import TenfoldError
from tenfold.forms import apply, macs
from tenfold.methods import parse
from tenfold.reporting import cost
from tenfold.reporting.cost import Encoder, flops, shared, site_by_site, tile_by_tile, tiled, whole
from tenfold.reporting.formulas import complexity, formula, orders
from tenfold.reporting.paper import TABLES, check, table
from tenfold.reporting.printed import agrees, compare, evaluate, like, number, printed
from tenfold.reporting.table import Table, show

SIZED = ("glue", "san-ffn", "tinybert")
TWELVE_LAYERS = [("glue", row) for row in printed("glue").cells if row != "BERT-6layer"] + [
    ("san-ffn", row) for row in printed("san-ffn").cells
]


@pytest.mark.parametrize("name", TABLES)
def test_every_printed_cell_agrees_or_has_a_reason(name: str) -> None:
    for difference in check(name):
        assert difference.agrees == (difference.why == ""), difference


@pytest.mark.parametrize("name", TABLES)
def test_every_reason_names_printed_cells(name: str) -> None:
    cells = printed(name).cells
    for reason in printed(name).reasons:
        for column in reason.columns:
            for row in reason.rows or cells:
                assert column in cells[row], f"{name}: {row} / {column}"


def test_all_tables_are_compared() -> None:
    compared = [difference.table for difference in check()]
    expected = {"complexity": 5, "orders": 3, "glue": 16, "san-ffn": 8, "tinybert": 6, "embeddings": 20, "larger": 80}
    assert {name: compared.count(name) for name in expected} == expected
    assert set(compared) == set(TABLES) - {"slips"}


def test_the_page_counts_the_cells_that_agree() -> None:
    page = (Path(__file__).parents[2] / "docs/paper-tables.md").read_text(encoding="utf-8")
    counts = {name: (int(agree), int(cells)) for name, agree, cells in re.findall(r"\| `(.+?)` \|.*\| (\d+) of (\d+) \|", page)}
    compared = {name: check(name) for name in TABLES if name != "slips"}
    assert counts == {name: (sum(cell.agrees for cell in cells), len(cells)) for name, cells in compared.items()}


def test_a_wrong_number_is_found_and_so_is_a_reason_too_many() -> None:
    glue = table("glue")

    def with_cell(column: str, value: int) -> Table:
        at = glue.columns.index(column)
        first = glue.rows[0]
        return replace(glue, rows=((*first[:at], value, *first[at + 1 :]), *glue.rows[1:]))

    wrong = compare(with_cell("Para.", 86_100_000))[0]
    assert (wrong.row, wrong.column, wrong.agrees, wrong.why) == ("BERT-base", "Para.", False, "")
    needless = compare(with_cell("FLOPS", 22_500_000_000))[1]
    assert (needless.row, needless.column, needless.agrees) == ("BERT-base", "FLOPS", True)
    assert needless.why


def test_a_reason_counts_only_while_what_it_follows_gives_the_printed_number() -> None:
    glue = table("glue")
    rows = tuple((row[0], row[1], 0, *row[3:]) if row[0] == "BERT-IV-144-384" else row for row in glue.rows)
    (found,) = (d for d in compare(replace(glue, rows=rows)) if (d.row, d.column) == ("BERT-III-384", "Para."))
    assert (found.agrees, found.why) == (False, "")


@pytest.mark.parametrize(
    ("name", "row", "exact", "text"),
    [
        ("glue", "BERT-base", 86_041_344, "86.0M"),
        ("glue", "BERT-IV-144-384", 22_950_912, "23.0M"),
        ("glue", "BERT-III-384", 22_930_176, "22.9M"),
        ("glue", "BERT-III-64", 1_794_816, "1.8M"),
        ("glue", "BERT-IV-72-384", 12_323_712, "12.3M"),
        ("glue", "BERT-IV-36-256", 3_864_384, "3.9M"),
        ("glue", "BERT-IV-36-128", 1_898_304, "1.9M"),
        ("glue", "BERT-II-245", 55_296_768, "55.3M"),
        ("glue", "BERT-II-245, whole", 41_749_248, "41.7M"),
        ("glue", "BERT-II-alpha-245, whole", 41_766_888, "41.8M"),
        ("glue", "BERT-6layer", 43_514_112, "43.5M"),
        ("san-ffn", "BERT-IV-FFN-48-384", 37_090_560, "37.1M"),
        ("san-ffn", "BERT-IV-SAN-24-384", 61_859_712, "61.9M"),
        ("tinybert", "TinyBERT-IV-72-384", 12_258_624, "12.3M"),
        ("tinybert", "TinyBERT-IV-72-256", 6_163_776, "6.2M"),
    ],
)
def test_para(name: str, row: str, exact: int, text: str) -> None:
    assert table(name).cell(row, "Para.") == exact
    assert show(exact) == text


def test_what_lies_outside_the_tiles_is_what_bert_has() -> None:
    with torch.device("meta"):
        model = BertModel(BertConfig())
    word_table = model.embeddings.word_embeddings.weight.numel()
    base = Encoder()
    assert sum(p.numel() for p in model.parameters()) - word_table == base.outside + base.tiles * base.width**2


@pytest.mark.parametrize(
    ("d", "layers", "text"), [(384, 12, "22.35B"), (256, 12, "15.10B"), (128, 12, "7.85B"), (64, 12, "4.23B")]
)
def test_flops_are_the_papers_formula(d: int, layers: int, text: str) -> None:
    encoder = Encoder(layers=layers)
    ours = flops(encoder, tiled(encoder, f"III-{d}"), tile_by_tile)
    assert ours == 2 * (24 * 128 * 768 * d * layers + 2 * 128**2 * 768 * layers)
    assert show(ours) == text


def test_one_constant_explains_the_flops_of_every_model_with_twelve_layers() -> None:
    low, high = 0.0, float("inf")
    for name, row in TWELVE_LAYERS:
        ours, text = table(name).cell(row, "FLOPS"), printed(name).cells[row]["FLOPS"]
        assert isinstance(ours, int)
        low, high = max(low, number(text) - 5e7 - ours), min(high, number(text) + 5e7 - ours)
    assert isclose(low, 0.103e9, abs_tol=1e6)
    assert isclose(high, 0.122e9, abs_tol=1e6)


def test_the_flops_of_six_layers_are_half_of_those_printed_for_twelve() -> None:
    twelve = printed("glue").cells
    halves = {"TinyBERT-6layer": "BERT-base", "TinyBERT-IV-72-384": "BERT-IV-72-384", "TinyBERT-IV-72-256": "BERT-IV-36-256"}
    for six, full in halves.items():
        assert agrees(printed("tinybert").cells[six]["FLOPS"], number(twelve[full]["FLOPS"]) / 2, table("tinybert"))


@pytest.mark.parametrize(("D", "d"), [(768, 384), (768, 64), (48, 20)])
@pytest.mark.parametrize("method", ["III-{d}", "IV-7-{d}"])
def test_the_three_orders(method: str, D: int, d: int) -> None:
    (group,) = tiled(Encoder(layers=2, width=D), method.format(d=d))
    assert tile_by_tile(group) == 24 * D * d
    assert site_by_site(group) == 18 * D * d + 12 * d**2
    assert shared(group) == 16 * D * d


def test_private_factors_and_dense_tiles_share_nothing() -> None:
    for method in (None, "II-20", "II-alpha-20"):
        groups = tiled(Encoder(layers=2, width=48), method)
        counts = {sum(map(order, groups)) for order in (tile_by_tile, site_by_site, shared)}
        assert counts == {12 * 48**2 if method is None else 24 * 48 * 20}
    assert sum(map(shared, whole(Encoder(layers=2, width=48), "II-20"))) == 18 * 48 * 20


@pytest.mark.parametrize("fold", [cost._into_left, cost._into_right])
@pytest.mark.parametrize("method", ["III-5", "IV-3-5"])
def test_a_folded_core_gives_the_same_outputs(fold: cost.Fold, method: str) -> None:
    form = parse(method).form(4, 4)
    draw = form.draw(4, 16, 16, torch.ones(4), torch.Generator().manual_seed(0))
    (product,) = form.products({name: factor.double() for name, factor in draw.items()})
    for grid in ([[0, 1, 2, 3]], [[0], [1], [2], [3]]):
        x = torch.randn(3, 16 * len(grid), dtype=torch.float64)
        torch.testing.assert_close(apply((fold(product, 4),), grid, x), apply((product,), grid, x))


def test_the_counter_counts_what_the_forms_count() -> None:
    form = parse("IV-7-20").form(24, 12)
    factors = {name: torch.empty(shape, device="meta") for name, shape in form.shapes(24, 48, 48).items()}
    assert cost.counted(lambda: form.products(factors)) == form.fold_macs(24, 48, 48)
    products, x = form.products(factors), torch.empty(1, 48, device="meta")
    assert cost.counted(lambda: apply(products, [[0, 1, 2, 3]], x)) == macs(form, 24, 48, 48, 1, 4)


@pytest.mark.parametrize("sizes", [(32, 128, 768, 384, 72), (3, 5, 24, 8, 7), (1, 16, 32, 30, 2)])
def test_the_papers_orders_hold_at_any_size(sizes: tuple[int, int, int, int, int]) -> None:
    assert all(difference.agrees for difference in compare(orders(*sizes)))


def test_the_shared_order_of_one_layer() -> None:
    b, n, D, d, l = 4, 16, 96, 24, 8  # noqa: E741
    ours = orders(b, n, D, d, l)
    once = 12 * l * d**2 + 12 * D * d**2
    assert ours.cell("shared", "one layer, constants kept") == 16 * b * n * D * d
    assert ours.cell("shared", "one layer") == 16 * b * n * D * d + once
    assert ours.cell("IV-3", "one layer, constants kept") == 24 * b * n * D * d


@pytest.mark.parametrize(("l", "d"), [(72, 384), (36, 128), (144, 64)])
def test_the_papers_formulas_hold_but_for_one(l: int, d: int) -> None:  # noqa: E741
    assert [difference.row for difference in compare(complexity(l, d)) if not difference.agrees] == ["II-alpha"]


def test_formulas_are_read_off_the_shapes_and_have_the_tables_value() -> None:
    assert formula("IV-{l}-{d}") == "2Dd + 12Ll + ld^2"
    assert formula("II-alpha-{d}") == "24LDd + 12Ld"
    ours = complexity(36, 128)
    for method, text, parameters in ours.rows:
        assert evaluate(str(text), ours) == parameters, method


@pytest.mark.parametrize(
    ("one", "other"), [("III-64", "III-65"), ("IV-36-128", "IV-36-129"), ("II-245", "II-246"), ("III-64", "IV-72-64")]
)
def test_other_ranks_give_other_numbers(one: str, other: str) -> None:
    (first,), (second,) = tiled(Encoder(), one), tiled(Encoder(), other)
    assert first.parameters != second.parameters
    if one.split("-")[-1] != other.split("-")[-1]:
        for order in (tile_by_tile, site_by_site, shared):
            assert order(first) < order(second)


def test_a_larger_bank_costs_parameters_and_no_flops() -> None:
    (small,), (large,) = tiled(Encoder(), "IV-36-128"), tiled(Encoder(), "IV-72-128")
    assert large.parameters - small.parameters == 36 * 128**2 + 144 * 36
    assert shared(small) == shared(large)


def test_the_bank_alone_gives_every_cell_of_the_embeddings_table() -> None:
    ours = table("embeddings")
    for row, cells in printed("embeddings").cells.items():
        assert agrees(cells["BERT-IV-12L/2-D/2"], ours.cell(row, "bank alone"), ours)
        assert agrees(cells["ratio"], ours.cell(row, "bank alone ratio"), ours)


def test_the_larger_table_agrees_everywhere() -> None:
    assert all(difference.agrees for difference in check("larger"))


def test_the_slips_quote_numbers_of_the_other_tables() -> None:
    rows = {str(row[0]): f"{row[1]} {row[2]}" for row in table("slips").rows}
    glue, averages = table("glue"), table("averages")
    for row in ("BERT-II-245", "BERT-II-alpha-245, whole"):
        assert show(glue.cell(row, "Para.")) in rows["GLUE, BERT-II-245"]
        assert like("0B", glue.cell(row, "FLOPS")) in rows["GLUE, BERT-II-245"]
    assert show(averages.cell("BERT-III-384", "mean of eight")) in rows["GLUE, BERT-III-384"]


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(TenfoldError, match=r'got "gleu": did you mean "glue"'):
        check("gleu")


@pytest.mark.parametrize(
    ("text", "value", "same", "shown"),
    [
        ("23.0M", 22_950_912, True, "22.95M"),
        ("23.0M", 22_949_999, False, "22.95M"),
        ("37.1 M", 37_090_560, True, "37.09M"),
        ("1.3B", 1_255_970_000, True, "1.26B"),
        ("3.1", 3.03, False, "3.03"),
        ("82.0", 82.05, True, "82.05"),
        ("2Dd", 24, True, "24"),
        ("2Dd", 25, False, "25"),
    ],
)
def test_a_number_agrees_within_half_of_its_last_printed_digit(text: str, value: float, same: bool, shown: str) -> None:
    sizes = Table("", "", (), (), sizes={"D": 4, "d": 3})
    assert agrees(text, value, sizes) == same
    assert like(text, value) == shown


def test_how_cells_are_shown() -> None:
    assert [show(cell) for cell in (None, "x", 3.14, 10_368, 86_041_344, 22_347_251_712)] == [
        "-",
        "x",
        "3.1",
        "10,368",
        "86.0M",
        "22.35B",
    ]
    assert all(len(row) == len(ours.columns) for ours in map(table, TABLES) for row in ours.shown())
