"""Changed copies of rows: every word that may be replaced is, with probability p, by one of its candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tenfold.tasks.augmentation.sources import MaskedLM, Sources
from tenfold.tasks.augmentation.words import Word, replaced, words
from tenfold.tasks.spec import AugmentSpec
from tenfold.text.progress import Say

Texts = tuple[str, ...]
Candidates = Mapping[Word, Sequence[str]]

MOST, FEWER = 30, ((10_000, 20), (200_000, 10))
"""Copies of a row, and of how many rows on there are fewer: what TinyBERT's code says for each task of GLUE."""

TRIES = 2
"""Draws for each copy that is wanted: copies are all different, and a short text has few of them."""

_ROWS = 4096
"""At a time: candidates of many rows with contexts of their own take memory."""


@dataclass(frozen=True)
class Copies:
    """texts, and for each the number of the row that it was made from."""

    texts: tuple[Texts, ...]
    origin: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.texts)


def usual_copies(rows: int) -> int:
    return next((copies for least, copies in reversed(FEWER) if rows > least), MOST)


def make_copies(rows: Sequence[Texts], spec: AugmentSpec, sources: Sources, say: Say = lambda _: None) -> Copies:
    """Up to `copies` of each row, in the order of the rows, each different from the row and from the others.

    The draws of a row depend on the seed and on its number only. Both texts of a pair are changed.
    """
    copies, known = spec.copies or usual_copies(len(rows)), dict[str, Texts]()
    texts: list[Texts] = []
    origin: list[int] = []
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        say(f"augmentation: {start:,} of {len(rows):,} rows, {len(texts):,} copies")
        distinct = [*dict.fromkeys(text for row in part for text in row)]
        found = dict(zip(distinct, _candidates(distinct, spec.candidates, sources, known, say), strict=True))
        for number, row in enumerate(part, start):
            draw = np.random.default_rng([spec.seed, number])
            made = _changed(row, [found[text] for text in row], spec.p, copies, draw)
            texts += made
            origin += [number] * len(made)
    return Copies(tuple(texts), tuple(origin))


def _candidates(texts: Sequence[str], k: int, sources: Sources, known: dict[str, Texts], say: Say) -> list[Candidates]:
    """Of each text, for each word that has any. known: by word, of the sources that ask for no context; it grows."""
    found = [words(text) for text in texts]
    vocabulary = sorted({word.text for each in found for word in each})
    single = sources.pieces.single(vocabulary) if sources.pieces is not None else set()
    in_context = single if isinstance(sources.single, MaskedLM) else set()
    new = [word for word in vocabulary if word not in in_context and word not in known]
    say(f"augmentation: neighbours of {len(new):,} words")
    for source, its in ((sources.single, single), (sources.several, {*vocabulary} - single)):
        asked = [word for word in new if word in its]
        if not isinstance(source, MaskedLM):
            known |= dict.fromkeys(asked, ()) | source.candidates(asked, k)
    ranked: list[dict[Word, Sequence[str]]] = [
        {word: known[word.text] for word in each if word.text not in in_context and known[word.text]} for each in found
    ]
    if isinstance(sources.single, MaskedLM):
        masked = [[word for word in each if word.text in in_context] for each in found]
        for mine, asked_for, filled in zip(ranked, masked, sources.single.fill(texts, masked, k, say), strict=True):
            mine |= {word: options for word, options in zip(asked_for, filled, strict=True) if options}
    return list(ranked)


def _changed(row: Texts, found: Sequence[Candidates], p: float, copies: int, draw: np.random.Generator) -> list[Texts]:
    places = [(side, word, each[word]) for side, each in enumerate(found) for word in sorted(each, key=lambda word: word.start)]
    if not places:
        return []
    shape = (TRIES * copies, len(places))
    change, choice = draw.random(shape) < p, draw.random(shape)
    made: dict[Texts, None] = {}
    for changed, chosen in zip(change, choice, strict=True):
        new: list[dict[Word, str]] = [{} for _ in row]
        for place in np.flatnonzero(changed).tolist():
            side, word, options = places[place]
            new[side][word] = options[int(chosen[place] * len(options))]
        made[tuple(replaced(text, those) for text, those in zip(row, new, strict=True))] = None
    made.pop(row, None)
    return [*made][:copies]
