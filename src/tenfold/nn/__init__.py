"""Modules that compute with factors. torch only: nothing here knows transformers."""

from tenfold.nn.bank import FactorBank, hold_during_forward
from tenfold.nn.linear import FactoredEmbedding, FactoredLinear

__all__ = ["FactorBank", "FactoredEmbedding", "FactoredLinear", "hold_during_forward"]
