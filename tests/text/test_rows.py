"""Rows are stretches of the stream: each of its tokens once, pairs where they were asked for."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tenfold.text.rows import Stream, plan_rows
from tenfold.text.settings import Mode, Settings

STOP = 7
SINGLE, PAIR = 22, 21


def stream(lengths: Sequence[Sequence[int]], seed: int = 0) -> Stream:
    """Passages of these lengths, by document; each ends with the token 7, as do some sentences within."""
    sizes = [size for document in lengths for size in document]
    passages = np.cumsum(sizes)
    tokens = np.random.default_rng(seed).integers(0, 20, passages[-1])
    tokens[passages[np.array(sizes) > 0] - 1] = STOP
    return Stream(tokens, passages, np.cumsum([sum(document) for document in lengths]), np.arange(20) == STOP)


def long(seed: int = 0) -> Stream:
    return stream(np.random.default_rng(seed).integers(1, 60, (40, 6)).tolist())


def kinds(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Single rows, adjacent pairs, random pairs."""
    pair, next_to = rows[:, 2] != rows[:, 3], rows[:, 1] == rows[:, 2]
    return rows[~pair], rows[pair & next_to], rows[pair & ~next_to]


def lengths(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    return rows[:, 1] - rows[:, 0] + rows[:, 3] - rows[:, 2]


def document(text: Stream, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.searchsorted(text.documents, at, "right")


@pytest.mark.parametrize("pairs", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("mode", ["packed", "paragraph"])
def test_every_token_has_its_place_in_order(mode: Mode, pairs: float) -> None:
    text = long()
    single, adjacent, random = kinds(plan_rows(text, SINGLE, PAIR, Settings(mode=mode, pairs=pairs)))
    ways = np.concatenate([single[:, :2], adjacent[:, :2], adjacent[:, 2:], random[:, :2]])
    ways = ways[np.argsort(ways[:, 0])]
    assert ways[0, 0] == 0
    assert all(a[1] == b[0] for a, b in pairwise(ways.tolist()))
    left = len(text.tokens) - ways[-1, 1]
    assert left == 0 if mode == "paragraph" else left < SINGLE


def test_packed_rows_are_full() -> None:
    single, adjacent, random = kinds(plan_rows(long(), SINGLE, PAIR, Settings(pairs=0.5)))
    assert set(lengths(single)) == {SINGLE}
    assert set(lengths(adjacent)) == set(lengths(random)) == {PAIR}
    assert len(plan_rows(stream([[SINGLE - 1]]), SINGLE, PAIR, Settings())) == 0


def test_a_paragraph_row_stays_in_its_paragraph() -> None:
    text = long()
    rows = plan_rows(text, SINGLE, PAIR, Settings(mode="paragraph", pairs=0.5))
    for a, b in np.concatenate([rows[:, :2], rows[rows[:, 3] > 0, 2:]]).tolist():
        assert a < b <= text.passage_end(a)
    assert lengths(rows).max() <= SINGLE
    alone = plan_rows(text, SINGLE, PAIR, Settings(mode="paragraph"))
    assert set(text.passages) <= set(alone[:, 1].tolist())


@pytest.mark.parametrize("mode", ["packed", "paragraph"])
def test_the_share_of_pairs(mode: Mode) -> None:
    text = stream(np.random.default_rng(0).integers(5, 90, (300, 9)).tolist())
    for share in (0.2, 0.6, 1.0):
        rows = plan_rows(text, SINGLE, PAIR, Settings(mode=mode, pairs=share))
        _, adjacent, random = (len(kind) / len(rows) for kind in kinds(rows))
        assert adjacent == pytest.approx(share / 2, abs=0.03)
        assert random == pytest.approx(share / 2, abs=0.03)


@pytest.mark.parametrize("mode", ["packed", "paragraph"])
def test_adjacent_pairs_are_of_one_document_and_random_ones_of_two(mode: Mode) -> None:
    text = long()
    _, adjacent, random = kinds(plan_rows(text, SINGLE, PAIR, Settings(mode=mode, pairs=1)))
    assert len(adjacent) > 20
    assert (document(text, adjacent[:, 0]) == document(text, adjacent[:, 3] - 1)).all()
    assert len(random) > 20
    before = document(text, random[:, 3] - 1) < document(text, random[:, 0])
    behind = document(text, random[:, 2]) > document(text, random[:, 1] - 1)
    assert (before | behind).all()


def test_pairs_are_cut_where_a_sentence_ends() -> None:
    text = stream([[5] * 40] * 10)
    _, adjacent, random = kinds(plan_rows(text, SINGLE, PAIR, Settings(pairs=1)))
    cuts = np.concatenate([adjacent[:, 1], random[:, 1]])
    assert (text.tokens[cuts - 1] == STOP).mean() > 0.95
    starts = random[random[:, 2] > 0, 2]
    assert (text.tokens[starts - 1] == STOP).all()
    share = (adjacent[:, 1] - adjacent[:, 0]) / PAIR
    assert share.min() > 0.2 and share.max() < 0.8 and len(set(share)) > 1


def test_without_other_documents_the_second_part_does_not_touch_the_first() -> None:
    text = stream([[9] * 10])
    plans = [plan_rows(text, SINGLE, PAIR, Settings(pairs=1, seed=seed)) for seed in range(50)]
    _, _, random = kinds(np.concatenate(plans))
    assert len(random) > 50
    assert ((random[:, 3] < random[:, 0]) | (random[:, 2] > random[:, 1])).all()


def test_short_documents_make_shorter_adjacent_pairs_and_only_these() -> None:
    text = stream([[8]] * 400)
    single, adjacent, random = kinds(plan_rows(text, SINGLE, PAIR, Settings(pairs=0.5)))
    assert len(adjacent) > 10
    assert lengths(adjacent).max() <= 8
    assert set(lengths(single)) == {SINGLE} and set(lengths(random)) == {PAIR}
    assert (document(text, adjacent[:, 0]) == document(text, adjacent[:, 3] - 1)).all()


@pytest.mark.parametrize("mode", ["packed", "paragraph"])
@pytest.mark.parametrize("sizes", [[[1]], [[1], [1]], [[2]], [[0, 3], [0], [1, 0]], [[1]] * 30, [[45]]])
def test_tiny_texts(mode: Mode, sizes: list[list[int]]) -> None:
    for seed in range(20):
        rows = plan_rows(stream(sizes), 3, 2, Settings(mode=mode, pairs=1, seed=seed))
        assert (rows[:, 1] > rows[:, 0]).all() and (rows[:, 3] >= rows[:, 2]).all()
        assert rows.max(initial=0) <= sum(map(sum, sizes))


def test_the_seed_decides() -> None:
    text = long()
    plans = [plan_rows(text, SINGLE, PAIR, Settings(pairs=0.5, seed=seed)).tolist() for seed in (0, 0, 1)]
    assert plans[0] == plans[1] != plans[2]
