"""Rows of a scored split that were seen in training."""

from dataclasses import dataclass

from tenfold.tasks.task import Rows


@dataclass(frozen=True)
class Duplicates:
    """Of `rows` rows: `exact` have the very texts of a training row, `normalised` (among them) but for case and spaces."""

    rows: int
    exact: int
    normalised: int


def duplicates(rows: Rows, train: Rows) -> Duplicates:
    same, alike = set(train.texts), {normalised(texts) for texts in train.texts}
    exact = sum(texts in same for texts in rows.texts)
    return Duplicates(len(rows), exact, sum(normalised(texts) in alike for texts in rows.texts))


def normalised(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).casefold() for text in texts)
