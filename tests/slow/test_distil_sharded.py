"""FSDP2: a student sharded block by block over two processes has the gradients of a whole one, its bank included."""

import subprocess
import sys
from pathlib import Path

import pytest
from distilling import environment

pytestmark = pytest.mark.slow

SCRIPT = """
import copy
import torch
import torch.distributed as dist
from pico import inputs, pico
from torch.distributed.fsdp import fully_shard
import tenfold
from tenfold.distillation import Tracer, Wanted, compare

dist.init_process_group("gloo")
rank, wanted = dist.get_rank(), Wanted.of({"hidden": (1, 2)})
teacher, student = pico("bert", seed=1), pico("bert")
tenfold.compress_(student, tenfold.plan(student, "IV-4-8"), init="hosvd")
whole = copy.deepcopy(student)
traced = {id(model): Tracer(model, wanted) for model in (teacher, student, whole)}
for block in student.encoder.layer:
    fully_shard(block)
fully_shard(student)  # the bank belongs to the root: one parameter, whoever uses it

batch = inputs(whole, 4, 12)
own = {name: rows[2 * rank : 2 * rank + 2] for name, rows in batch.items()}
for model, rows, times in ((student, own, 2), (whole, batch, 1)):  # FSDP takes the mean over processes
    with torch.no_grad():
        target = traced[id(teacher)](rows)
    seen = traced[id(model)](rows)
    (times * sum(compare("hidden", seen, target, (k, k)).total for k in (1, 2)) / batch["attention_mask"].sum()).backward()
compared = 0
for (name, ours), (_, theirs) in zip(student.named_parameters(), whole.named_parameters(), strict=True):
    assert (ours.grad is None) == (theirs.grad is None), name
    if ours.grad is not None:
        torch.testing.assert_close(ours.grad.full_tensor(), theirs.grad, rtol=1e-4, atol=1e-6)
        compared += "factor_banks" in name
assert compared == 4
dist.destroy_process_group()
print("same gradients")
"""


def test_a_sharded_student_has_the_gradients_of_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "sharded.py").write_text(SCRIPT, encoding="utf-8")
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(tmp_path / "sharded.py")]
    places = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(words, env=environment(tmp_path) | places, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("same gradients") == 2
