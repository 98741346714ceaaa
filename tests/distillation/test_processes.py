"""Two processes under torchrun end where one does, at the same global batch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from distilling import environment, general, student_folder, weights, write_text
from pico import save_folder

from tenfold.distillation.running import distill_folder

PHASES = [
    {"local": True},
    {"share": 2, "losses": [{"name": "hidden"}, {"name": "relations", "layers": "last"}]},
    {"local": True},
]


def test_two_processes_end_in_the_weights_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Local phases leave embeddings without a gradient, which DDP must not wait for; a bank is one parameter in both."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("TENFOLD_CACHE", str(cache))
    student, teacher = student_folder(tmp_path / "student", "IV-4-8"), save_folder(tmp_path / "teacher", seed=1)
    stage = general(write_text(tmp_path / "text.txt"), phases=PHASES)
    one = distill_folder(str(student), tmp_path / "one", str(teacher), stage)
    words = [
        "-m", "torch.distributed.run", "--nproc-per-node", 2, "-m", "tenfold", "distill", student, tmp_path / "two",
        "--teacher", teacher, "--text", stage.text, "--tokens", stage.tokens, "--batch", stage.batch, "--json",
        "--set", f"length={stage.length}", "--set", f"held_out={stage.held_out}", "--set", "evaluations=2",
        "--set", f"phases={json.dumps(PHASES)}",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, *map(str, words)], env=environment(cache), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert [row["step"] for row in told["curve"]] == [row["step"] for row in one.curve]
    assert told["curve"][-1]["last"] == pytest.approx(one.curve[-1]["last"], rel=1e-4)
    before, ours, theirs = (weights(tmp_path / name) for name in ("student", "one", "two"))
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        if "key.bias" not in name:  # softmax does not see it: its gradient is rounding, which Adam makes large
            torch.testing.assert_close(theirs[name], tensor, rtol=0, atol=2e-5)
    moved = [name for name, tensor in ours.items() if not torch.equal(tensor, before[name])]
    assert "embeddings.position_embeddings.weight" in moved and not any("pooler" in name for name in moved)
