"""What makes a compressed model fast: folded constants, whole blocks, and the planner that chooses among them."""

from tenfold.runtime.optimizing import Optimized, optimize_, restore_
from tenfold.runtime.serving import optimize_folder
from tenfold.runtime.ways import AUTO, CHAIN, DENSE, FUSED, MEANING, PATHS, PLAIN

__all__ = [
    "AUTO",
    "CHAIN",
    "DENSE",
    "FUSED",
    "MEANING",
    "PATHS",
    "PLAIN",
    "Optimized",
    "optimize_",
    "optimize_folder",
    "restore_",
]
