"""What stands around the texts of a row is what the tokenizer itself puts there."""

import json

import numpy as np
import pytest
from pico import SPECIAL, tokenizer
from tokenizers import Regex, normalizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from tenfold.errors import TenfoldError
from tenfold.text.layout import Layout, layout

TEMPLATES = {
    "bert": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"),
    "roberta": ("[CLS] $A [SEP]", "[CLS] $A [SEP] [SEP] $B [SEP]"),
    "gpt2": ("$A", "$A $B:1"),
    "llama": ("[CLS] $A", "[CLS] $A [CLS]:1 $B:1"),
    "xlnet": ("$A [SEP] [CLS]:2", "$A [SEP] $B:1 [SEP]:1 [CLS]:2"),
}
TEXTS = ["the cat sees a dog.", "who knows the story?"]


def like(family: str, token_types: bool) -> PreTrainedTokenizerFast:
    found = tokenizer(token_types)
    single, pair = TEMPLATES[family]
    special = [(word, SPECIAL.index(word)) for word in ("[CLS]", "[SEP]")]
    found.backend_tokenizer.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=special)
    return found


@pytest.mark.parametrize("token_types", [False, True])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("family", TEMPLATES)
def test_a_row_is_what_the_tokenizer_makes(family: str, count: int, token_types: bool) -> None:
    own = like(family, token_types)
    found = layout(own, count)
    texts = [np.array(own(text, add_special_tokens=False)["input_ids"], np.uint16) for text in TEXTS[:count]]
    whole = own(*TEXTS[:count])
    assert found.ids(texts).tolist() == whole["input_ids"]
    assert found.special == len(whole["input_ids"]) - sum(map(len, texts))
    assert found.typed == token_types == ("token_type_ids" in whole)
    if token_types:
        assert found.types(texts).tolist() == whole["token_type_ids"]
    again = Layout(**json.loads(json.dumps(found.as_dict())))
    assert again.ids(texts).tolist() == whole["input_ids"]


def test_a_tokenizer_without_letters_is_refused() -> None:
    own = tokenizer()
    own.backend_tokenizer.normalizer = normalizers.Replace(Regex("."), "")
    with pytest.raises(TenfoldError, match='must make tokens of "a" and "b", got none from'):
        layout(own, 2)
