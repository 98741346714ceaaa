"""What the models are called with: a batch of sequences with its padding mask, or of pictures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.checkpoints import Source
from tenfold.errors import TenfoldError
from tenfold.pipeline import tokenizer_of
from tenfold.text import passages

LENGTHS = (32, 128, 512)
"""Those that are measured where none is named, as far as the models have positions for them."""
TEXT, PICTURE = "text", "picture"
PASSAGES = 4096
"""How many passages of a text its lengths are taken from."""

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Shape:
    """One batch. `length`: positions a sequence takes, padding included; `tokens`: the real ones of the batch."""

    batch: int
    length: int
    label: str
    tokens: int
    inputs: Inputs

    def to(self, device: torch.device, dtype: torch.dtype) -> "Shape":
        moved = {k: v.to(device, dtype if v.is_floating_point() else None) for k, v in self.inputs.items()}
        return Shape(self.batch, self.length, self.label, self.tokens, moved)


def shapes(
    models: Sequence[Any],
    source: Source,
    batches: Sequence[int],
    lengths: Sequence[int] | None = None,
    lengths_from: Path | None = None,
    seed: int = 0,
) -> list[Shape]:
    """Every batch x length; `source` has the tokenizer for the text."""
    if models[0].main_input_name == "pixel_values":
        if lengths is not None or lengths_from is not None:
            raise TenfoldError("a model of pictures has one length, got --length or --lengths-from: leave it out")
        return [pictures(models, batch, seed) for batch in batches]
    most = min((found for model in models if (found := positions(model)) is not None), default=None)
    if lengths_from is not None:
        rows = _rows(source, lengths_from, most)
        return [spread(rows, batch, padding(models[0])) for batch in batches]
    return [full(models, batch, length, seed) for length in _within(lengths, most) for batch in batches]


def full(models: Sequence[Any], batch: int, length: int, seed: int = 0) -> Shape:
    """Sequences without padding, of random words that every model knows and that stand for nothing else."""
    words = min(model.config.get_text_config().vocab_size for model in models)
    special = set[int]().union(*map(_special, models))
    usable = torch.tensor([word for word in range(words) if word not in special])
    drawn = torch.randint(len(usable), (batch, length), generator=torch.Generator().manual_seed(seed))
    inputs = {"input_ids": usable[drawn], "attention_mask": torch.ones(batch, length, dtype=torch.long)}
    return Shape(batch, length, str(length), batch * length, inputs)


def spread(rows: Sequence[Sequence[int]], batch: int, pad: int) -> Shape:
    """The rows at evenly spaced quantiles of length, padded to the longest: a batch of one is the median row."""
    ordered = sorted(rows, key=len)
    chosen = [ordered[(2 * k + 1) * len(ordered) // (2 * batch)] for k in range(batch)]
    length = len(chosen[-1])
    ids = torch.tensor([[*row, *[pad] * (length - len(row))] for row in chosen])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in chosen])
    return Shape(batch, length, TEXT, int(mask.sum()), {"input_ids": ids, "attention_mask": mask})


def pictures(models: Sequence[Any], batch: int, seed: int = 0) -> Shape:
    """`length` is the number of patches and the class's one."""
    config = models[0].config
    size = (batch, config.num_channels, config.image_size, config.image_size)
    length = (config.image_size // config.patch_size) ** 2 + 1
    pixels = torch.randn(size, generator=torch.Generator().manual_seed(seed))
    return Shape(batch, length, PICTURE, batch * length, {"pixel_values": pixels})


def padding(model: Any) -> int:
    found = model.config.get_text_config().pad_token_id
    return 0 if found is None else int(found)


def positions(model: Any) -> int | None:
    """How long a sequence may be. RoBERTa's table begins with rows that stand for padding."""
    limit: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    table = _position_table(model)
    if table is not None and table.padding_idx is not None:
        return int(table.num_embeddings - table.padding_idx - 1)
    return limit


def _position_table(model: Any) -> nn.Embedding | None:
    named = (m for name, m in model.named_modules() if name.endswith("position_embeddings") and isinstance(m, nn.Embedding))
    return next(named, None)


def _special(model: Any) -> set[int]:
    """Token numbers with a meaning to the model itself; MPNet takes 1 for padding whatever its config says."""
    config = model.config.get_text_config().to_dict()
    named = {value for key, value in config.items() if key.endswith("_token_id") and isinstance(value, int)}
    table = _position_table(model)
    return named | ({table.padding_idx} if table is not None and table.padding_idx is not None else set())


def _within(asked: Iterable[int] | None, most: int | None) -> list[int]:
    if asked is None:
        return [length for length in LENGTHS if most is None or length <= most] or [most or LENGTHS[0]]
    for length in asked:
        if most is not None and length > most:
            raise TenfoldError(
                f"a length must be at most {most}, the positions that the models have, got {length}: leave it out"
            )
    return list(asked)


def _rows(source: Source, file: Path, most: int | None) -> list[list[int]]:
    texts = list(islice(passages(file), PASSAGES))
    cut = {} if most is None else {"truncation": True, "max_length": most}
    encoded: list[list[int]] = tokenizer_of(source)(texts, verbose=False, **cut)["input_ids"]
    return encoded
