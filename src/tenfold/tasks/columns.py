"""Which columns of a user's table are texts and which is the label, where they did not say."""

from dataclasses import dataclass

from tenfold.errors import TenfoldError
from tenfold.tasks.tables import Columns, column

PAIRS = (
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("query", "passage"),
    ("query", "document"),
    ("anchor", "positive"),
)
TEXTS = ("text", "sentence", "review", "content", "comment", "body", "message", "document", "tweet", "title", "question")
LABELS = (
    "label",
    "labels",
    "class",
    "category",
    "target",
    "score",
    "stars",
    "rating",
    "sentiment",
    "gold_label",
    "similarity",
    "y",
)


@dataclass(frozen=True)
class Chosen:
    texts: tuple[str, ...]
    label: str
    note: str | None
    """What was found by name; None where the user said it all."""


def choose_columns(table: Columns, spec: str, texts: tuple[str, ...] | None, label: str | None) -> Chosen:
    if texts is not None and not 1 <= len(texts) <= 2:
        raise TenfoldError(f"a row is one text or a pair, got {len(texts)} text columns: name one or two")
    for name in (*(texts or ()), *((label,) if label else ())):
        column(table, name, spec)
    found_label = label or _label(table, spec, texts or ())
    found_texts = texts or _texts(table, spec, found_label)
    if found_label in found_texts:
        raise TenfoldError(f'the label must be a column of its own, got "{found_label}" as text too: name another')
    told = texts is not None and label is not None
    note = f"took {' and '.join(found_texts)} as text and {found_label} as label"
    return Chosen(found_texts, found_label, None if told else note)


def _label(table: Columns, spec: str, texts: tuple[str, ...]) -> str:
    lower = {name.lower(): name for name in reversed(table) if name not in texts}
    for name in LABELS:
        if name in lower:
            return lower[name]
    if texts and len(lower) == 1:
        return next(iter(lower.values()))
    raise TenfoldError(f"{spec} has no column with a usual name of a label, got {', '.join(table)}: give --label-column")


def _texts(table: Columns, spec: str, label: str) -> tuple[str, ...]:
    lower = {name.lower(): name for name in reversed(table) if name != label}
    for first, second in PAIRS:
        if first in lower and second in lower:
            return lower[first], lower[second]
    for name in TEXTS:
        if name in lower:
            return (lower[name],)
    if len(lower) == 1:
        return (next(iter(lower.values())),)
    raise TenfoldError(f"{spec} has no column with a usual name of text, got {', '.join(table)}: give --text-column")
