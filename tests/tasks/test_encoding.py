"""Rows as token ids: as the tokenizer alone would give them, padded on its side, cut and counted."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from pico import CORPUS, tokenizer

from tenfold.tasks import Rows, Task, encode, glue
from tenfold.tasks.encoding import SECOND
from tenfold.tasks.task import Label

TEXTS = tuple((CORPUS[i], CORPUS[i + 1]) for i in range(0, 20, 2))
RTE, SST = glue()["rte"].task, glue()["sst2"].task


def rows(texts: Any, *labels: Label) -> Rows:
    return Rows(tuple(texts), labels or (0, 1) * (len(texts) // 2))


@pytest.mark.parametrize("task", [RTE, SST])
@pytest.mark.parametrize("types", [False, True])
def test_a_batch_is_what_the_tokenizer_makes_of_it(task: Task, types: bool) -> None:
    tok = tokenizer(token_types=types)
    texts = TEXTS if task.pair else tuple((first,) for first, _ in TEXTS)
    encoded = encode(rows(texts), task, tok)
    batch = encoded.collate([encoded[i] for i in range(len(encoded))])
    expected = tok(*map(list, zip(*texts, strict=True)), padding=True, return_tensors="pt")
    assert batch.keys() - {"labels"} == expected.keys()
    assert all(torch.equal(batch[key], expected[key]) for key in expected)
    assert batch["labels"].tolist() == [0, 1] * 5 and batch["labels"].dtype == torch.long
    assert encoded.truncated == 0


def test_padding_goes_where_the_tokenizer_puts_it() -> None:
    tok = tokenizer()
    tok.padding_side = "left"
    encoded = encode(rows(TEXTS), RTE, tok)
    batch = encoded.collate(encoded.items)
    expected = tok(*map(list, zip(*TEXTS, strict=True)), padding=True, return_tensors="pt")
    assert torch.equal(batch["input_ids"], expected["input_ids"])
    assert batch["attention_mask"][:, -1].all() and not batch["attention_mask"][:, 0].all()


def test_a_tokenizer_without_padding_pads_with_its_end() -> None:
    tok = tokenizer()
    tok.pad_token, tok.eos_token = None, "[SEP]"
    batch = (encoded := encode(rows(TEXTS), RTE, tok)).collate(encoded.items)
    outside = batch["input_ids"][batch["attention_mask"] == 0]
    assert {*outside.tolist()} == {tok.eos_token_id}


def test_cut_rows_are_counted() -> None:
    tok = tokenizer()
    lengths = [len(ids) for ids in tok(*map(list, zip(*TEXTS, strict=True)))["input_ids"]]
    limit = sorted(lengths)[5]
    encoded = encode(rows(TEXTS), RTE, tok, limit)
    assert encoded.truncated == sum(length > limit for length in lengths) / 10 > 0
    assert max(len(item["input_ids"]) for item in encoded.items) == encoded.length == limit
    assert encode(rows(TEXTS), replace(RTE, length=limit), tok).items == encoded.items
    assert encode(rows(TEXTS), RTE, tok, 10**6).length == tok.model_max_length


def test_an_embedding_task_keeps_its_texts_apart() -> None:
    task = replace(glue()["stsb"].task, kind="embedding")
    tok = tokenizer()
    encoded = encode(rows(TEXTS, *[float(i) for i in range(10)]), task, tok)
    batch = encoded.collate(encoded.items)
    for side, suffix in enumerate(("", SECOND)):
        expected = tok([texts[side] for texts in TEXTS], padding=True, return_tensors="pt")
        assert torch.equal(batch[f"input_ids{suffix}"], expected["input_ids"])
        assert torch.equal(batch[f"attention_mask{suffix}"], expected["attention_mask"])
    assert batch["labels"].dtype == torch.float32


def test_several_labels_become_zeros_and_ones() -> None:
    task = Task("own", "multi_label", ("text",), "label", ("a", "b", "c"))
    encoded = encode(Rows((("x",), ("y",)), ((0, 2), ())), task, tokenizer())
    assert encoded.collate(encoded.items)["labels"].tolist() == [[1, 0, 1], [0, 0, 0]]


def test_rows_without_labels_and_no_rows() -> None:
    encoded = encode(rows(TEXTS).unlabelled(), RTE, tokenizer())
    assert "labels" not in encoded[0]
    assert len(encode(Rows((), ()), RTE, tokenizer())) == 0


def test_a_slow_tokenizer_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fast one's encodings the whole length is asked for."""
    tok = tokenizer()
    fast = encode(rows(TEXTS), RTE, tok, 20)

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(tok, name)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            found = tok(*args, **kwargs)
            monkeypatch.setattr(type(found), "encodings", None, raising=False)
            return found

    slow = encode(rows(TEXTS), RTE, Slow(), 20)
    assert (slow.items, slow.truncated) == (fast.items, fast.truncated)
