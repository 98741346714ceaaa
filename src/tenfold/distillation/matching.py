"""Which layer of the student copies which of the teacher, and how tensors of unequal widths meet."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from tenfold.distillation.losses import EMBEDDING, HIDDEN, LABELS, LAST_HIDDEN, LOGITS, SCORES, VECTORS, loss_named
from tenfold.distillation.parts import Part, Spread, merge_heads
from tenfold.distillation.trace import Trace
from tenfold.errors import TenfoldError

MAPS = "last, top, uniform, every-K (every-2, ...) or student layer: teacher layer"


def layer_map(student: int, teacher: int, choice: str | Mapping[int, int] | None = None) -> dict[int, int]:
    """Pairs {student layer: teacher layer} for models of these depths; layers from 1, and 0 the embedding output.

    None, equal depths only: each with its own. last: the last pair alone. uniform: k with k * teacher / student, rounded
    (TinyBERT). top: the student's with the teacher's last ones (PKD-Last). every-K: k with k * K, where there is one
    (PKD-Skip).
    """
    depths = f"{student} layers of the student and {teacher} of the teacher"
    if isinstance(choice, Mapping):
        return _explicit(student, teacher, choice)
    if choice is None:
        if student != teacher:
            raise TenfoldError(f"models of unequal depth need a map of layers, got {depths} and none: give {MAPS}")
        return {k: k for k in range(1, student + 1)}
    if choice == "last":
        return {student: teacher}
    if choice.startswith("every-") and choice[6:].isdecimal() and int(choice[6:]):
        step = int(choice[6:])
        if student * step > teacher:
            raise TenfoldError(f"every-{step} pairs layer k with {step} k, got {depths}: give uniform, or a smaller step")
        return {k: k * step for k in range(1, student + 1)}
    if choice not in ("uniform", "top"):
        raise TenfoldError(f'a map of layers must be {MAPS}, got "{choice}"')
    if student > teacher:
        raise TenfoldError(f"{choice} needs a teacher at least as deep, got {depths}: give a map of layers")
    if choice == "top":
        return {k: teacher - student + k for k in range(1, student + 1)}
    return {k: (2 * k * teacher + student) // (2 * student) for k in range(1, student + 1)}


def _explicit(student: int, teacher: int, pairs: Mapping[int, int]) -> dict[int, int]:
    found = {(k + student + 1 if k < 0 else k): (j + teacher + 1 if j < 0 else j) for k, j in pairs.items()}
    if not found or any(not 0 <= k <= student or not 0 <= j <= teacher for k, j in found.items()):
        raise TenfoldError(
            f"a map pairs layers 0 to {student} of the student with 0 to {teacher} of the teacher, got {dict(pairs)}"
        )
    return found


class Projections(nn.Module):
    """Learnt maps from a student's widths to a teacher's, one for each kind of tensor, for all layers: TinyBERT's W_h and W_e.

    They train with the student and are dropped afterwards. Nothing is made where widths are equal.
    """

    def __init__(self, widths: Mapping[str, tuple[int, int]]) -> None:
        super().__init__()
        self.linears = nn.ModuleDict({f"to_{what}": nn.Linear(a, b) for what, (a, b) in widths.items()})

    def forward(self, what: str, x: Tensor) -> Tensor:
        """Vectors of several heads come back as those of one head."""
        name = f"to_{HIDDEN if what == LAST_HIDDEN else what}"
        if name not in self.linears:
            return x
        linear = self.linears[name]
        return linear(merge_heads(x))[:, None] if what in VECTORS else linear(x)


def projections(student: Trace, teacher: Trace, losses: Iterable[str], allowed: bool = True) -> Projections:
    """Those that the losses need, seen on a trace of each model."""
    widths = {}
    for loss in map(loss_named, losses):
        for what in loss.reads if loss.projects else ():
            a, b = _width(student, what), _width(teacher, what)
            if a != b:
                widths[HIDDEN if what == LAST_HIDDEN else what] = (a, b)
    if widths and not allowed:
        found = ", ".join(f"{what} {a} and {b}" for what, (a, b) in widths.items())
        raise TenfoldError(
            f"these losses compare equal widths, or need a learnt projection, got {found} (student and teacher): allow "
            "projections, or take relations and logits, which need none"
        )
    return Projections(widths).to(student.mask.device)


def _width(trace: Trace, what: str) -> int:
    kept: dict[int, Tensor] = getattr(trace, HIDDEN if what in (EMBEDDING, LAST_HIDDEN) else what)
    if not kept:
        raise TenfoldError(f"widths are seen on traces, got one without {what}: trace what the losses read")
    tensor = next(iter(kept.values()))
    return tensor.shape[-1] * (tensor.shape[1] if what in VECTORS else 1)


def compare(
    name: str,
    student: Trace,
    teacher: Trace,
    layers: tuple[int, int] = (-1, -1),
    *,
    projections: Projections | None = None,
    scales: Mapping[tuple[str, int], float] | None = None,
    **options: Any,
) -> Part:
    """The loss called `name` between layers (student's, teacher's) of two traces of one batch; `options` go to its function.

    Of a loss that reads queries, keys and values the mean of the three.
    """
    loss = loss_named(name)
    parts = []
    for what in loss.reads:
        if what == LABELS:
            parts.append(loss.function(student.read(LOGITS), student.read(LABELS), student.mask, **options))
            continue
        s, t = student.read(what, layers[0]), teacher.read(what, layers[1])
        if loss.projects and projections is not None:
            s = projections(what, s)
        if loss.scaled and scales is not None:
            options["scale"] = scales[_kind(what, layers[1], teacher)]
        parts.append(loss.function(s, t, student.pairs if what == SCORES else student.mask, **options))
    return sum(parts[1:], start=parts[0])


def measure_scales(traces: Iterable[Trace]) -> dict[tuple[str, int], float]:
    """The variance of everything in a teacher's traces, by kind and layer: what `compare` divides by. Give a few batches."""
    spreads: dict[tuple[str, int], Spread] = {}
    for trace in traces:
        for what in (HIDDEN, *VECTORS):
            for layer, tensor in getattr(trace, what).items():
                states = merge_heads(tensor) if what in VECTORS else tensor
                spreads.setdefault((what, layer), Spread()).add(states, trace.mask)
    return {key: spread.value for key, spread in spreads.items()}


def _kind(what: str, layer: int, trace: Trace) -> tuple[str, int]:
    if what == EMBEDDING:
        return HIDDEN, 0
    if what == LAST_HIDDEN:
        return HIDDEN, trace.depth
    return what, layer if layer >= 0 else trace.depth + 1 + layer


def same_vocabulary(student: Any, teacher: Any) -> None:
    """Refuse a pair that does not read the same tokens: two tokenizers, or two configs (or models) by their sizes."""
    a, b = _vocabulary(student), _vocabulary(teacher)
    sizes = [len(v) if isinstance(v, dict) else v for v in (a, b)]
    if sizes[0] != sizes[1]:
        raise TenfoldError(
            f"student and teacher must read the same tokens, got vocabularies of {sizes[0]} and {sizes[1]}: take a teacher "
            "with the student's tokenizer, or sentence embeddings made apart from each other as targets"
        )
    if isinstance(a, dict) and isinstance(b, dict) and a != b:
        token = next(token for token in sorted(a.keys() | b.keys()) if a.get(token) != b.get(token))
        raise TenfoldError(
            f'student and teacher must read the same tokens, got two vocabularies of {sizes[0]} in which "{token}" is '
            f"{a.get(token, 'absent')} and {b.get(token, 'absent')}: take a teacher with the student's tokenizer"
        )


def _vocabulary(owner: Any) -> dict[str, int] | int:
    if hasattr(owner, "get_vocab"):
        return dict(owner.get_vocab())
    config = getattr(owner, "config", owner)
    size = getattr(config, "vocab_size", None)
    if size is None:
        raise TenfoldError(f"a vocabulary is that of a tokenizer, config or model, got {type(owner).__name__} without one")
    return int(size)
