"""The three measures against scipy and by construction."""

import pytest
import torch
from pico import CORPUS, pico, tokenizer
from scipy.stats import spearmanr

from tenfold.evaluation import agreement, embed


def test_the_same_vectors_agree_wholly_and_unrelated_ones_do_not() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 60, 16, generator=generator)
    same = agreement(a, a, k=5)
    assert (same.cosine, same.rank_correlation, same.neighbours_kept) == pytest.approx((1, 1, 1))
    other = agreement(a, b, k=5)
    assert abs(other.cosine) < 0.2
    assert abs(other.rank_correlation) < 0.2
    assert other.neighbours_kept < 0.3


def test_rank_correlation_is_scipys() -> None:
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(30, 8, generator=generator)
    b = a + torch.randn(30, 8, generator=generator)
    upper = torch.triu_indices(30, 30, offset=1).unbind(0)
    pairs = [torch.nn.functional.normalize(x.double()) @ torch.nn.functional.normalize(x.double()).T for x in (a, b)]
    expected = spearmanr(pairs[0][upper], pairs[1][upper]).statistic
    assert agreement(a, b).rank_correlation == pytest.approx(expected, abs=1e-12)


def test_embedding_ignores_padding() -> None:
    model, words = pico("bert"), tokenizer()
    alone = embed(model, words, [CORPUS[0]])
    padded = embed(model, words, [CORPUS[0], " ".join(CORPUS[1:4])])
    torch.testing.assert_close(alone[0], padded[0])
