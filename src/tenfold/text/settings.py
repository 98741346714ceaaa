"""How text becomes rows of tokens."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from tenfold.errors import TenfoldError, nearest

Mode = Literal["packed", "paragraph"]


@dataclass(frozen=True)
class Settings:
    """length: tokens of a row, special tokens included.
    mode: packed (full rows of running text) or paragraph (a row ends where its paragraph ends).
    pairs: share of rows that are two segments, [CLS] A [SEP] B [SEP]; half of these continue in B what A begins, within one
    document, and half have a B from elsewhere.
    limit: stop after this many tokens of text.
    key: where the text is in a line of JSONL.
    """

    length: int = 128
    mode: Mode = "packed"
    pairs: float = 0.0
    limit: int | None = None
    key: str = "text"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise TenfoldError(f'mode must be packed or paragraph, got "{self.mode}": {nearest(self.mode, get_args(Mode))}')
        if not 0 <= self.pairs <= 1:
            raise TenfoldError(f"pairs must be a share from 0 to 1, got {self.pairs}: 0.5 makes every second row a pair")
        if self.length < 1:
            raise TenfoldError(f"length must be at least 1 token, got {self.length}: 128 is usual")
        if self.limit is not None and self.limit < 1:
            raise TenfoldError(f"limit must be at least 1 token, got {self.limit}: leave it out for all of the text")

    def as_dict(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}
