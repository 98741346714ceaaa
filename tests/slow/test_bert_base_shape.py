"""The paper's counts come out of a real compressed model of BERT-base's shape, out of its file and out of torch's counter."""

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModel, BertConfig, BertModel

import tenfold
from tenfold.reporting.paper import table
from tenfold.safetensors_header import read_header

pytestmark = pytest.mark.slow

PAPER = {"III-384": 22_930_176, "III-64": 1_794_816, "IV-36-128": 1_898_304, "IV-SAN-24-384": 61_859_712}
WORDS = 30_522 * 768


@pytest.mark.parametrize("name", PAPER)
def test_parameters_in_memory_and_on_disk_and_flops(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig())
    plan = tenfold.plan(model, name)
    tenfold.compress_(model, plan, init="random")
    assert sum(p.numel() for p in model.parameters()) - WORDS == PAPER[name]
    model.save_pretrained(tmp_path)
    stored = sum(torch.Size(shape).numel() for shape in read_header(tmp_path).shapes.values())
    assert stored - WORDS == PAPER[name]
    loaded = AutoModel.from_pretrained(tmp_path, attn_implementation="eager")
    assert sum(p.numel() for p in loaded.parameters()) - WORDS == PAPER[name]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        loaded(torch.full((1, 128), 100), torch.ones(1, 128, dtype=torch.long))
    pooler = 2 * 768 * 768
    assert counter.get_total_flops() - pooler == plan.flops(1, 128, fold=True)[1]
    printed = table("san-ffn" if "SAN" in name else "glue")
    assert plan.flops(1, 128)[1] == printed.cell(f"BERT-{name}", "FLOPS by site")
