"""The words of a text that may be replaced, and how a replacement takes their place."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tenfold.tasks.augmentation.stopwords import STOP_WORDS

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True)
class Word:
    """text[start:end] of the text that it stands in."""

    start: int
    end: int
    text: str


def words(text: str) -> list[Word]:
    """The replaceable words in their order: neither stop words (English) nor anything with a digit, nor punctuation.

    "Reeve's" gives Reeve; "isn't" gives nothing. A Chinese character is a word of its own, as BERT's tokenizers have it.
    """
    found = []
    for match in _pattern().finditer(text):
        word = _stem(match.group())
        if is_content(word):
            found.append(Word(match.start(), match.start() + len(word), word))
    return found


def is_content(text: str) -> bool:
    """A word that is no stop word: what is replaced, and what it is replaced by."""
    return is_word(text) and _plain(text) not in STOP_WORDS


def is_word(text: str) -> bool:
    """Letters alone, with their combining marks and inner apostrophes; at least two of them, or one Chinese character."""
    letters = sum(char.isalpha() for char in text)
    if letters < 2 and not re.fullmatch(f"[{_HAN}]", text):
        return False
    return letters == len(text) or all(char.isalpha() or _inside(char) for char in text)


def _inside(char: str) -> bool:
    return char in "'’" or char in _JOINERS or unicodedata.category(char).startswith("M")


def replaced(text: str, new: Mapping[Word, str]) -> str:
    """The text with some of its words exchanged, each new one in the case of the old: Berlin -> Vienna, BERLIN -> VIENNA."""
    parts, at = [], 0
    for word in sorted(new, key=lambda word: word.start):
        parts += [text[at : word.start], in_case_of(word.text, new[word])]
        at = word.end
    return "".join([*parts, text[at:]])


def in_case_of(old: str, new: str) -> str:
    if len(old) > 1 and old.isupper():
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def others(word: str, ranked: Sequence[str], k: int) -> tuple[str, ...]:
    """The first k of `ranked` that differ from the word and from each other by more than case."""
    found, seen = [], {word.casefold()}
    for candidate in ranked:
        if candidate.casefold() not in seen:
            seen.add(candidate.casefold())
            found.append(candidate)
            if len(found) == k:
                break
    return tuple(found)


def _stem(token: str) -> str:
    """Without an English 's, 're, 've, 'll, 'd or 'm at its end; nothing of a contraction with not."""
    head, apostrophe, tail = token.replace("’", "'").rpartition("'")
    if not apostrophe:
        return token
    if tail.lower() == "t" and head.lower().endswith("n"):
        return ""
    return token[: len(head)] if tail.lower() in ("s", "re", "ve", "ll", "d", "m") else token


def _plain(word: str) -> str:
    return word.lower().replace("’", "'")


@cache
def _pattern() -> re.Pattern[str]:
    """Python's \\w lacks combining marks, without which a Hindi word falls apart at its vowels."""
    marks = "".join(char for char in map(chr, range(0x110000)) if unicodedata.category(char).startswith("M"))
    part = f"(?:(?![{_HAN}])[\\w{_JOINERS}{re.escape(marks)}])+"
    return re.compile(f"[{_HAN}]|{part}(?:['’]{part})*")
