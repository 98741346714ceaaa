"""The planner: which way each kind of readers takes, for a batch, a length, a precision and a device.

The cost model leaves out what is far behind; the rest is timed on the model's own weights, once: the outcome is remembered in
this process and under the user's cache folder. The rule: the fastest; within the noise of it the one with fewer constants.
Multiplied-out matrices are always among the timed, so nothing is chosen that is slower than the original's own products.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tenfold._version import __version__
from tenfold.errors import CheckpointError
from tenfold.folders import cache_folder
from tenfold.forms import Product, apply
from tenfold.nn import FactoredLinear
from tenfold.records import read_json, write_json
from tenfold.runtime.bundle import Bundle
from tenfold.runtime.cost import Work, machine, predict
from tenfold.runtime.timing import interleaved
from tenfold.runtime.ways import AUTO, DENSE, PLAIN, Readers, exact_products, folded, works

NOISE = 0.03
"""Times closer than this are the same."""
FAR = 2.5
"""Ways that the cost model puts this far behind the best are not timed."""
ROUND_SECONDS = 0.05
"""What one timed round may take, by the cost model: bounds how many layers of a kind take part in it."""

_remembered: dict[str, dict[str, float]] = {}


@dataclass(frozen=True)
class Situation:
    """What the times depend on beside the shapes."""

    batch: int
    length: int
    dtype: str
    device: str
    threads: int

    @property
    def tokens(self) -> int:
        return self.batch * self.length


@dataclass(frozen=True)
class Choice:
    """The way of one kind of readers; seconds of all its layers together. `measured` is empty where nothing was timed."""

    kind: str
    roles: str
    count: int
    path: str
    why: str
    predicted: dict[str, float]
    measured: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def situation(model: Any, batch: int, length: int) -> Situation:
    device = model.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return Situation(batch, length, str(model.dtype).removeprefix("torch."), f"{device.type} {name}", torch.get_num_threads())


def choose(kind: Sequence[Readers], roles: Mapping[str, str], where: Situation, path: str, measure: bool) -> Choice:
    """For readers of one kind. `roles` by the path of a layer."""
    layer = kind[0].layers[0]
    factor = next(layer.bank.parameters())
    costs, on = works(kind[0]), machine(factor.device, factor.dtype)
    if path == AUTO and costs[PLAIN].once:
        del costs[PLAIN]  # one plain layer would have the whole bank mixed in every pass
    predicted = {way: predict(work, where.tokens, factor.itemsize, on) for way, work in costs.items()}
    measured = _measured(kind, where, predicted, factor) if path == AUTO and measure else {}
    times = measured or predicted
    chosen = pick(times, costs) if path == AUTO else path
    why = _why(chosen, times, bool(measured)) if path == AUTO else "asked for"
    count = len(kind)
    return Choice(kind[0].kind, _named(kind, roles), count, chosen, why, _times(predicted, count), _times(measured, count))


def pick(times: Mapping[str, float], costs: Mapping[str, Work]) -> str:
    """The fastest, or what is as fast within the noise and takes less memory beyond the factors."""
    best = min(times.values())
    near = [way for way, seconds in times.items() if seconds <= best * (1 + NOISE)]
    return min(near, key=lambda way: (0 if way == PLAIN else costs[way].weights, times[way]))


def _measured(
    kind: Sequence[Readers], where: Situation, predicted: Mapping[str, float], factor: torch.Tensor
) -> dict[str, float]:
    """Seconds of one reader in each way that the cost model does not put far behind; from memory where it is known."""
    best = min(predicted.values())
    ways = [way for way, seconds in predicted.items() if way == DENSE or seconds <= FAR * best]
    most = max(1, int(ROUND_SECONDS / max(predicted[way] for way in ways)))
    return remembered(kind[0].kind, where, ways, lambda: _time(kind[:most], where, ways, factor))


def remembered(what: Any, where: Situation, ways: Sequence[str], measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The seconds of each way to compute `what` there, measured once."""
    key = _key(what, where, ways)
    if key not in _remembered:
        found = _read(key)
        if found is None or found.keys() != set(ways):
            found = measure()
            _write(key, found)
        _remembered[key] = found
    return _remembered[key]


@torch.no_grad()
def _time(kind: Sequence[Readers], where: Situation, ways: Sequence[str], factor: torch.Tensor) -> dict[str, float]:
    x = torch.randn(where.batch, where.length, kind[0].width, device=factor.device, dtype=factor.dtype)
    products = exact_products(kind[0].bank)

    def call(way: str) -> Any:
        if way == PLAIN:
            held = kind[0].bank.products()
            return lambda: [_plain(layer, held, x) for readers in kind for layer in readers.layers]
        made = [Bundle(folded(readers, way, products)).to(factor.dtype) for readers in kind]
        return lambda: [
            bundle.site(index, x, layer.bias)
            for bundle, readers in zip(made, kind, strict=True)
            for index, layer in enumerate(readers.layers)
        ]

    found = interleaved({way: call(way) for way in ways}, factor.device)
    return {way: seconds / len(kind) for way, seconds in found.items()}


def _plain(layer: FactoredLinear, held: Sequence[Product], x: torch.Tensor) -> torch.Tensor:
    y = apply(held, layer.grid, x)
    return y if layer.bias is None else y + layer.bias


def _why(chosen: str, times: Mapping[str, float], measured: bool) -> str:
    source = "measured" if measured else "predicted"
    if chosen != DENSE:
        return f"{source}: {times[DENSE] / times[chosen]:.2f}x as fast as dense"
    others = [seconds for way, seconds in times.items() if way != DENSE]
    return f"{source}: factors take {min(others) / times[DENSE]:.2f}x its time" if others else f"{source}: nothing comes near"


def _named(kind: Sequence[Readers], roles: Mapping[str, str]) -> str:
    """`attn.q k v`."""
    found = []
    for readers in kind:
        names = [roles[path] for path in readers.paths]
        block = names[0].partition(".")[0]
        found.append(" ".join([names[0], *(name.removeprefix(f"{block}.") for name in names[1:])]))
    return ", ".join(dict.fromkeys(found))


def _times(seconds: Mapping[str, float], count: int) -> dict[str, float]:
    return {way: value * count for way, value in seconds.items()}


def _key(what: Any, where: Situation, ways: Sequence[str]) -> str:
    text = json.dumps([what, asdict(where), sorted(ways), torch.__version__, __version__])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _read(key: str) -> dict[str, float] | None:
    try:
        found = read_json(cache_folder("runtime") / f"{key}.json")
    except CheckpointError:  # cut off, or another program's: it is measured again
        return None
    return found if isinstance(found, dict) else None


def _write(key: str, seconds: dict[str, float]) -> None:
    try:
        cache_folder("runtime").mkdir(parents=True, exist_ok=True)
        write_json(cache_folder("runtime") / f"{key}.json", seconds)
    except OSError:  # a home that cannot be written to costs a measurement each time, nothing more
        return
