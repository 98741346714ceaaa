"""What makes a compressed model fast: folded constants, and the planner that chooses them."""

from tenfold.runtime.optimizing import Optimized, optimize_, restore_
from tenfold.runtime.serving import optimize_folder
from tenfold.runtime.ways import AUTO, CHAIN, DENSE, MEANING, PATHS, PLAIN

__all__ = ["AUTO", "CHAIN", "DENSE", "MEANING", "PATHS", "PLAIN", "Optimized", "optimize_", "optimize_folder", "restore_"]
