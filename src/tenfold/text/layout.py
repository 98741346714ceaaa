"""Which special tokens and segment ids a tokenizer puts around the texts of a row."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenfold.errors import TenfoldError


@dataclass(frozen=True)
class Layout:
    """`gaps[k]` (ids and segment ids) stands before text k and the last one at the end; each text has one segment id.

    BERT's pair: gaps ([CLS], [SEP], [SEP]) with the segment ids (0, 0, 1), texts (0, 1). `typed`: whether there are any.
    """

    gaps: Sequence[tuple[Sequence[int], Sequence[int]]]
    texts: Sequence[int]
    typed: bool

    @property
    def special(self) -> int:
        """How many special tokens a row has."""
        return sum(len(ids) for ids, _ in self.gaps)

    def ids(self, texts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        return self._interleave([ids for ids, _ in self.gaps], texts)

    def types(self, texts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        segments = [np.full(len(text), segment) for text, segment in zip(texts, self.texts, strict=True)]
        return self._interleave([types for _, types in self.gaps], segments)

    @staticmethod
    def _interleave(gaps: Sequence[Sequence[int]], texts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        parts: list[Any] = [gaps[0]]
        for text, gap in zip(texts, gaps[1:], strict=True):
            parts += [text, gap]
        return np.concatenate([np.asarray(part, np.int64) for part in parts])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def layout(tokenizer: Any, texts: int) -> Layout:
    """Seen on a probe of one or two texts."""
    probe = tokenizer(*["a", "b"][:texts])
    owner = probe.sequence_ids(0)
    types = probe.get("token_type_ids", [0] * len(owner))
    gaps: list[tuple[list[int], list[int]]] = [([], []) for _ in range(texts + 1)]
    reached = 0
    for k, text in enumerate(owner):
        if text is None:
            gaps[reached][0].append(probe["input_ids"][k])
            gaps[reached][1].append(types[k])
        else:
            reached = text + 1
    if reached < texts:
        name = tokenizer.name_or_path or type(tokenizer).__name__
        raise TenfoldError(f'a tokenizer must make tokens of "a" and "b", got none from {name}: take the one of the model')
    return Layout(gaps, [types[owner.index(text)] for text in range(texts)], "token_type_ids" in probe)
