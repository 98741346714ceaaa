"""The ways in which layers that read the same x can be computed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tenfold.forms import Product, describe
from tenfold.nn import FactorBank, FactoredLinear
from tenfold.runtime.cost import Work, folded_work, plain_work
from tenfold.runtime.fold import Folded, dense, fold

AUTO, DENSE, CHAIN, PLAIN, FUSED = "auto", "dense", "chain", "plain", "fused"
LAYERS, KERNELS, BLOCKS, DENSE_BLOCKS = "layers", "kernels", "blocks", "dense blocks"
"""How an encoder is computed."""
MEANING = {
    DENSE: "every matrix multiplied out",
    CHAIN: "factors with the cores folded in, x U once for the layers that read the same x",
    PLAIN: "the factors as they are",
    LAYERS: "the model's own layers, one by one",
    KERNELS: "two kernels a layer, on the real tokens alone",
    BLOCKS: "the layers' ways as one chain of products, on the real tokens alone",
    DENSE_BLOCKS: "the same chain with every matrix multiplied out",
}
PATHS = (AUTO, DENSE, CHAIN, PLAIN, FUSED)
ENCODERS = (LAYERS, KERNELS, BLOCKS, DENSE_BLOCKS)


@dataclass(frozen=True, eq=False)
class Readers:
    """Layers of one bank that read the same x, by path."""

    paths: tuple[str, ...]
    layers: tuple[FactoredLinear, ...]

    @property
    def bank(self) -> FactorBank:
        return self.layers[0].bank

    @property
    def width(self) -> int:
        return self.layers[0].in_features

    @property
    def kind(self) -> str:
        """The same for layers that cost the same: form, tile, and the tiles of each layer."""
        bank = self.bank
        tiles = ", ".join(f"{len(layer.grid)} x {len(layer.grid[0])}" for layer in self.layers)
        return f"{describe(bank.form)}; {bank.i} x {bank.o}; {tiles}"


def folded(readers: Readers, path: str, products: Sequence[Product]) -> Folded:
    """`products`: of the readers' bank."""
    make = {DENSE: dense, CHAIN: fold}[path]
    return make(products, [layer.grid for layer in readers.layers])


def exact_products(bank: FactorBank) -> tuple[Product, ...]:
    """A bank's products in single precision at least: constants are rounded once, at the end."""
    dtype = torch.promote_types(next(bank.parameters()).dtype, torch.float32)
    return bank.form.products({name: factor.detach().to(dtype) for name, factor in bank.factors().items()})


def works(readers: Readers) -> dict[str, Work]:
    """What each way costs, from shapes alone."""
    bank = readers.bank
    meta: dict[str, Tensor] = {
        name: torch.empty(shape, device="meta") for name, shape in bank.form.shapes(bank.n, bank.i, bank.o).items()
    }
    products, grids = bank.form.products(meta), [layer.grid for layer in readers.layers]
    return {
        DENSE: folded_work(folded(readers, DENSE, products)),
        CHAIN: folded_work(folded(readers, CHAIN, products)),
        PLAIN: plain_work(bank.form, products, grids, bank.n, bank.i, bank.o),
    }
