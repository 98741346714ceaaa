"""What an encoder costs under a method, counted from the shapes of its factors.

Letters: L layers, D width, d rank, l bank, n tiles (12 L of D x D, the paper's blocks) or tokens of a sequence where said.

A count of multiply-adds is a token's, in one layer, in one of three orders that give the same outputs:

`tile_by_tile` X U anew for every tile, P C and (P C) V ready: 24 D d for III and IV (the paper's IV-3)
`site_by_site` `forms.macs` of every site by itself, cores as they are: 18 D d + 12 d^2
`shared`       X U once for Q, K, V and once for the In tiles, cores multiplied into V there and into U in Out: 16 D d
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tenfold.forms import Form, LayerShared, Product, apply, macs, parameters
from tenfold.methods import ALL, ATTENTION, FFN, parse

Fold = Callable[[Product, int], Product]


@dataclass(frozen=True)
class Site:
    """A weight of rows x columns tiles; `readers` of them read the same input (Q, K, V)."""

    rows: int
    columns: int
    readers: int = 1


QKV, OUTPUT, IN, OUT = Site(1, 1, 3), Site(1, 1), Site(1, 4), Site(4, 1)


@dataclass(frozen=True)
class Group:
    """n tiles of (i, o) in one form, and the sites that they make up in one layer."""

    form: Form
    n: int
    i: int
    o: int
    sites: tuple[Site, ...]

    @property
    def parameters(self) -> int:
        return parameters(self.form, self.n, self.i, self.o)

    def products(self) -> tuple[Product, ...]:
        shapes = self.form.shapes(self.n, self.i, self.o)
        return self.form.products({name: torch.empty(shape, device="meta") for name, shape in shapes.items()})


@dataclass(frozen=True)
class Encoder:
    """BERT's sizes. `outside` counts all but the 12 L tiles and the word table: what every method leaves as it is."""

    layers: int = 12
    width: int = 768
    positions: int = 512
    types: int = 2

    @property
    def tiles(self) -> int:
        return 12 * self.layers

    @property
    def outside(self) -> int:
        """L (9 D biases + 4 D LayerNorms) + pooler D^2 + D + positions, types and their LayerNorm."""
        d = self.width
        return self.layers * 13 * d + d * d + d + (self.positions + self.types + 2) * d


def tiled(encoder: Encoder, method: str | None) -> tuple[Group, ...]:
    """The groups of a method on D x D tiles; None is I, the dense model."""
    sites = parse(method).sites if method else ""
    if sites == ALL:
        return (_group(encoder, method, 12, (QKV, OUTPUT, IN, OUT)),)
    return (
        _group(encoder, method if sites == ATTENTION else None, 4, (QKV, OUTPUT)),
        _group(encoder, method if sites == FFN else None, 8, (IN, OUT)),
    )


def whole(encoder: Encoder, method: str) -> tuple[Group, ...]:
    """The groups of a method that takes each weight in one piece: D x D, D x 4D and 4D x D."""
    n, d = encoder.layers, encoder.width
    form = parse(method).form
    return (
        Group(form(4 * n, 4), 4 * n, d, d, (QKV, OUTPUT)),
        Group(form(n, 1), n, d, 4 * d, (OUTPUT,)),
        Group(form(n, 1), n, 4 * d, d, (OUTPUT,)),
    )


def make(method: str | None, n: int, per_layer: int) -> Form:
    """The form of a method for n tiles; the dense model shares nothing: a matrix of its own for each tile."""
    return parse(method).form(n, per_layer) if method else LayerShared(n, n)


def _group(encoder: Encoder, method: str | None, per_layer: int, sites: tuple[Site, ...]) -> Group:
    n = per_layer * encoder.layers
    return Group(make(method, n, per_layer), n, encoder.width, encoder.width, sites)


def tile_by_tile(group: Group) -> int:
    tile = sum(_applied(_into_right(product, 1), group.i, 1, 1) for product in group.products())
    return tile * sum(site.rows * site.columns * site.readers for site in group.sites)


def site_by_site(group: Group) -> int:
    return sum(s.readers * macs(group.form, group.n, group.i, group.o, s.rows, s.columns) for s in group.sites)


def shared(group: Group) -> int:
    return sum(_cheapest(p, group.i, site)[0] for site in group.sites for p in group.products())


def shared_once(group: Group) -> int:
    """Multiply-adds of one layer's cores into U or V: what `shared` pays once, whatever the number of tokens."""
    return sum(_cheapest(p, group.i, site)[1] for site in group.sites for p in group.products())


def flops(encoder: Encoder, groups: tuple[Group, ...], order: Callable[[Group], int], tokens: int = 128) -> int:
    """2 L (tokens * matrices + 2 tokens^2 D): one sequence, attention products included, nothing else."""
    matrices = sum(order(group) for group in groups)
    return 2 * encoder.layers * (tokens * matrices + 2 * tokens**2 * encoder.width)


def counted(work: Callable[[], object]) -> int:
    """The multiply-adds of the matrix products that `work` does on meta tensors, by torch's own counter."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops()) // 2


def _cheapest(product: Product, i: int, site: Site) -> tuple[int, int]:
    """(a token, once) of the cheapest way through a site: the core as it is, inside V, or inside U."""
    rows, columns = site.rows, site.columns * site.readers
    return min(_way(fold, product, i, rows, columns) for fold in (_keep, _into_right, _into_left))


def _way(fold: Fold, product: Product, i: int, rows: int, columns: int) -> tuple[int, int]:
    once = counted(lambda: fold(product, rows * columns))
    return _applied(fold(product, rows * columns), i, rows, columns), once


def _applied(product: Product, i: int, rows: int, columns: int) -> int:
    grid = [[row * columns + column for column in range(columns)] for row in range(rows)]
    x = torch.empty(1, rows * i, device="meta")
    return counted(lambda: apply((product,), grid, x))


def _keep(product: Product, _: int) -> Product:
    return product


def _into_right(product: Product, tiles: int) -> Product:
    if product.core is None or product.core[0].ndim == 1 or not isinstance(product.right, Tensor):
        return product
    return Product(product.left, None, tuple(core @ product.right for core in product.core[:tiles]))


def _into_left(product: Product, tiles: int) -> Product:
    if product.core is None or product.core[0].ndim == 1 or not isinstance(product.left, Tensor):
        return product
    return Product(tuple(product.left @ core for core in product.core[:tiles]), None, product.right)
