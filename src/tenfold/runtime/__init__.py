"""What makes a compressed model fast: folded constants, whole blocks, and the planner that chooses among them."""

from tenfold.runtime.encoders import NoBlocks
from tenfold.runtime.encoding import dense_blocks_
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
    "NoBlocks",
    "Optimized",
    "dense_blocks_",
    "optimize_",
    "optimize_folder",
    "restore_",
]
