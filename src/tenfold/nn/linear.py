"""Drop-in replacements for the layers whose matrices were factored."""

from typing import Self

import torch
from torch import Tensor, nn

from tenfold.forms import Grid, apply
from tenfold.nn.bank import FactorBank


class _Factored(nn.Module):
    """A layer made of tiles of a bank that another module owns: one key a factor in the state dict."""

    _bank: FactorBank

    def __init__(self, bank: FactorBank, grid: Grid) -> None:
        super().__init__()
        object.__setattr__(self, "_bank", bank)
        self.grid = tuple(tuple(row) for row in grid)

    @property
    def bank(self) -> FactorBank:
        return self._bank

    def matrix(self) -> Tensor:
        """The whole matrix of the site (rows * i, columns * o), as in y = x W."""
        return torch.cat([torch.cat([self._bank.matrix(g) for g in row], dim=1) for row in self.grid])

    def extra_repr(self) -> str:
        return f"tiles={self.grid}, of {self._bank.extra_repr()}"


class FactoredLinear(_Factored):
    """y = x W + bias with W in factored form; called like the `Linear` or `Conv1D` that it replaces.

    A shortcut (see tenfold.runtime) computes the same from constants made of the factors. It is used where no gradient is
    asked for, as long as the factors are what they were, and goes with `train()`.
    """

    def __init__(self, bank: FactorBank, grid: Grid, bias: bool) -> None:
        super().__init__(bank, grid)
        self.in_features, self.out_features = len(grid) * bank.i, len(grid[0]) * bank.o
        self.bias = nn.Parameter(torch.empty(self.out_features)) if bias else None
        self.shortcut: nn.Module | None = None

    @property
    def weight(self) -> Tensor:
        """The matrix as a `Linear` stores it (out, in), for code that looks at it; rebuilt at every access."""
        return self.matrix().T

    def train(self, mode: bool = True) -> Self:
        if mode and self.shortcut is not None:
            self.drop_shortcut()
        return super().train(mode)

    def drop_shortcut(self) -> None:
        del self.shortcut  # a module that is set to None stays in the list of children
        self.shortcut = None
        self._bank.unfold_()

    def forward(self, x: Tensor) -> Tensor:
        if self.shortcut is not None and self._bank.folded and not torch.is_grad_enabled():
            return self.shortcut(x, self.bias)
        y = apply(self._bank.products(), self.grid, x)
        return y if self.bias is None else y + self.bias.to(y.dtype)  # autocast keeps y in half


class FactoredEmbedding(_Factored):
    """A table of vectors E = A B: a row of A is looked up, then multiplied with B. One tile, form low_rank."""

    def __init__(self, bank: FactorBank, grid: Grid, padding_idx: int | None = None) -> None:
        super().__init__(bank, grid)
        self.num_embeddings, self.embedding_dim, self.padding_idx = bank.i, bank.o, padding_idx

    @property
    def weight(self) -> Tensor:
        return self.matrix()

    def forward(self, ids: Tensor) -> Tensor:
        factors = self._bank.factors()
        return torch.nn.functional.embedding(ids, factors["A"][0], self.padding_idx) @ factors["B"][0]
