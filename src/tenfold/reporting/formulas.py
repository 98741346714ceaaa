"""The paper's two tables of formulas, as numbers: space of the methods, multiply-adds of the multiplication orders.

Letters as in the paper: L layers, D width, d rank, l bank, b sequences, n tokens of each; a tile is its D x D block.
"""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor

from tenfold.forms import Form, Shape, parameters
from tenfold.reporting.cost import Encoder, counted, make, shared, shared_once, tiled
from tenfold.reporting.table import Cell, Table

METHODS = {"I": None, "II-alpha": "II-alpha-{d}", "II-beta": "II-{d}", "III": "III-{d}", "IV": "IV-{l}-{d}"}

Multiply = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
MULTIPLICATIONS: dict[str, tuple[str, Multiply]] = {
    "IV-1": ("X (U ((PC) V))", lambda x, u, core, v: x @ (u @ (core @ v))),
    "IV-2": ("((X U) (PC)) V", lambda x, u, core, v: ((x @ u) @ core) @ v),
    "IV-3": ("(X U) ((PC) V)", lambda x, u, core, v: (x @ u) @ (core @ v)),
}


def complexity(l: int = 72, d: int = 384) -> Table:  # noqa: E741 - the paper's name
    base = Encoder()
    forms = {name: _form(method, l, d, base.tiles) for name, method in METHODS.items()}
    return Table(
        "complexity",
        f"Space complexity, and its value for BERT-base at l = {l}, d = {d}",
        ("method", "formula", "parameters"),
        tuple(
            (name, formula(METHODS[name]), parameters(form, base.tiles, base.width, base.width)) for name, form in forms.items()
        ),
        ("The formulas are read off the shapes of the factors.",),
        {"L": base.layers, "D": base.width, "d": d, "l": l},
    )


def formula(method: str | None) -> str:
    """The parameters of a method in letters: each factor's sizes are recognised by their values."""
    total: Counter[str] = Counter()
    for shape in _form(method, 3, 5, 84).shapes(84, 13, 13).values():
        total[_letters(shape)] += 12 if 84 in shape else 1
    return " + ".join(f"{count if count > 1 else ''}{letters}" for letters, count in total.items())


def _letters(shape: Shape) -> str:
    letters = Counter(sorted(({84: "L", 3: "l", 13: "D", 5: "d"}[size] for size in shape), key="LlDd".index))
    return "".join(letter if power == 1 else f"{letter}^{power}" for letter, power in letters.items())


def _form(method: str | None, l: int, d: int, n: int) -> Form:  # noqa: E741
    return make(method and method.format(l=l, d=d), n, 12)


def orders(b: int = 32, n: int = 128, D: int = 768, d: int = 384, l: int = 72) -> Table:  # noqa: E741
    form, tokens = _form(METHODS["IV"], l, d, 1), b * n
    rows: list[tuple[Cell, ...]] = []
    for name, (text, multiply) in MULTIPLICATIONS.items():
        constants, tile = (form.fold_macs(1, D, D) + _products(form, D, t, multiply) for t in (0, tokens))
        rows.append((name, text, tile, 12 * tile, 12 * (tile - constants)))
    (layer,) = tiled(Encoder(layers=1, width=D), f"IV-{l}-{d}")
    kept, once = tokens * shared(layer), shared_once(layer) + layer.form.fold_macs(layer.n, D, D)
    rows.append(("shared", "X U once an input, ((PC) V) or (U (PC))", None, once + kept, kept))
    return Table(
        "orders",
        f"Multiply-adds of the multiplication orders at b = {b}, n = {n}, D = {D}, d = {d}, l = {l}",
        ("order", "multiplication", "one tile", "one layer", "one layer, constants kept"),
        tuple(rows),
        (
            "Counted by torch on the products themselves. A layer has 12 tiles.",
            "Constants are the products without X. Kept, they are computed once and not in every call.",
            "At D = 2 d IV-3 costs the b n D^2 of the dense tile: the paper's models with d = 384 save no multiplication.",
        ),
        {"b": b, "n": n, "D": D, "d": d, "l": l},
    )


def _products(form: Form, width: int, tokens: int, multiply: Multiply) -> int:
    """Multiply-adds of one tile by `multiply`, its core P C being there already."""
    factors = {name: torch.empty(shape, device="meta") for name, shape in form.shapes(1, width, width).items()}
    (product,) = form.products(factors)
    left, core, right = product.left, product.core, product.right
    assert isinstance(left, Tensor)
    assert isinstance(right, Tensor)
    assert core is not None
    x = torch.empty(tokens, width, device="meta")
    return counted(lambda: multiply(x, left, core[0], right))
