"""Which words may be replaced, how a tokenizer cuts them, and how a new word takes the place of an old one."""

import numpy as np
import pytest
import torch
from pico import tokenizer

from tenfold.tasks.augmentation.pieces import Pieces
from tenfold.tasks.augmentation.stopwords import STOP_WORDS
from tenfold.tasks.augmentation.vectors import nearest, neighbours
from tenfold.tasks.augmentation.words import Word, in_case_of, others, replaced, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The old cat sees a house.", ["old", "cat", "sees", "house"]),
        ("He did not, and never will, like it", []),
        ("In 1999 the B2B 3rd quarter rose 5%", ["quarter", "rose"]),
        ("Reeve's dog isn't his; they're friends", ["Reeve", "dog", "friends"]),
        ("Reeve’s naïve coöperation", ["Reeve", "naïve", "coöperation"]),
        ("NOT Without HER Money", ["Money"]),
        ("state-of-the-art e-mail", ["state", "art", "mail"]),
        ("猫看房子", ["猫", "看", "房", "子"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("x = y ! ?", []),
        ("", []),
    ],
)
def test_words_that_may_be_replaced(text: str, expected: list[str]) -> None:
    found = words(text)
    assert [word.text for word in found] == expected
    assert all(text[word.start : word.end] == word.text for word in found)


def test_negations_are_stop_words() -> None:
    assert {"not", "never", "no", "nobody", "without", "hardly"} <= STOP_WORDS


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [("Berlin", "vienna", "Vienna"), ("BERLIN", "vienna", "VIENNA"), ("berlin", "Vienna", "Vienna"), ("A", "one", "One")],
)
def test_the_new_word_takes_the_case_of_the_old(old: str, new: str, expected: str) -> None:
    assert in_case_of(old, new) == expected


def test_replaced_puts_each_word_in_its_place() -> None:
    text = "Big cats like big houses."
    found = words(text)
    assert replaced(text, {found[3]: "tents", found[0]: "small"}) == "Small cats like big tents."
    assert replaced(text, {}) == text


def test_others_leaves_out_the_word_itself_in_any_case() -> None:
    assert others("Cat", ["cat", "dog", "CAT", "Dog", "bird", "horse"], 2) == ("dog", "bird")


def test_pieces_of_words_within_a_sentence() -> None:
    pieces = Pieces(tokenizer())
    assert pieces.single(["cat", "cats", "House", "zebra"]) == {"cat", "House"}
    ids = tokenizer().convert_tokens_to_ids(["cat", "##s"])
    assert pieces.of(["cats", "zebra", "cat"]) == [tuple(ids), (), (ids[0],)]
    assert "cat" in pieces.whole.values()
    assert not {"##s", "s", ".", "[MASK]"} & {*pieces.whole.values()}


def test_nearest_agrees_with_a_full_sort_in_double_precision() -> None:
    draw = np.random.default_rng(0)
    queries, table = draw.standard_normal((300, 9)), draw.standard_normal((700, 9))
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, table)]
    expected = np.argsort(-(unit[0] @ unit[1].T), axis=1, kind="stable")[:, :12]
    found = nearest(torch.from_numpy(queries), torch.from_numpy(table), 12)
    assert np.array_equal(found.numpy(), expected)


def test_where_two_are_as_near_the_earlier_comes_first() -> None:
    table = torch.tensor([[1.0, 0], [0, 1], [2, 0], [1, 1]])
    assert nearest(torch.tensor([[3.0, 0]]), table, 4).tolist() == [[0, 2, 3, 1]]
    assert nearest(torch.empty(0, 2), table, 2).shape == (0, 2)


def test_neighbours_are_words_by_their_names() -> None:
    table = torch.tensor([[1.0, 0], [0.9, 0.1], [0, 1]])
    found = neighbours(["Cat"], table[:1], ["cat", "dog", "river"], table, 5)
    assert found == {"Cat": ("dog", "river")}
    assert Word(0, 3, "Cat").text in found
