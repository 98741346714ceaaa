from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """rows a block, step (keys, or hidden columns) and columns of D at a time, warps; stages of the loop and of the closing ones."""

    rows: int
    step: int
    columns: int
    warps: int
    stages: int
    closing: int
