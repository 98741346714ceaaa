"""Times of an encoder of BERT-base's shape: the original in its strongest forms, and each compressed form in each way.

    python benchmarks/speed.py [--quick] [--parts encoder,mixed,training] [--forms III-64,...] [--batches 1,8] [--lengths 128]

Writes benchmarks/results/speed-DEVICE.json, docs/speed-DEVICE.png (with .svg and .csv), and prints the tables. Weights are
random: the work does not depend on their values. float32 on a CPU, bfloat16 on CUDA, where every call that can be is a replayed
CUDA graph.

encoder    hidden states in, hidden states out, full sequences. Dense: transformers' modules; one compiled layer with queries,
           keys and values in one product; the same in tenfold's own chain of torch products; on CUDA also with cuBLASLt's
           epilogue for bias and GELU (whose tanh GELU is not exact: it only helps the original), and with each attention.
           Compressed: the paper's order, the folded chain layer by layer, the encoder as whole blocks, optimize_'s choice.
mixed      the same with lengths drawn between 1/8 of the longest and the longest, padded as users do, through the whole model
training   benchmarks/training.py

All contenders of a cell take turns within one process, one call each a round; --busy takes the processor's time of one thread,
which neighbours disturb less than the wall's. A ratio is that of the strongest dense contender
(the least median of the cell) to the contender, over the rounds, with its 95 % interval (tenfold.measurement.statistics).
Every answer of the encoder is compared with float64 in the same run, on the first sequence of the batch.
"""

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import training
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import BertConfig, BertModel

import tenfold
from tenfold.measurement.machine import machine
from tenfold.measurement.statistics import FEWEST, Ratio, ratio
from tenfold.plots import figure, look, save, style
from tenfold.records import versions
from tenfold.runtime import optimize_
from tenfold.runtime.encoding import dense_blocks_
from tenfold.runtime.fusing import Whole
from tenfold.runtime.graphs import TOKENS, record_cuda
from tenfold.runtime.kernels import tuning

WIDTH, LAYERS, HEADS, VOCABULARY = 768, 12, 12, 1000
"""LAYERS unless --layers says otherwise."""
FORMS = ("III-384", "IV-72-384", "IV-36-256", "IV-36-128", "III-64")
CPU_GOALS = {
    "III-384": (1.4, 1.4),
    "IV-72-384": (1.4, 1.4),
    "IV-36-256": (2.0, 1.8),
    "IV-36-128": (3.5, 2.8),
    "III-64": (5.5, 4.3),
}
"""Of issue 6, at n = 128, for batch 1 and 8."""
WAYS = ("paper's order", "chain", "fused", "auto")
ATTENTIONS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
NEAR = {torch.float32: 2e-5, torch.bfloat16: 6e-2}
"""How far from float64 an answer may be, relative to its norm."""

Call = Callable[[], Tensor]


@dataclass(frozen=True)
class Row:
    """One contender in one cell. `ratio`: times as fast as the strongest dense; `error` to float64; `way`: what was chosen."""

    part: str
    form: str
    way: str
    length: int
    batch: int
    seconds: float
    ratio: Ratio
    error: float
    chosen: str = ""
    peak_bytes: int = 0


@dataclass(frozen=True)
class Setting:
    device: torch.device
    dtype: torch.dtype
    rounds: int
    budget: float
    ways: tuple[str, ...] = WAYS
    clock: Callable[[], float] = time.perf_counter


# The original


def config(layers: int) -> BertConfig:
    return BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
    )


def dense_weights(model: BertModel) -> list[tuple[Tensor, ...]]:
    """What `dense_layer` takes, a tuple a layer."""
    found = []
    for layer in model.encoder.layer:
        own, out = layer.attention.self, layer.attention.output
        heads = (own.query, own.key, own.value)
        found.append((
            torch.cat([each.weight for each in heads]).T.contiguous(), torch.cat([each.bias for each in heads]),
            out.dense.weight.T.contiguous(), out.dense.bias, out.LayerNorm.weight, out.LayerNorm.bias,
            layer.intermediate.dense.weight.T.contiguous(), layer.intermediate.dense.bias,
            layer.output.dense.weight.T.contiguous(), layer.output.dense.bias,
            layer.output.LayerNorm.weight, layer.output.LayerNorm.bias,
        ))  # fmt: skip
    return [tuple(tensor.detach() for tensor in layer) for layer in found]


def dense_layer(x: Tensor, *w: Tensor, epilogue: bool = False) -> Tensor:
    """x (B, n, D)."""
    qkv, qkv_bias, o, o_bias, gamma1, beta1, inner, inner_bias, out, out_bias, gamma2, beta2 = w
    flat = x.flatten(0, 1)
    q, k, v = torch.addmm(qkv_bias, flat, qkv).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
    context = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(flat.shape)
    flat = F.layer_norm(flat + torch.addmm(o_bias, context, o), (WIDTH,), gamma1, beta1, 1e-12)
    if epilogue:
        hidden = torch._addmm_activation(inner_bias, flat, inner, use_gelu=True)
    else:
        hidden = F.gelu(torch.addmm(inner_bias, flat, inner))
    return F.layer_norm(flat + torch.addmm(out_bias, hidden, out), (WIDTH,), gamma2, beta2, 1e-12).view(x.shape)


def layer_by_layer(layer: Callable[..., Tensor], weights: Sequence[tuple[Tensor, ...]], x: Tensor) -> Tensor:
    for own in weights:
        x = layer(x, *own)
    return x


def dense_contenders(model: BertModel, x: Tensor) -> dict[str, Call]:
    chain = deepcopy(model)
    dense_blocks_(chain)
    weights = dense_weights(model)
    calls: dict[str, Call] = {"eager": partial(encoded, model, x), "blocks": partial(whole(chain).full, x)}
    torch._dynamo.reset()
    compiled = torch.compile(dense_layer, dynamic=False)
    calls["compiled"] = partial(layer_by_layer, compiled, weights, x)
    if x.is_cuda:
        calls["eager"] = graphed(calls["eager"], x)
        epilogue = torch.compile(partial(dense_layer, epilogue=True), dynamic=False)
        for name, attention in ATTENTIONS.items():
            with sdpa_kernel(attention):
                calls[f"compiled, {name}"] = graphed(calls["compiled"], x)
                calls[f"epilogue, {name}"] = graphed(partial(layer_by_layer, epilogue, weights, x), x)
        del calls["compiled"]
    return calls


def encoded(model: Any, x: Tensor) -> Tensor:
    """Layer by layer, as transformers does."""
    return model.encoder(x).last_hidden_state


def graphed(call: Call, x: Tensor) -> Call:
    """As a replayed graph, where a GPU would wait for Python otherwise."""
    return record_cuda(lambda _: call(), (x,)) if x.is_cuda and x.shape[0] * x.shape[1] <= TOKENS else call


# Compressed


def compressed(form: str, layers: int) -> BertModel:
    torch.manual_seed(0)
    model = BertModel(config(layers), add_pooling_layer=False)
    tenfold.compress_(model, tenfold.plan(model, form), init="random")
    return model.eval()


def whole(model: Any) -> Whole:
    return next(module for module in model.modules() if isinstance(module, Whole))


def way_of(model: BertModel, path: str, x: Tensor) -> tuple[BertModel, str]:
    """A copy that computes in a way, and what was chosen."""
    model = deepcopy(model)
    found = optimize_(model, batch=x.shape[0], length=x.shape[1], path=path)
    layers = "/".join(choice.path for choice in found.choices)
    return model, found.whole.path if found.whole.path not in ("layers", "blocks") else f"{found.whole.path}: {layers}"


def contenders(model: BertModel, x: Tensor, ways: Sequence[str] = WAYS) -> tuple[dict[str, Call], dict[str, str]]:
    """In each way, and what was chosen in it."""
    calls: dict[str, Call] = {}
    chosen = {}
    if WAYS[0] in ways:
        calls[WAYS[0]] = graphed(partial(encoded, training.in_papers_order(model), x), x)
    for path in (way for way in WAYS[1:] if way in ways):
        made, chosen[path] = way_of(model, path, x)
        if chosen[path].startswith("layers"):
            calls[path] = graphed(partial(encoded, made, x), x)
        else:
            calls[path] = partial(whole(made).full, x)
    return calls, chosen


# Timing


def rounds_of(calls: dict[Any, Call], setting: Setting) -> dict[Any, list[float]]:
    """Seconds of each call in each round; a contender that does not run is left out, and said."""
    for name, call in list(calls.items()):
        try:
            with tuning():
                call()
            for _ in range(2 if setting.device.type == "cuda" else 0):  # graphs are recorded the second time
                call()
        except Exception as error:  # whatever a compiler or a backend makes of this machine
            print(f"{name} does not run here: {str(error).splitlines()[0][:120]}", file=sys.stderr)
            del calls[name]
    found: dict[Any, list[float]] = {name: [] for name in calls}
    started = time.perf_counter()
    for number in range(setting.rounds):
        for name, call in calls.items():
            found[name].append(seconds_of(call, setting))
        if number + 1 >= FEWEST and time.perf_counter() - started > setting.budget:
            break
    return found


def seconds_of(call: Call, setting: Setting) -> float:
    wait(setting.device)
    start = setting.clock()
    call()
    wait(setting.device)
    return setting.clock() - start


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def error_of(found: Tensor, expected: Tensor) -> float:
    return float((found[:1].double() - expected).norm() / expected.norm())


def peak(call: Call, device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats(device)
    call()
    return torch.cuda.max_memory_allocated(device)


def rows_of(
    part: str,
    seconds: dict[Any, list[float]],
    errors: dict[Any, float],
    chosen: dict[Any, str],
    x: Tensor,
    peaks: dict[Any, int],
) -> list[Row]:
    dense = min((key for key in seconds if key[0] == "dense"), key=lambda key: statistics.median(seconds[key]))
    return [
        Row(
            part, form, way, x.shape[1], x.shape[0], statistics.median(own), ratio(seconds[dense], own), errors[form, way],
            chosen.get((form, way), ""), peaks.get((form, way), 0),
        )
        for (form, way), own in seconds.items()
    ]  # fmt: skip


# Parts


@torch.inference_mode()
def encoder_cell(models: dict[str, BertModel], length: int, batch: int, setting: Setting) -> list[Row]:
    torch.manual_seed(length + batch)
    x = torch.randn(batch, length, WIDTH, device=setting.device, dtype=setting.dtype)
    calls: dict[Any, Call] = {}
    chosen: dict[Any, str] = {}
    errors: dict[Any, float] = {}
    for form, model in models.items():
        given, why = (dense_contenders(model, x), {}) if form == "dense" else contenders(model, x, setting.ways)
        calls |= {(form, way): call for way, call in given.items()}
        chosen |= {(form, way): text for way, text in why.items()}
    seconds = rounds_of(calls, setting)
    for form, model in models.items():
        expected = encoded(deepcopy(model).double(), x[:1].double())
        for key in [key for key in seconds if key[0] == form]:
            errors[key] = error_of(calls[key]().view(x.shape), expected)
            if errors[key] > NEAR[setting.dtype]:
                raise AssertionError(f"{key} at {batch} x {length} is off by {errors[key]:.1e}")
    peaks = {key: peak(call, setting.device) for key, call in calls.items()}
    return rows_of("encoder", seconds, errors, chosen, x, peaks)


@torch.inference_mode()
def mixed_cell(models: dict[str, BertModel], length: int, batch: int, setting: Setting) -> list[Row]:
    generator = torch.Generator().manual_seed(batch)
    lengths = torch.randint(length // 8, length + 1, (batch,), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length) < lengths[:, None]).long().to(setting.device)
    x = torch.randn(batch, length, WIDTH, device=setting.device, dtype=setting.dtype)
    calls: dict[Any, Call] = {}
    chosen: dict[Any, str] = {}
    errors: dict[Any, float] = {}

    def call(model: BertModel) -> Call:
        return lambda: model(inputs_embeds=x, attention_mask=mask).last_hidden_state

    for form, model in models.items():
        calls[form, "eager" if form == "dense" else "factors"] = call(model)
        if form == "dense":
            packed = deepcopy(model)
            dense_blocks_(packed)
            calls[form, "blocks"] = call(packed)
            continue
        for path in (way for way in ("fused", "auto") if way in setting.ways):
            made, chosen[form, path] = way_of(model, path, x)
            calls[form, path] = call(made)
    seconds = rounds_of(calls, setting)
    for form, model in models.items():
        exact = deepcopy(model).double()
        expected = exact(inputs_embeds=x[:1].double()).last_hidden_state
        errors |= {key: error_of(calls[key](), expected) for key in seconds if key[0] == form}
    return rows_of("mixed", seconds, errors, chosen, x, {})


def training_rows(setting: Setting) -> list[dict[str, Any]]:
    """At the ranks of BERT-base on CUDA, of MiniLM's shape on a CPU."""
    name, methods = ("bert-base", "III-64,III-384") if setting.device.type == "cuda" else ("minilm", "III-64,III-192")
    shape = training.SHAPES[name]
    found = {key: model.to(setting.device) for key, model in training.models(shape, methods.split(",")).items()}
    batch = {"input_ids": torch.randint(VOCABULARY, (shape.batch, shape.length), device=setting.device)}
    target = torch.randn(shape.batch, shape.length, shape.width, device=setting.device)
    training.check(found, batch, target)
    steps = {key: training.step_of(model, batch, target, None) for key, model in found.items()}
    rows = training.rows_of(training.measure(steps, max(FEWEST, setting.rounds // 2)), shape.batch * shape.length)
    return [{"shape": name, **asdict(row)} for row in rows]


# What is told


def table(rows: Iterable[Row], part: str) -> list[str]:
    lines = [
        f"{'form':10s} {'way':18s} {'n':>4s} {'batch':>5s} {'ms':>9s} {'times as fast as dense':>24s} {'error':>8s}  chosen"
    ]
    for row in (row for row in rows if row.part == part):
        interval = f"{row.ratio.estimate:.2f} ({row.ratio.low:.2f} to {row.ratio.high:.2f})"
        lines.append(
            f"{row.form:10s} {row.way:18s} {row.length:4d} {row.batch:5d} {row.seconds * 1e3:9.2f} {interval:>24s} "
            f"{row.error:8.0e}  {row.chosen}"
        )
    return lines


def goals(rows: Sequence[Row]) -> list[str]:
    """On a CPU at n = 128."""
    lines = [f"{'form':10s} {'batch':>5s} {'goal':>6s} {'best':>6s}  way"]
    for form, wanted in CPU_GOALS.items():
        for batch, goal in zip((1, 8), wanted, strict=True):
            own = [r for r in rows if (r.part, r.form, r.length, r.batch) == ("encoder", form, 128, batch)]
            if own:
                best = max(own, key=lambda row: row.ratio.estimate)
                lines.append(f"{form:10s} {batch:5d} {goal:6.2f} {best.ratio.estimate:6.2f}  {best.way}")
    return lines


def slower(rows: Sequence[Row]) -> list[str]:
    """Where optimize_'s choice is slower than the strongest dense beyond the noise."""
    return [
        f"{r.form} at {r.batch} x {r.length}: {r.ratio.estimate:.2f} ({r.ratio.low:.2f} to {r.ratio.high:.2f})"
        for r in rows
        if r.way == "auto" and r.ratio.high < 0.97
    ]


def plot(rows: Sequence[Row], path: Path) -> None:
    """Times as fast as the strongest dense, by form; a panel a batch at n = 128, or at the first length there is."""
    length = 128 if any(row.length == 128 for row in rows) else rows[0].length
    own = [row for row in rows if row.part == "encoder" and row.length == length and row.form != "dense"]
    batches = sorted({row.batch for row in own})
    ways = list(dict.fromkeys(row.way for row in own))
    with style():
        chart, axes = figure(1, len(batches), size=(5.2 * len(batches), 4.6), squeeze=False)
        for panel, batch in zip(axes[0], batches, strict=True):
            for number, way in enumerate(ways):
                here = [row for row in own if (row.batch, row.way) == (batch, way)]
                at = [row.ratio.estimate for row in here]
                spread = [
                    [a - r.ratio.low for a, r in zip(at, here, strict=True)],
                    [r.ratio.high - r.ratio.estimate for r in here],
                ]
                panel.errorbar([row.form for row in here], at, yerr=spread, label=way, capsize=3, **look(number))
            panel.axhline(1, color="black", linewidth=1)
            panel.set(title=f"batch {batch}, {length} tokens", ylabel="times as fast as the strongest dense")
            panel.tick_params(axis="x", rotation=25)
        axes[0][0].legend(loc="upper left")
        drawn = [(r.form, r.way, r.length, r.batch, r.seconds, r.ratio.estimate, r.ratio.low, r.ratio.high) for r in own]
        save(chart, path, drawn, ("form", "way", "length", "batch", "seconds", "ratio", "low", "high"))


def without_places(words: Sequence[str]) -> list[str]:
    """A command as others can give it."""
    places = {k + step for k, word in enumerate(words) if word in ("--out", "--plot") for step in (0, 1)}
    return [word for k, word in enumerate(words) if k not in places]


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="n = 128 and few rounds")
    parser.add_argument("--parts", default="encoder,mixed,training")
    parser.add_argument("--forms", default=",".join(FORMS))
    parser.add_argument("--busy", action="store_true", help="the processor's time, not the wall's: for a shared machine")
    parser.add_argument("--name", help="of the results; default: the device")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--lengths", type=numbers)
    parser.add_argument("--batches", type=numbers)
    parser.add_argument("--layers", type=int, default=LAYERS, help="fewer tell the same ratios sooner")
    parser.add_argument("--most", type=int, default=140_000, help="leave out cells with more tokens than this")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--budget", type=float, help="seconds of a cell after which no round begins (six are taken)")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--plot", type=Path, default=Path("docs"))
    asked = parser.parse_args()
    cuda = torch.cuda.is_available()
    if asked.busy and (cuda or torch.get_num_threads() > 1):
        parser.error("--busy adds up the threads of a CPU: give it one, with OMP_NUM_THREADS=1")
    device = torch.device("cuda" if cuda else "cpu")
    name = asked.name or device.type
    dtype = torch.bfloat16 if cuda else torch.float32
    rounds, budget = (FEWEST, 20.0) if asked.quick else (21, 90.0)
    clock = time.process_time if asked.busy else time.perf_counter
    ways = tuple(asked.ways.split(","))
    setting = Setting(device, dtype, asked.rounds or rounds, asked.budget or budget, ways, clock)
    lengths = asked.lengths or ([128] if asked.quick else [32, 128, 512])
    batches = asked.batches or ([1, 8, 32, 132, 528, 1056] if cuda else [1, 8])
    torch.manual_seed(0)
    dense = BertModel(config(asked.layers), add_pooling_layer=False).eval()
    models = {"dense": dense} | {form: compressed(form, asked.layers) for form in asked.forms.split(",")}
    models = {form: model.to(device, dtype) for form, model in models.items()}
    rows: list[Row] = []
    steps: list[dict[str, Any]] = []

    def keep() -> None:
        """After every cell: a run that ends early leaves what it has."""
        result = {
            "command": ["python", "benchmarks/speed.py", *without_places(sys.argv[1:])],
            "machine": {key: value for key, value in machine(device).items() if key != "system"},
            "versions": versions(),
            "clock": "processor" if asked.busy else "wall",
            "dtype": str(dtype).removeprefix("torch."),
            "scope": f"{asked.layers} layers of width {WIDTH}, random weights",
            "rows": [asdict(row) for row in rows],
            "training": steps,
        }
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / f"speed-{name}.json").write_text(json.dumps(result, indent=1), encoding="utf-8")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for length, batch in ((n, b) for n in lengths for b in batches if n * b <= asked.most):
            if "encoder" in asked.parts:
                rows += encoder_cell(models, length, batch, setting)
                keep()
                print(f"encoder, {batch} x {length} done", file=sys.stderr)
            if "mixed" in asked.parts and length == 128 and batch > 1:
                rows += mixed_cell(models, length, batch, setting)
                keep()
                print(f"mixed, {batch} x {length} done", file=sys.stderr)
    if "training" in asked.parts:
        steps += training_rows(setting)
        keep()
    if any(row.part == "encoder" for row in rows):
        plot(rows, asked.plot / f"speed-{name}")
    for part in ("encoder", "mixed"):
        if any(row.part == part for row in rows):
            print(f"\n{part}, {device.type}, {setting.dtype}, {asked.layers} layers\n" + "\n".join(table(rows, part)))
    for row in steps:
        print(f"training, {row['shape']}: {row['model']:28s} {row['to_dense']:.2f} ({row['low']:.2f} to {row['high']:.2f})")
    if not cuda:
        print("\ngoals\n" + "\n".join(goals(rows)))
    print("\noptimize_'s choice slower than the strongest dense: " + ("; ".join(slower(rows)) or "nowhere"))


if __name__ == "__main__":
    main()
