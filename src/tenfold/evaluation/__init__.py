"""How well a compressed model answers: as its original does, and on labelled tasks."""

from tenfold.evaluation.agreement import Agreement, agreement, embed
from tenfold.evaluation.predicting import predict

__all__ = ["Agreement", "agreement", "embed", "predict"]
