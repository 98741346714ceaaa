"""Tokens a second of training: the dense model, factored ones, and the same ones in the paper's order of multiplication.

    python benchmarks/training.py [--shape small|minilm|bert-base] [--methods III-64,III-70+II-20] [--rounds N] [--teacher]

A step is forward, backward and AdamW of all weights but the word table, on random tokens; on CUDA under bfloat16 autocast with
the fused AdamW. The paper's order, for its III and IV, builds P C in every layer that needs it and multiplies x U for every
matrix by itself; its gradients are those of ours (checked before timing). `--teacher` adds the dense model's forward pass
without gradients.

All models take turns within one process, one step each a round, so that what slows the machine slows all of them; a ratio is
the median over rounds of dense seconds over own seconds. Weights are random: the work does not depend on their values.
Prints a table and writes benchmarks/results/training-SHAPE-DEVICE.json.
"""

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn
from transformers import BertConfig, BertModel

import tenfold
from tenfold.forms.tensor_train import TensorTrain
from tenfold.forms.tucker import Tucker
from tenfold.modules import factored_layers
from tenfold.nn import FactorBank, FactoredLinear

VOCABULARY = 1000
Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    batch: int
    length: int
    methods: str

    @property
    def config(self) -> BertConfig:
        return BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            intermediate_size=4 * self.width,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )


SHAPES = {
    "small": Shape(192, 4, 6, batch=4, length=64, methods="III-48,IV-12-48"),
    "minilm": Shape(384, 6, 12, batch=4, length=128, methods="III-64,IV-36-128,III-192,III-70+II-20"),
    "bert-base": Shape(768, 12, 12, batch=64, length=128, methods="III-64,IV-36-128,III-384,III-139+II-41"),
}
PAPERS = TensorTrain, Tucker
"""Forms that the paper has an order for."""


class PaperLinear(nn.Module):
    """The same layer with everything multiplied as the paper's formulas stand: for each tile x U (P_g C) V."""

    _bank: FactorBank

    def __init__(self, layer: FactoredLinear) -> None:
        super().__init__()
        object.__setattr__(self, "_bank", layer.bank)  # the model owns it
        self.grid, self.bias = layer.grid, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        parts = x.split(x.shape[-1] // len(self.grid), dim=-1)
        tiles = [[self._tile(part, g) for g in row] for part, row in zip(parts, self.grid, strict=True)]
        y = torch.cat([torch.stack(column).sum(0) for column in zip(*tiles, strict=True)], dim=-1)
        return y if self.bias is None else y + self.bias

    def _tile(self, x: Tensor, g: int) -> Tensor:
        factors = self._bank.factors()
        if isinstance(self._bank.form, Tucker):
            core = torch.einsum("k,kpq->pq", factors["P"][g], factors["C"])
        else:
            core = factors["core"][g]
        return x @ factors["U"] @ core @ factors["V"]


def in_papers_order(model: BertModel) -> BertModel:
    model = copy.deepcopy(model)
    model._forward_pre_hooks.clear()  # the products of all banks, made once a forward pass
    for name, layer in factored_layers(model).items():
        assert isinstance(layer, FactoredLinear)
        model.set_submodule(name, PaperLinear(layer))
    return model


def models(shape: Shape, methods: list[str]) -> dict[str, BertModel]:
    torch.manual_seed(0)
    found = {"dense": BertModel(shape.config, add_pooling_layer=False)}
    for method in methods:
        student = BertModel(shape.config, add_pooling_layer=False)
        tenfold.compress_(student, tenfold.plan(student, method), init="random")
        found[method] = student
        if all(isinstance(bank.form, PAPERS) for bank in student.factor_banks.values()):
            found[f"{method}, paper's order"] = in_papers_order(student)
    return found


def step_of(model: BertModel, batch: Batch, target: Tensor, teacher: BertModel | None) -> Callable[[], None]:
    cuda = target.is_cuda
    model.get_input_embeddings().requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=cuda)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16) if cuda else nullcontext():
            if teacher is not None:
                with torch.no_grad():
                    teacher(**batch)
            loss = (model(**batch).last_hidden_state.float() - target).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if cuda:
            torch.cuda.synchronize()

    return step


def check(found: Mapping[str, BertModel], batch: Batch, target: Tensor) -> None:
    """Both orders are one function with one gradient."""
    for name in (name for name in found if f"{name}, paper's order" in found):
        grads = []
        for model in (found[name], found[f"{name}, paper's order"]):
            (model(**batch).last_hidden_state - target).square().mean().backward()
            grads.append([p.grad for p in model.factor_banks.parameters()])
            model.zero_grad()
        for ours, theirs in zip(*grads, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3 * float(theirs.abs().max()))


def measure(steps: Mapping[str, Callable[[], None]], rounds: int, warm: int = 2) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for k in range(warm + rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if k >= warm:
                seconds[name].append(time.perf_counter() - start)
    return seconds


@dataclass(frozen=True)
class Row:
    """to_dense: times as fast as the dense model, the median over rounds and the middle half of them."""

    model: str
    tokens_per_second: float
    to_dense: float
    low: float
    high: float
    seconds: tuple[float, ...]


def rows_of(seconds: Mapping[str, list[float]], tokens: int) -> list[Row]:
    found = []
    for name, own in seconds.items():
        ratios = [dense / each for dense, each in zip(seconds["dense"], own, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        rate = tokens / statistics.median(own)
        found.append(
            Row(name, round(rate, 1), round(middle, 3), round(low, 3), round(high, 3), tuple(round(s, 5) for s in own))
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="minilm")
    parser.add_argument("--methods", help="comma-separated; default: by shape")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--teacher", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    start = time.time()
    shape, device = SHAPES[arguments.shape], "cuda" if torch.cuda.is_available() else "cpu"
    batch, length = arguments.batch or shape.batch, arguments.length or shape.length
    methods = (arguments.methods or shape.methods).split(",")
    found = {name: m.to(device) for name, m in models(shape, methods).items()}
    inputs = {"input_ids": torch.randint(VOCABULARY, (batch, length), device=device)}
    target = torch.randn(batch, length, shape.width, device=device)
    check(found, inputs, target)
    teacher = copy.deepcopy(found["dense"]).eval() if arguments.teacher else None
    steps = {name: step_of(model, inputs, target, teacher) for name, model in found.items()}
    rows = rows_of(measure(steps, max(2, arguments.rounds)), batch * length)
    hardware = torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    result = {
        "command": ["python", "benchmarks/training.py", *sys.argv[1:]],
        "shape": arguments.shape,
        "batch": batch,
        "length": length,
        "device": hardware,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "tenfold": tenfold.__version__},
        "rows": [asdict(row) for row in rows],
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    file = arguments.out / f"training-{arguments.shape}-{device}.json"
    file.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(f"{arguments.shape}, {batch} x {length} tokens a step, {hardware}")
    print(f"{'model':32s} {'tokens/s':>10s} {'times as fast as dense':>24s} {'middle half':>16s}")
    for row in rows:
        print(f"{row.model:32s} {row.tokens_per_second:10,.0f} {row.to_dense:24.2f} {f'{row.low:.2f} to {row.high:.2f}':>16s}")
    print(f"{time.time() - start:.0f} s in all; {file}", file=sys.stderr)


if __name__ == "__main__":
    main()
