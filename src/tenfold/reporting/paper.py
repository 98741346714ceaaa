"""The tables of the ICLR 2022 paper, recomputed from the forms; conventions and differences are in docs/paper-tables.md.

Letters as in the paper: L layers, D width, d rank, l bank; a tile is its D x D block.
"""

from collections.abc import Callable, Mapping
from inspect import signature
from math import prod
from statistics import fmean

from tenfold.errors import TenfoldError, nearest
from tenfold.forms import parameters
from tenfold.reporting.cost import Encoder, Group, flops, make, shared, site_by_site, tile_by_tile, tiled, whole
from tenfold.reporting.formulas import complexity, orders
from tenfold.reporting.printed import Difference, compare, number, printed
from tenfold.reporting.table import Cell, Table

COST_COLUMNS = ("model", "matrices", "Para.", "FLOPS", "FLOPS by site", "FLOPS shared")
COST_NOTES = (
    "Para.: everything but the word table and the task head: matrices, biases, LayerNorms, pooler, positions, types.",
    "FLOPS: the paper's 2 (24 n D d L + 2 n^2 D L) for III and IV: one sequence of n = 128, X U anew for every tile, cores "
    "ready, attention products included; biases, softmax, GELU, LayerNorm and embeddings left out.",
    "FLOPS by site: every linear layer by itself, its cores as they are, 18 D d + 12 d^2 multiply-adds a token and layer.",
    "FLOPS shared: X U once for Q, K, V and once for the In tiles, cores multiplied into V or U beforehand: 16 D d.",
)
TOTAL_NOTE = "A total is the printed Paras - 12 L D^2 + the form's parameters; a ratio is Paras / total. Paras are rounded."
LARGER = ("GPT-II-2048", "GPT-III-2048", "GPT-IV-12-768", "GPT-IV-12-2048", "GPT-IV-144-2048")


def glue() -> Table:
    base, names = Encoder(), ("III-384", "III-64", "IV-72-384", "IV-36-256", "IV-36-128", "II-245", "IV-144-384")
    rows = [_cost("BERT-base", base, tiled(base, None))]
    rows += [_cost(f"BERT-{name}", base, tiled(base, name)) for name in names]
    rows += [_cost(f"BERT-{name}, whole", base, whole(base, name)) for name in ("II-245", "II-alpha-245")]
    half = Encoder(layers=6)
    rows.append(_cost("BERT-6layer", half, tiled(half, None)))
    notes = ("whole: each weight in one piece, 768 x 3072 too, instead of 768 x 768 tiles.",)
    return Table("glue", "Main GLUE table: sizes and FLOPs", COST_COLUMNS, tuple(rows), (*COST_NOTES, *notes))


def san_ffn() -> Table:
    base = Encoder()
    rows = [_cost(f"BERT-{name}", base, tiled(base, name)) for name in ("IV-72-384", "IV-FFN-48-384", "IV-SAN-24-384")]
    rows.insert(0, _cost("BERT-base", base, tiled(base, None)))
    return Table("san-ffn", "Attention or feed-forward alone: sizes and FLOPs", COST_COLUMNS, tuple(rows), COST_NOTES)


def tinybert() -> Table:
    half = Encoder(layers=6)
    rows = [_cost(f"TinyBERT-{name}", half, tiled(half, name)) for name in ("IV-72-384", "IV-72-256")]
    rows.insert(0, _cost("TinyBERT-6layer", half, tiled(half, None)))
    notes = ("Six layers have 72 tiles: a bank of 72 is as large as the group, so IV-72 is III with a mix P.",)
    return Table("tinybert", "TinyBERT, six layers: sizes and FLOPs", COST_COLUMNS, tuple(rows), (*COST_NOTES, *notes))


def _cost(name: str, encoder: Encoder, groups: tuple[Group, ...]) -> tuple[Cell, ...]:
    matrices = sum(group.parameters for group in groups)
    return (
        name,
        matrices,
        matrices + encoder.outside,
        *(flops(encoder, groups, order) for order in (tile_by_tile, site_by_site, shared)),
    )


def embeddings() -> Table:
    rows = []
    for name, sizes in printed("embeddings").given.items():
        paras, rest, n, width = _rest(sizes)
        form = make(f"IV-{n // 2}-{width // 2}", n, 12)
        total = rest + parameters(form, n, width, width)
        bank = rest + prod(form.shapes(n, width, width)["C"])
        rows.append((name, paras, total, paras / total, bank, paras / bank))
    columns = ("model", "Paras", "BERT-IV-12L/2-D/2", "ratio", "bank alone", "bank alone ratio")
    notes = (TOTAL_NOTE, "bank alone: of the form only C, l d^2, which is what the paper counts here.")
    return Table("embeddings", "Half the bank, half the rank, embeddings included", columns, tuple(rows), notes)


def larger() -> Table:
    rows = []
    for name, sizes in printed("larger").given.items():
        paras, rest, n, width = _rest(sizes)
        totals = [rest + parameters(make(method, n, 12), n, width, width) for method in LARGER]
        rows.append((name, paras, *(cell for total in totals for cell in (total, paras / total))))
    columns = ("model", "Paras", *(column for method in LARGER for column in (method, f"{method} ratio")))
    notes = (TOTAL_NOTE, "2048 is more than a D x D tile's rank up to GPT-3 Large: there the factors hold more than the tiles.")
    return Table("larger", "Larger models, embeddings included", columns, tuple(rows), notes)


def _rest(sizes: dict[str, str]) -> tuple[int, int, int, int]:
    """Paras, Paras without the matrices, tiles, width."""
    paras, n, width = round(number(sizes["Paras"])), 12 * int(sizes["L"]), int(sizes["D"])
    return paras, paras - parameters(make(None, n, 12), n, width, width), n, width


def averages() -> Table:
    """SST-2, MNLI-m, MNLI-mm, MRPC, QNLI, QQP, RTE, STS-B."""
    rows = []
    for name, row in printed("averages").given.items():
        scores = [float(score) for score in row["scores"].split()]
        rows.append((name, row["scores"], fmean(scores), fmean(scores[:2] + scores[3:])))
    columns = ("model", "scores", "mean of eight", "without MNLI-mm")
    notes = ("Scores are the printed ones: SST-2, MNLI-m, MNLI-mm, MRPC, QNLI, QQP, RTE, STS-B. Four tables, each model once.",)
    return Table("averages", "Mean GLUE scores", columns, tuple(rows), notes)


def slips() -> Table:
    rows = tuple((where, row["it says"], row["but"]) for where, row in printed("slips").given.items())
    return Table("slips", "Where the paper contradicts itself", ("where", "it says", "but"), rows)


TABLES: dict[str, Callable[..., Table]] = {
    "complexity": complexity,
    "orders": orders,
    "glue": glue,
    "san-ffn": san_ffn,
    "tinybert": tinybert,
    "embeddings": embeddings,
    "larger": larger,
    "averages": averages,
    "slips": slips,
}


def table(name: str, sizes: Mapping[str, int] | None = None) -> Table:
    """One table, at other `sizes` where it is made for any: b, n, D, d, l."""
    if name not in TABLES:
        raise TenfoldError(f'a table must be one of the paper\'s, got "{name}": {nearest(name, TABLES)}')
    known, given = signature(TABLES[name]).parameters, sizes or {}
    for letter, value in given.items():
        if letter not in known:
            raise TenfoldError(f"the sizes of the table {name} are {', '.join(known) or 'fixed'}, got {letter}: leave it out")
        if value < 1:
            raise TenfoldError(f"a size must be 1 or more, got {letter}={value}: give another")
    return TABLES[name](**given)


def check(name: str | None = None, sizes: Mapping[str, int] | None = None) -> list[Difference]:
    """Every printed cell of one table, or of all, beside ours. One that does not agree carries the reason."""
    return [difference for each in ([name] if name else TABLES) for difference in compare(table(each, sizes))]
