"""A corpus is a dataset: rows as the tokenizer makes them, mapped into memory, in batches, in two parts."""

import mmap
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pico import CORPUS, SPECIAL, tokenizer
from torch.utils.data import DataLoader

from tenfold.errors import TenfoldError
from tenfold.text import Corpus, Settings, build
from tenfold.text.settings import Mode

LENGTH, SEP = 24, SPECIAL.index("[SEP]")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text("\n".join(f"{sentence}\n" if k % 8 == 7 else sentence for k, sentence in enumerate(CORPUS)))
    return path


@pytest.fixture(scope="module")
def corpus(text: Path) -> Corpus:
    return build(text, tokenizer(True), Settings(LENGTH, "paragraph", pairs=0.5), text.parent / "cache")


@pytest.mark.parametrize("token_types", [False, True])
@pytest.mark.parametrize("mode", ["packed", "paragraph"])
def test_rows_are_what_the_tokenizer_makes(text: Path, mode: Mode, token_types: bool) -> None:
    own, counts = tokenizer(token_types), [0, 0]
    found = build(text, own, Settings(LENGTH, mode, pairs=0.5), text.parent / "cache")
    for row in (found[i] for i in range(len(found))):
        ids = row["input_ids"]
        ends = (ids == SEP).nonzero()[:, 0].tolist()
        texts = [own.decode(ids[a + 1 : b]) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        expected = own(*texts, return_tensors="pt")
        assert row.keys() == expected.keys()
        assert all(torch.equal(row[name], expected[name][0]) for name in row)
        assert len(ids) == LENGTH if mode == "packed" and len(ends) == 1 else len(ids) <= LENGTH
        counts[len(ends) - 1] += 1
    assert min(counts) > 40


def test_tokens_are_counted_as_the_masks_do(corpus: Corpus) -> None:
    for part in (corpus, *corpus.split(30)):
        assert part.tokens == sum(int(part[i]["attention_mask"].sum()) for i in range(len(part)))


def test_a_batch_is_padded_to_its_longest_row(corpus: Corpus) -> None:
    rows = sorted((corpus[i] for i in range(40)), key=lambda row: len(row["input_ids"]))[::13]
    batch = corpus.collate(rows)
    longest = len(rows[-1]["input_ids"])
    assert len(rows[0]["input_ids"]) < longest
    for name, padding in {"input_ids": SPECIAL.index("[PAD]"), "attention_mask": 0, "token_type_ids": 0}.items():
        assert batch[name].shape == (len(rows), longest)
        for row, padded in zip(rows, batch[name], strict=True):
            count = len(row[name])
            assert torch.equal(padded[:count], row[name]) and (padded[count:] == padding).all()


def test_a_loader_gives_every_row(corpus: Corpus) -> None:
    batches = list(DataLoader(corpus, batch_size=50, collate_fn=corpus.collate))
    assert sum(len(batch["input_ids"]) for batch in batches) == len(corpus)
    assert sum(int(batch["attention_mask"].sum()) for batch in batches) == corpus.tokens


def test_a_tokenizer_without_padding_is_padded_with_its_end(text: Path) -> None:
    own = tokenizer()
    own.pad_token, own.eos_token = None, "[SEP]"
    found = build(text, own, Settings(LENGTH, "paragraph"), text.parent / "cache")
    batch = found.collate([{"input_ids": torch.tensor([7] * n), "attention_mask": torch.ones(n)} for n in (1, 2)])
    assert batch["input_ids"].tolist() == [[7, SEP], [7, 7]]


def test_the_parts_are_disjoint_and_the_same_each_time(corpus: Corpus) -> None:
    def rows(part: Corpus) -> list[int]:
        assert part._chosen is not None
        return part._chosen.tolist()

    train, held_out = corpus.split(30)
    assert len(held_out) == 30
    assert sorted(rows(train) + rows(held_out)) == list(range(len(corpus)))
    again = corpus.split(30)
    assert (rows(again[0]), rows(again[1])) == (rows(train), rows(held_out))
    assert torch.equal(held_out[3]["input_ids"], corpus[rows(held_out)[3]]["input_ids"])
    assert torch.equal(train[-1]["input_ids"], corpus[rows(train)[-1]]["input_ids"])
    third, fourth = train.split(len(train) - 1)
    assert sorted(rows(third) + rows(fourth)) == rows(train)
    for count in (0, len(corpus)):
        with pytest.raises(TenfoldError, match=f"leave some to train on, got {count} of {len(corpus)}"):
            corpus.split(count)


def test_the_files_are_mapped_and_mapped_again_in_another_process(corpus: Corpus) -> None:
    for array in (corpus._tokens, corpus._rows):
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        assert isinstance(base, mmap.mmap)
    train, _ = corpus.split(1)
    for part, size in ((corpus, 500), (train, 500 + 8 * len(train))):
        data = pickle.dumps(part)
        assert len(data) < size
        again = pickle.loads(data)
        assert all(torch.equal(again[5][name], part[5][name]) for name in part[5])


def test_there_is_no_row_beyond_the_last(corpus: Corpus) -> None:
    with pytest.raises(IndexError):
        corpus[len(corpus)]
    assert torch.equal(corpus[-1]["input_ids"], corpus[len(corpus) - 1]["input_ids"])


def test_text_smaller_than_a_batch(corpus: Corpus) -> None:
    corpus.require(len(corpus))
    message = f"at least one batch of 1000 rows of 24 tokens, got {len(corpus)} rows: give more text, or a smaller batch"
    with pytest.raises(TenfoldError, match=message):
        corpus.require(1000)
