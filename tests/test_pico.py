"""The tiny models are repeatable, lively, and make ordinary folders."""

import random
from pathlib import Path

import pytest
import torch
from pico import CORPUS, HEADS, PICO, POSITIONS, SPECIAL, VOCABULARY, inputs, pico, save_folder, sentence_folder, tokenizer
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

WITH_HEADS = [
    ("bert", "masked_lm"),
    ("deberta_v2", "token_classification"),
    ("gpt2", "causal_lm"),
    ("gpt_neox", "causal_lm"),
    ("llama", "causal_lm"),
    ("modernbert", "sequence_classification"),
    ("roberta", "question_answering"),
    ("vit", "image_classification"),
]


def output(model: PreTrainedModel, arguments: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        found = model(**arguments)[0]
    assert isinstance(found, Tensor)
    return found


@pytest.mark.parametrize("name", PICO)
def test_the_same_call_gives_the_same_model_and_leaves_the_random_state(name: str) -> None:
    before = torch.get_rng_state(), random.getstate()
    model = pico(name)
    arguments = inputs(model)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]

    torch.rand(1)
    again = pico(name)
    assert not again.training
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    assert all(torch.equal(value, inputs(again)[key]) for key, value in arguments.items())
    assert torch.equal(output(model, arguments), output(again, arguments))
    assert not torch.allclose(output(model, arguments), output(pico(name, seed=1), arguments), atol=0.1)


@pytest.mark.parametrize("name", PICO)
def test_outputs_are_lively(name: str) -> None:
    model = pico(name)
    arguments = inputs(model)
    found = output(model, arguments)
    assert found.isfinite().all()
    assert 0.3 < found.std() < 3
    assert (found - output(model, inputs(model, seed=1))).abs().mean() > 0.1

    # One other token at the start, or patch in the corner, is felt by the last position: attention is at work.
    other = {key: value.clone() for key, value in arguments.items()}
    if name == "vit":
        other["pixel_values"][:, :, :4, :4] += 1
    else:
        other["input_ids"][0, 0] = VOCABULARY - 1
    assert (found[0, -1] - output(model, other)[0, -1]).abs().max() > 1e-2


@pytest.mark.parametrize("name", sorted(set(PICO) - {"vit"}))
def test_some_tokens_are_padding_and_padding_is_not_read(name: str) -> None:
    model = pico(name, dtype=torch.float64)
    arguments = inputs(model)
    mask = arguments["attention_mask"].bool()
    assert mask[0].all()
    assert not mask[1:].all(1).any()
    assert (arguments["input_ids"][~mask] == model.config.pad_token_id).all()
    assert (arguments["input_ids"][mask] >= len(SPECIAL)).all()

    other = arguments | {"input_ids": arguments["input_ids"].where(mask, torch.tensor(VOCABULARY - 1))}
    torch.testing.assert_close(output(model, arguments)[mask], output(model, other)[mask], rtol=1e-10, atol=1e-10)


def assert_same(loaded: PreTrainedModel, model: PreTrainedModel) -> None:
    """The same bits in the weights. Products may differ in the last one: weights in a mapped file are aligned otherwise."""
    weights = model.state_dict()
    assert loaded.state_dict().keys() == weights.keys()
    assert all(torch.equal(weight, weights[name]) for name, weight in loaded.state_dict().items())
    near = 1e-12 if model.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(output(loaded, inputs(model)), output(model, inputs(model)), rtol=near, atol=near)


@pytest.mark.parametrize("name", PICO)
def test_a_folder_loads_to_the_same_model(name: str, tmp_path: Path) -> None:
    model = pico(name)
    assert_same(AutoModel.from_pretrained(save_folder(tmp_path / "same", name)), model)
    other = AutoModel.from_pretrained(save_folder(tmp_path / "other", name, seed=1))
    assert not torch.allclose(output(other, inputs(model)), output(model, inputs(model)), atol=0.1)


@pytest.mark.parametrize(("name", "head"), WITH_HEADS)
def test_a_head_sits_on_the_same_base_and_survives_a_folder(name: str, head: str, tmp_path: Path) -> None:
    model, base = pico(name, head, dtype=torch.float64), pico(name, dtype=torch.float64)
    assert torch.equal(output(model.base_model, inputs(model)), output(base, inputs(model)))
    loaded = HEADS[head].from_pretrained(save_folder(tmp_path, name, head, dtype=torch.float64))
    assert loaded.dtype == torch.float64
    assert_same(loaded, model)


def test_precision_and_depth_keep_the_weights() -> None:
    exact, deep = pico("bert", dtype=torch.float64), pico("bert", layers=3)
    assert len(deep.encoder.layer) == 3
    for name, weight in pico("bert").state_dict().items():
        assert torch.equal(weight, exact.state_dict()[name].to(weight.dtype))
        assert torch.equal(weight, deep.state_dict()[name])


def test_config_changes_reach_the_model() -> None:
    model = pico("bert", "sequence_classification", num_labels=5)
    assert output(model, inputs(model, batch=2)).shape == (2, 5)


def test_the_tokenizer_knows_every_word_of_the_corpus() -> None:
    words = tokenizer()
    assert len(words) <= VOCABULARY
    assert [getattr(words, f"{token[1:-1].lower()}_token_id") for token in SPECIAL] == list(range(len(SPECIAL)))
    assert len(set(CORPUS)) > 300
    for sentence, ids in zip(CORPUS, words(CORPUS)["input_ids"], strict=True):
        assert words.unk_token_id not in ids
        assert len(ids) <= POSITIONS
        assert words.decode(ids, skip_special_tokens=True) == sentence
    assert words.tokenize("cats zebra") == ["cat", "##s", "[UNK]"]


# Of a qwen2 folder transformers reads the tokenizer with its own byte-level class, whatever the folder says.
@pytest.mark.parametrize("name", sorted(set(PICO) - {"vit", "qwen2"}))
def test_a_folder_has_a_tokenizer_whose_output_the_model_takes(name: str, tmp_path: Path) -> None:
    folder = save_folder(tmp_path, name)
    words = AutoTokenizer.from_pretrained(folder)
    encoded = words(CORPUS[:3], CORPUS[3:6], padding=True, return_tensors="pt")
    assert words.decode(encoded["input_ids"][0], skip_special_tokens=True) == f"{CORPUS[0]} {CORPUS[3]}"
    assert ("token_type_ids" in encoded) == (name in ("bert", "electra"))
    assert output(AutoModel.from_pretrained(folder), dict(encoded)).isfinite().all()


def test_a_sentence_folder_embeds(tmp_path: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    folder = sentence_folder(tmp_path / "sentences")
    assert {"modules.json", "1_Pooling"} <= {path.name for path in folder.iterdir()}
    embedded = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(CORPUS[:2], convert_to_tensor=True)

    encoded = tokenizer()(CORPUS[:2], padding=True, return_tensors="pt")
    hidden, mask = output(pico("bert"), dict(encoded)), encoded["attention_mask"][..., None]
    torch.testing.assert_close(embedded, (hidden * mask).sum(1) / mask.sum(1), rtol=1e-5, atol=1e-5)
