"""Words as a tokenizer cuts them, whatever its kind: WordPiece, byte-level BPE or SentencePiece."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tenfold.tasks.augmentation.words import is_content


class Pieces:
    """Looks at a tokenizer from outside: what it makes of a word that follows another word."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def of(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The token ids of each word; none where the tokenizer does not know a part of it."""
        unknown = self.tokenizer.unk_token_id
        return [() if unknown in ids else tuple(ids) for ids in self._encode([self._lead + word for word in words])]

    def single(self, words: Sequence[str]) -> set[str]:
        """Those that are one piece."""
        return {word for word, ids in zip(words, self.of(words), strict=True) if len(ids) == 1}

    @cached_property
    def whole(self) -> dict[int, str]:
        """Ids that stand for a whole word, no stop word: cutting the word gives the id back, which `##ing` does not."""
        ids = range(len(self.tokenizer))
        texts = [text.strip() for text in self.tokenizer.batch_decode([[i] for i in ids], clean_up_tokenization_spaces=False)]
        special = set(self.tokenizer.all_special_ids)
        likely = [(i, text) for i, text in zip(ids, texts, strict=True) if i not in special and is_content(text)]
        cut = self.of([text for _, text in likely])
        return {i: text for (i, text), found in zip(likely, cut, strict=True) if found == (i,)}

    @cached_property
    def _lead(self) -> str:
        """What to put before a word so that it is cut as within a sentence: a space for byte-level tokenizers."""
        sentence, bare = self._encode(["a house", "house"])
        return "" if bare and sentence[-len(bare) :] == bare else " "

    def _encode(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        return self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
