"""Tiny models of every family, a tokenizer and sentences for them: hidden size 32, 2 layers, 4 heads, made in milliseconds.

Two calls with the same arguments give the same bits, and the global random state is left alone. A weight depends on its name
and the seed only, so a model with a head holds the same base as one without, and a deeper model the same first layers.
"""

import random
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.pytorch_utils import Conv1D

HIDDEN, VOCABULARY, POSITIONS = 32, 120, 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

_BODY = {"hidden_size": HIDDEN, "num_attention_heads": 4}
_TEXT = _BODY | {
    "vocab_size": VOCABULARY,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": SPECIAL.index("[PAD]"),
    "bos_token_id": SPECIAL.index("[CLS]"),
    "eos_token_id": SPECIAL.index("[SEP]"),
}
_ENCODER = _TEXT | {"intermediate_size": 4 * HIDDEN}
# As DeBERTa-v3 ships; with 4 buckets, pairs of tokens further apart than 2 share a logarithmic bucket.
_DEBERTA = _ENCODER | {
    "model_type": "deberta-v2",
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 4,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
    "type_vocab_size": 0,
}

PICO: dict[str, dict[str, Any]] = {
    "bert": _ENCODER | {"model_type": "bert"},
    "deberta_v2": _DEBERTA | {"share_att_key": True},
    "deberta_v2_split": _DEBERTA | {"share_att_key": False},
    "distilbert": _TEXT | {"model_type": "distilbert", "hidden_dim": 4 * HIDDEN},
    "electra": _ENCODER | {"model_type": "electra", "embedding_size": HIDDEN // 2},
    "gpt2": _TEXT | {"model_type": "gpt2"},
    "gpt_neox": _ENCODER | {"model_type": "gpt_neox"},
    "llama": _ENCODER | {"model_type": "llama"},
    "llama_gqa": _TEXT | {"model_type": "llama", "num_key_value_heads": 2, "intermediate_size": 48},
    # The layers alternate between global attention and a window of 2 tokens to each side.
    "modernbert": _ENCODER
    | {"model_type": "modernbert", "cls_token_id": 2, "sep_token_id": 3, "global_attn_every_n_layers": 2, "local_attention": 4},
    # MPNet's positions take token 1 for padding, whatever the config says.
    "mpnet": _ENCODER | {"model_type": "mpnet", "pad_token_id": 1},
    "opt": _TEXT | {"model_type": "opt", "ffn_dim": 4 * HIDDEN, "word_embed_proj_dim": HIDDEN},
    "qwen2": _TEXT | {"model_type": "qwen2", "num_key_value_heads": 2, "intermediate_size": 96},
    "roberta": _ENCODER | {"model_type": "roberta", "type_vocab_size": 1},
    "vit": _BODY | {"model_type": "vit", "intermediate_size": 4 * HIDDEN, "image_size": 12, "patch_size": 4},
}
"""Settings of a config by name: a family's name, or that name and what is special about it."""

HEADS = {
    None: AutoModel,
    "causal_lm": AutoModelForCausalLM,
    "image_classification": AutoModelForImageClassification,
    "masked_lm": AutoModelForMaskedLM,
    "question_answering": AutoModelForQuestionAnswering,
    "sequence_classification": AutoModelForSequenceClassification,
    "token_classification": AutoModelForTokenClassification,
}


def pico_config(name: str, layers: int = 2, **changes: Any) -> PreTrainedConfig:
    return AutoConfig.for_model(**PICO[name] | {"num_hidden_layers": layers} | changes)


def pico(
    name: str, head: str | None = None, dtype: torch.dtype = torch.float32, seed: int = 0, layers: int = 2, **changes: Any
) -> PreTrainedModel:
    """The model called `name` in eval mode: the base model, or that with a head of HEADS. `changes` go to the config."""
    with torch.random.fork_rng(devices=[]):
        model = HEADS[head].from_config(pico_config(name, layers, **changes), dtype=dtype)
    _fill_(model, seed)
    return model.eval()


@torch.no_grad()
def _fill_(model: PreTrainedModel, seed: int) -> None:
    prefix = f"{model.base_model_prefix}."
    for name, parameter in model.named_parameters():
        generator = torch.Generator().manual_seed(crc32(f"{seed} {name.removeprefix(prefix)}".encode()))
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(_lively(model.get_submodule(name.rpartition(".")[0]), name, noise))


def _lively(owner: nn.Module, name: str, noise: Tensor) -> Tensor:
    """Noise at a scale at which activations stay near 1 and softmax and GELU leave their linear range."""
    if isinstance(owner, nn.Embedding):
        if owner.padding_idx is not None:
            noise[owner.padding_idx] = 0
        return noise / 2
    if isinstance(owner, Conv1D):
        return noise / sqrt(noise.shape[0]) if noise.dim() > 1 else noise / 10
    if isinstance(owner, nn.Linear | nn.Conv2d) and noise.dim() > 1:
        return noise / sqrt(noise[0].numel())
    if noise.dim() > 1:
        return noise / 2
    return noise / 10 + (1 if name.endswith("weight") else 0)


def inputs(model: PreTrainedModel, batch: int = 3, length: int = 9, seed: int = 0) -> dict[str, Tensor]:
    """Random arguments: token ids and a mask (the first row is full, the others end in padding), or pictures."""
    generator, config = torch.Generator().manual_seed(seed), model.config
    if model.main_input_name == "pixel_values":
        shape = (batch, config.num_channels, config.image_size, config.image_size)
        return {"pixel_values": torch.randn(shape, generator=generator, dtype=torch.float64).to(model.dtype)}
    ids = torch.randint(len(SPECIAL), config.vocab_size, (batch, length), generator=generator)
    lengths = torch.randint((length + 1) // 2, max(length, 2), (batch,), generator=generator)
    lengths[0] = length
    mask = torch.arange(length) < lengths[:, None]
    return {"input_ids": ids.where(mask, torch.tensor(config.pad_token_id)), "attention_mask": mask.long()}


_DETERMINERS = ["the", "a", "this", "that", "every", "no", "my", "our"]
_ADJECTIVES = ["good", "bad", "small", "large", "old", "new", "slow", "quick", "warm", "cold", "quiet", "loud", "red", "green"]
_NOUNS = ["cat", "dog", "bird", "horse", "river", "house", "tree", "road", "city", "book", "film", "story", "song", "friend"]
_NOUNS += ["child", "teacher", "doctor", "farmer", "table", "window", "garden", "train", "ship", "letter"]
_VERBS = ["sees", "likes", "finds", "takes", "brings", "follows", "hears", "knows", "leaves", "paints", "keeps", "wants"]
_PREPOSITIONS = ["in", "on", "near", "behind", "without", "before", "after", "under"]
_ADVERBS = ["today", "often", "never", "again", "here", "there"]
_PIECES = ["##s", "##ed", "##er", "##ing", "##ly", ".", ",", "?", "and", "not", "is", "who"]
_WORDS = SPECIAL + _DETERMINERS + _ADJECTIVES + _NOUNS + _VERBS + _PREPOSITIONS + _ADVERBS + _PIECES


def tokenizer(token_types: bool = False) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer of about a hundred words; with `token_types` it tells the two sentences of a pair apart."""
    inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(_WORDS)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(word, SPECIAL.index(word)) for word in ("[CLS]", "[SEP]")],
    )
    names = ["input_ids", "token_type_ids", "attention_mask"] if token_types else ["input_ids", "attention_mask"]
    words = {f"{word[1:-1].lower()}_token": word for word in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=POSITIONS, model_input_names=names, **words)


def save_folder(path: Path, name: str = "bert", head: str | None = None, **kw: Any) -> Path:
    """An ordinary folder of `pico(name, head, **kw)` at `path`: config, safetensors and, for text, a tokenizer.

    AutoTokenizer ignores the tokenizer of a qwen2 folder: it takes its own byte-level class, to which most words are unknown.
    """
    model = pico(name, head, **kw)
    model.save_pretrained(path)
    if model.main_input_name == "input_ids":
        tokenizer(token_types=getattr(model.config, "type_vocab_size", 0) > 1).save_pretrained(path)
    return path


def sentence_folder(path: Path) -> Path:
    """An ordinary sentence-transformers folder at `path`: the pico bert and mean pooling."""
    from sentence_transformers import SentenceTransformer  # an optional extra

    with TemporaryDirectory() as plain:
        SentenceTransformer(str(save_folder(Path(plain))), device="cpu").save(str(path), create_model_card=False)
    return path


def _sentence(draw: random.Random) -> str:
    def thing() -> list[str]:
        return [draw.choice(_DETERMINERS), *draw.sample(_ADJECTIVES, draw.randrange(3)), draw.choice(_NOUNS)]

    words = [*thing(), draw.choice(_VERBS), *thing()]
    if draw.random() < 0.5:
        words += [draw.choice(_PREPOSITIONS), *thing()]
    if draw.random() < 0.3:
        words.append(draw.choice(_ADVERBS))
    return " ".join(words) + draw.choice([".", "?"])


_DRAW = random.Random(0)
CORPUS: list[str] = [_sentence(_DRAW) for _ in range(320)]
"""Short sentences of the tokenizer's words."""
