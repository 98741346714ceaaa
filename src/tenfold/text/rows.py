"""Which stretches of a token stream make up each row: planned in one pass, with no token moved.

A row is (a, b, c, d): text A is tokens[a:b] and text B tokens[c:d]; c = d = 0 for a row of one text.
"""

from array import array
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from tenfold.text.settings import Settings

Row = tuple[int, int, int, int]

_PATIENCE = 8
"""How many adjacent pairs wait for a document long enough to fill a row, before the next one makes do with a shorter row."""

_TRIES = 32
_LOOK_AHEAD = 64


@dataclass(frozen=True)
class Stream:
    """Token ids, where passages and documents end in them, and which ids end a sentence."""

    tokens: NDArray[np.integer]
    passages: NDArray[np.int64]
    documents: NDArray[np.int64]
    sentence_ends: NDArray[np.bool_]

    def cuts(self, low: int, high: int) -> NDArray[np.int64]:
        """Places from `low` to `high` where a sentence has just ended."""
        return np.flatnonzero(self.sentence_ends[self.tokens[low - 1 : high]]) + low

    def passage_end(self, at: int) -> int:
        return int(self.passages[np.searchsorted(self.passages, at, "right")])

    def document(self, at: int) -> int:
        return int(np.searchsorted(self.documents, at, "right"))


def plan_rows(stream: Stream, single: int, pair: int, settings: Settings) -> NDArray[np.int64]:
    """Rows (n, 4) over the whole stream, with `single` tokens of text in a full row and `pair` in a full pair.

    In packed mode the last tokens, fewer than a row, are left out.
    """
    planner = _Planner(stream, single, pair, settings)
    rows = array("q")
    at = 0
    while row := planner.row(at):
        rows.extend(row)
        at = planner.next
    return np.frombuffer(rows, np.int64).reshape(-1, 4) if rows else np.empty((0, 4), np.int64)


class _Planner:
    def __init__(self, stream: Stream, single: int, pair: int, settings: Settings) -> None:
        self.stream, self.single, self.pair = stream, single, pair
        self.packed, self.pairs = settings.mode == "packed", settings.pairs
        self.draw = Random(settings.seed)
        self.total = len(stream.tokens)
        self.owed = 0
        self.next = 0

    def row(self, at: int) -> Row | None:
        """The row that begins at a token; `next` is then where the one after it begins."""
        if at >= self.total:
            return None
        kind = self.draw.random()
        if kind < self.pairs / 2:
            self.owed += 1
        elif kind < self.pairs and (row := self._random(at)):
            return row
        if self.owed and (row := self._adjacent(at)):
            self.owed -= 1
            return row
        return self._single(at)

    def _single(self, at: int) -> Row | None:
        self.next = min(at + self.single, self._end(at))
        if self.packed and self.next - at < self.single:
            return None
        return at, self.next, 0, 0

    def _adjacent(self, at: int) -> Row | None:
        """A stretch of one document, cut in two."""
        room = int(self.stream.documents[self.stream.document(at)]) if self.packed else self._end(at)
        length = min(room - at, self.pair)
        if length < 2 or (self.packed and length < self.pair and self.owed <= _PATIENCE):
            return None
        cut = self._cut(at, length)
        self.next = at + length
        return at, cut, cut, self.next

    def _random(self, at: int) -> Row | None:
        """The next stretch, and another one from elsewhere."""
        cut = min(self._cut(at, self.pair), self._end(at))
        other = self._elsewhere(at, cut, self.pair - (cut - at))
        if other is None:
            return None
        self.next = cut
        return at, cut, *other

    def _end(self, at: int) -> int:
        """Where a row that begins here must end at the latest."""
        return self.total if self.packed else self.stream.passage_end(at)

    def _cut(self, at: int, length: int) -> int:
        """Within the middle half: the end of a sentence that is nearest to a random place, or else that place."""
        low, high = at + max(length // 4, 1), at + max(3 * length // 4, 1)
        place = self.draw.randint(low, high)
        cuts = self.stream.cuts(low, high)
        return int(cuts[np.abs(cuts - place).argmin()]) if len(cuts) else place

    def _elsewhere(self, a: int, b: int, length: int) -> tuple[int, int] | None:
        """A stretch of other documents than tokens[a:b]; where there seem to be none, one that does not touch it."""
        first, last = self.stream.document(a), self.stream.document(b - 1)
        for k in range(_TRIES):
            c, d = self._anywhere(length)
            apart = d < a or c > b
            if c < d and apart and (k >= _TRIES // 2 or self.stream.document(d - 1) < first or self.stream.document(c) > last):
                return c, d
        return None

    def _anywhere(self, length: int) -> tuple[int, int]:
        """A stretch that begins with a sentence, if one begins near a random place."""
        place = self.draw.randrange(self.total)
        cuts = self.stream.cuts(place, place + _LOOK_AHEAD) if place else [0]
        c = int(cuts[0]) if len(cuts) else place
        if self.packed:
            return c, c + length if c + length <= self.total else c
        return c, min(c + length, self.stream.passage_end(c)) if c < self.total else c
