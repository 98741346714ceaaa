"""What models are called with: lengths that fit, words that stand for nothing, padding that is masked."""

from pathlib import Path

import pytest
import torch
from pico import CORPUS, POSITIONS, pico, save_folder

from tenfold.checkpoints import Source, find
from tenfold.errors import TenfoldError
from tenfold.measurement.shapes import full, pictures, positions, shapes, spread


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return find(str(save_folder(tmp_path_factory.mktemp("model"))), weights=True)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("\n".join(CORPUS), encoding="utf-8")
    return file


def test_every_batch_with_every_length(source: Source) -> None:
    found = shapes([pico("bert")], source, (1, 3), (8, 16))
    assert [(shape.batch, shape.length, shape.label, shape.tokens) for shape in found] == [
        (1, 8, "8", 8), (3, 8, "8", 24), (1, 16, "16", 16), (3, 16, "16", 48),
    ]  # fmt: skip
    for shape in found:
        assert shape.inputs["input_ids"].shape == shape.inputs["attention_mask"].shape == (shape.batch, shape.length)
        assert shape.inputs["attention_mask"].all()


@pytest.mark.parametrize("name", ["bert", "roberta", "mpnet", "modernbert", "llama"])
def test_words_are_no_special_ones_and_the_same_for_one_seed(name: str) -> None:
    model = pico(name)
    found = full([model], 8, 62, seed=3).inputs["input_ids"]
    assert torch.equal(found, full([model], 8, 62, seed=3).inputs["input_ids"])
    assert not torch.equal(found, full([model], 8, 62, seed=4).inputs["input_ids"])
    special = {value for key, value in model.config.to_dict().items() if key.endswith("_token_id") and value is not None}
    assert special
    assert not special & set(found.unique().tolist())
    assert 1 not in found or name != "mpnet", "MPNet's positions take token 1 for padding"


def test_words_are_those_that_both_models_know() -> None:
    assert full([pico("bert"), pico("bert", vocab_size=40)], 8, 60).inputs["input_ids"].max() < 40


@pytest.mark.parametrize(
    ("name", "limit"), [("bert", POSITIONS), ("roberta", POSITIONS - 1), ("mpnet", POSITIONS - 2), ("gpt2", POSITIONS)]
)
def test_a_model_runs_at_its_last_position(name: str, limit: int) -> None:
    model = pico(name)
    assert positions(model) == limit
    with torch.no_grad():
        model(**full([model], 1, limit).inputs)


def test_default_lengths_are_those_that_fit(source: Source) -> None:
    assert [shape.length for shape in shapes([pico("bert")], source, (1,))] == [32]
    assert [shape.length for shape in shapes([pico("bert", max_position_embeddings=300)], source, (1,))] == [32, 128]
    assert [shape.length for shape in shapes([pico("bert", max_position_embeddings=20)], source, (1,))] == [20]


def test_a_length_that_does_not_fit_is_refused(source: Source) -> None:
    with pytest.raises(TenfoldError, match="a length must be at most 20, the positions that the models have, got 21"):
        shapes([pico("bert"), pico("bert", max_position_embeddings=20)], source, (1,), (8, 21))


def test_rows_of_a_text_are_taken_at_quantiles_of_length() -> None:
    rows = [[7] * length for length in (9, 1, 8, 2, 7, 3, 6, 4, 5)]
    alone, three = spread(rows, 1, pad=0), spread(rows, 3, pad=0)
    assert (alone.length, alone.tokens, alone.label) == (5, 5, "text")
    assert three.inputs["attention_mask"].sum(1).tolist() == [2, 5, 8]
    assert (three.length, three.tokens) == (8, 15)
    assert (three.inputs["input_ids"] == 7).equal(three.inputs["attention_mask"].bool())
    assert spread(rows, 20, pad=0).batch == 20


def test_lengths_from_a_text_are_its_passages_as_the_tokenizer_cuts_them(source: Source, text: Path) -> None:
    found = shapes([pico("bert")], source, (1, 16), lengths_from=text)
    assert [shape.label for shape in found] == ["text", "text"]
    assert 16 < found[1].tokens < found[1].batch * found[1].length
    assert shapes([pico("bert", max_position_embeddings=6)], source, (4,), lengths_from=text)[0].length == 6
    empty = text.with_name("empty.txt")
    empty.write_text("\n\n", encoding="utf-8")
    with pytest.raises(TenfoldError, match=r"a text file must hold at least one line of text, got an empty one: .*empty.txt"):
        shapes([pico("bert")], source, (1,), lengths_from=empty)


def test_pictures_have_one_length(source: Source) -> None:
    model = pico("vit")
    (shape,) = shapes([model], source, (2,))
    with torch.no_grad():
        assert model(**shape.inputs)[0].shape[:2] == (2, shape.length)
    assert pictures([model], 2).to(torch.device("cpu"), torch.bfloat16).inputs["pixel_values"].dtype == torch.bfloat16
    with pytest.raises(TenfoldError, match="a model of pictures has one length, got --length"):
        shapes([model], source, (2,), (8,))
