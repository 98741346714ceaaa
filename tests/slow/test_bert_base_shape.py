"""The paper's counts come out of a real compressed model of BERT-base's shape, and out of its file."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel

import tenfold
from tenfold.safetensors_header import read_header

pytestmark = pytest.mark.slow

PAPER = {"III-384": 22_930_176, "III-64": 1_794_816, "IV-36-128": 1_898_304, "IV-SAN-24-384": 61_859_712}
WORDS = 30_522 * 768


@pytest.mark.parametrize("name", PAPER)
def test_parameters_in_memory_and_on_disk(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig())
    plan = tenfold.plan(model, name)
    tenfold.compress_(model, plan, init="random")
    assert sum(p.numel() for p in model.parameters()) - WORDS == PAPER[name]
    model.save_pretrained(tmp_path)
    stored = sum(torch.Size(shape).numel() for shape in read_header(tmp_path).shapes.values())
    assert stored - WORDS == PAPER[name]
    assert sum(p.numel() for p in AutoModel.from_pretrained(tmp_path).parameters()) - WORDS == PAPER[name]
