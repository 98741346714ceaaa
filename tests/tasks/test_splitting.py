"""Splits: stratified, the same for the same seed, no text on both sides."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from tenfold.tasks.duplicates import normalised
from tenfold.tasks.splitting import at_most, split
from tenfold.tasks.task import Label, Rows, Task

DRAW = np.random.default_rng(0)


def rows(labels: Sequence[Label], repeat: int = 1) -> Rows:
    """Every text `repeat` times, in other spellings of case and spaces."""
    texts = [(f"{'Text' if i % 2 else ' text '} {i // repeat}",) for i in range(len(labels))]
    return Rows(tuple(texts), tuple(labels))


def task(kind: str, *labels: str) -> Task:
    return Task("own", kind, ("text",), "label", labels)  # type: ignore[arg-type]


CASES: list[tuple[Task, list[Label]]] = [
    (task("classification", "a", "b", "c"), DRAW.choice(3, 400, p=[0.7, 0.25, 0.05]).tolist()),
    (task("regression"), (DRAW.standard_normal(400) ** 3).tolist()),
    (task("multi_label", "a", "b"), [tuple(c for c in (0, 1) if DRAW.random() < 0.4) for _ in range(400)]),
]


@pytest.mark.parametrize(("kind", "labels"), CASES, ids=lambda x: x.kind if isinstance(x, Task) else "")
@pytest.mark.parametrize("repeat", [1, 2])
def test_no_text_on_both_sides_and_all_rows_kept(kind: Task, labels: list[Label], repeat: int) -> None:
    whole = rows(labels, repeat)
    rest, drawn = split(whole, kind, 0.2, seed=3)
    assert not {normalised(t) for t in rest.texts} & {normalised(t) for t in drawn.texts}
    assert Counter([*rest, *drawn]) == Counter([*whole])
    assert len(drawn) == pytest.approx(80, abs=8)


@pytest.mark.parametrize("share", [0.1, 0.25])
def test_every_class_gives_its_share(share: float) -> None:
    kind, labels = CASES[0]
    _, drawn = split(rows(labels), kind, share, seed=0)
    for label, count in Counter(labels).items():
        assert drawn.labels.count(label) == max(round(share * count), 1)


def test_a_scale_gives_of_every_tenth() -> None:
    kind, labels = CASES[1]
    _, drawn = split(rows(labels), kind, 0.2, seed=0)
    order = np.sort(np.asarray(labels, float))
    tenths = np.searchsorted(order, np.asarray(drawn.labels, float)) // 40
    assert Counter(tenths.tolist()) == dict.fromkeys(range(10), 8)


def test_a_class_of_one_text_stays_in_train() -> None:
    kind = task("classification", "a", "b")
    rest, drawn = split(rows([0] * 20 + [1]), kind, 0.3, seed=0)
    assert 1 in rest.labels and 1 not in drawn.labels


def test_the_seed_draws() -> None:
    kind, labels = CASES[0]
    whole = rows(labels)
    assert split(whole, kind, 0.1, 1) == split(whole, kind, 0.1, 1)
    assert split(whole, kind, 0.1, 1)[1] != split(whole, kind, 0.1, 2)[1]


def test_at_most() -> None:
    whole = rows([0, 1] * 10)
    few = at_most(whole, 5, 0)
    assert len(few) == 5 and {*few} <= {*whole}
    assert list(few.texts) == [t for t in whole.texts if t in few.texts]
    assert at_most(whole, None, 0) is whole and at_most(whole, 20, 0) is whole


def test_the_digest_follows_the_content() -> None:
    assert rows([0, 1]).digest == rows([0, 1]).digest != rows([1, 0]).digest
    assert rows([0, 1]).unlabelled().digest != rows([0, 1]).digest
