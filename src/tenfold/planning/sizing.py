"""From a size to a method: what `--to 1/10` means."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from tenfold.errors import PlanError
from tenfold.methods import parse
from tenfold.planning.build import build_plan, totals, width
from tenfold.planning.plan import MATRICES, MODEL, SCOPES, Plan, Totals
from tenfold.planning.sites import Site
from tenfold.recipe import Compress

PRIVATE = 1.5
NEAR = 1 / 3
"""Of the matrices: where a start alone is still near enough to be worth something (docs/initialisation.md)."""


@dataclass(frozen=True)
class Candidate:
    """One way to reach a size, the largest rank that fits it."""

    plan: Plan
    tile: str
    chosen: bool = False
    why: str = ""


def parse_ratio(text: str) -> Fraction:
    """1/48, 0.1 or 10%: the share that is kept."""
    try:
        percent = text.strip().endswith("%")
        ratio = Fraction(text.strip().rstrip("%").strip()) / (100 if percent else 1)
    except (ValueError, ZeroDivisionError) as error:
        raise PlanError(f'a size must be a share that is kept, got "{text}": write 1/10, 0.1 or 10%') from error
    if not 0 < ratio < 1:
        raise PlanError(f"a size must lie between 0 and 1 (kept / original), got {text}: 1/10 keeps a tenth")
    return ratio


def size_plans(model: Any, sites: Sequence[Site], settings: Compress) -> list[Candidate]:
    """The largest member of each form's series within the size, the recommended one marked and first."""
    assert settings.to is not None
    ratio = parse_ratio(settings.to)
    count = totals(model, sites)
    budget = int(count.of(settings.of) * ratio)
    settings, note = _with_embeddings(model, sites, settings, ratio)
    found = []
    for tile, series in _series(sites, settings, model):
        best = _largest(lambda name, tile=tile: _try(model, sites, settings, name, tile), series, settings.of, budget)  # type: ignore[misc]
        if best is not None and "+" in best.method:
            shared, private = best.method.split("+")
            stem = shared.rpartition("-")[0]
            fill = partial(_name_sum, stem, private)
            best = _largest(lambda name, tile=tile: _try(model, sites, settings, name, tile), fill, settings.of, budget)  # type: ignore[misc]
        if best is not None:
            found.append(Candidate(best, tile))
    if not found:
        raise PlanError(_smallest(model, sites, settings, count.of(settings.of)))
    chosen, why = recommend(found)
    rest = [c for c in found if c is not chosen]
    return [replace(chosen, chosen=True, why=" ".join(filter(None, (why, note)))), *rest]


def _series(sites: Sequence[Site], settings: Compress, model: Any) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Names with the rank left open: private, tensor train, two sizes of bank, and shared + private.

    Cores of d x d and a private rank of 1.5 d^2 / D put about three quarters of the sum into its private part.
    """
    suffix = {"attention": "-SAN", "ffn": "-FFN"}.get(settings.sites or "", "")
    largest = max(group.n for group in _try(model, sites, settings, "II-1", settings.tile).matrix_groups)
    if settings.tile == "square":
        yield "whole", lambda d: f"II{suffix}-{d}"
    yield settings.tile, lambda d: f"II{suffix}-{d}"
    yield settings.tile, lambda d: f"III{suffix}-{d}"
    for bank in sorted({max(1, largest // 2), max(1, largest // 4)}, reverse=True):
        yield settings.tile, lambda d, bank=bank: f"IV{suffix}-{bank}-{d}"  # type: ignore[misc]
    hidden = width(model, sites)
    yield settings.tile, lambda d: f"III{suffix}-{d}+II{suffix}-{max(1, round(PRIVATE * d * d / hidden))}"


def _name_sum(stem: str, private: str, d: int) -> str:
    """The private rank stays; the shared one takes what room is left."""
    return f"{stem}-{d}+{private}"


def _try(model: Any, sites: Sequence[Site], settings: Compress, name: str, tile: str) -> Plan:
    return build_plan(model, sites, parse(name), settings.model_copy(update={"tile": tile}))


def _largest(build: Callable[[str], Plan], series: Callable[[int], str], scope: str, budget: int) -> Plan | None:
    """Bisection on the rank: sizes grow with it."""

    def fits(rank: int) -> Plan | None:
        try:
            plan = build(series(rank))
        except PlanError:
            return None
        return plan if plan.kept(scope) <= budget else None

    best, low, high = fits(1), 1, 2
    if best is None:
        return None
    while (plan := fits(high)) is not None:
        best, low, high = plan, high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        plan = fits(middle)
        if plan is None:
            high = middle
        else:
            best, low = plan, middle
    return best


def _with_embeddings(model: Any, sites: Sequence[Site], settings: Compress, ratio: Fraction) -> tuple[Compress, str]:
    """The word table shrinks too where matrices alone would have to go below half the share asked for (of a whole model)."""
    count = totals(model, sites)
    part = sum(group.dense for group in _try(model, sites, settings, "II-1", settings.tile).matrix_groups)
    left = count.model * ratio - (count.model - part)
    if not _table_may_shrink(model, settings, count) or left >= part * ratio / 2:
        return settings, ""
    table = model.base_model.get_input_embeddings().weight
    share = Fraction(count.embedding, count.embedding + part)
    rank = min(max(int((left + count.embedding) * share / sum(table.shape)), 1), *table.shape)
    return settings.model_copy(
        update={"embeddings": rank}
    ), f"The word table takes rank {rank}: it is most of what is left otherwise."


def _table_may_shrink(model: Any, settings: Compress, count: Totals) -> bool:
    """It is there, no head reads it, it counts, and the user did not choose its rank."""
    return settings.of == MODEL and not settings.embeddings and count.embedding > 0 and model.get_output_embeddings() is None


def _smallest(model: Any, sites: Sequence[Site], settings: Compress, total: int) -> str:
    shrinks = _table_may_shrink(model, settings, totals(model, sites))
    rank_one = settings.model_copy(update={"embeddings": 1}) if shrinks else settings
    kept = _try(model, sites, rank_one, "III-1", settings.tile).kept(settings.of)
    hint = f"ask for more, or measure the size with --of {MATRICES}" if settings.of == MODEL else "ask for more"
    return (
        f"{settings.to} of {settings.of} ({SCOPES[settings.of]}) cannot be met: the smallest that can is {kept / total:.4f} "
        f"({kept:,} of {total:,} parameters): {hint}"
    )


def recommend(candidates: Sequence[Candidate]) -> tuple[Candidate, str]:
    """Private low rank where it can be used as it starts, shared + private where it must be taught: as measured.

    docs/initialisation.md: private low rank starts closest at every size. docs/distillation.md: taught on the same text,
    the sum ends closest, at 1/7 and at 1/48 of the matrices, though it computes more than private low rank.
    """
    private = candidates[0]
    mixed = next((c for c in candidates if "+" in c.plan.method), None)
    if mixed is None or (private.plan.method.startswith("II-") and private.plan.ratio(MATRICES) >= NEAR):
        return private, "At this size private low rank starts closest to the original, and computes least."
    why = "Teach it (tenfold distill): shared + private ended closest to the original at 1/7 and 1/48 of the matrices."
    if private is not mixed and private.plan.method.startswith("II-"):
        share = private.plan.flops()[1] / mixed.plan.flops()[1]
        why += f" {private.plan.method} computes less ({share:.2f} of its FLOPs) and ended second or later."
    return mixed, why
