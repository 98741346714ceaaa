"""How well a compressed model answers as its original does."""

from tenfold.evaluation.agreement import Agreement, agreement, embed

__all__ = ["Agreement", "agreement", "embed"]
