"""The plan: what is factored together, in which form, and what is kept of the original."""

from tenfold.forms import describe
from tenfold.planning.plan import SCOPES, describe_sites
from tenfold.reporting import units
from tenfold.reporting.collect import Count, Run
from tenfold.reporting.html import Child, Html, bullets, join, table


def plan(run: Run) -> Html | None:
    """None for a dense model."""
    if run.plan is None:
        return None
    parts: list[Child] = [
        table(("", "original", "here", "kept"), size_rows(run), caption="Sizes", numbers=(1, 2, 3)),
        _groups(run),
    ]
    if run.compression.notes:
        parts.append(bullets(run.compression.notes))
    return join(parts, "\n")


def size_rows(run: Run) -> list[tuple[str | None, ...]]:
    """What is counted, of the original, here, and the share that is kept."""
    counts = [(f"parameters: {SCOPES[scope]}", count, "") for scope, count in run.parameters.items()]
    counts += [("FLOPs of one request of 128 tokens", run.flops, "FLOP")] if run.flops else []
    counts += [("weights on disk", run.disk, "B")] if run.disk else []
    return [_row(*each) for each in counts]


def _row(name: str, count: Count, unit: str) -> tuple[str | None, ...]:
    before = None if count.before is None else units.prefixed(count.before, unit)
    return name, before, units.prefixed(count.after, unit), None if count.ratio is None else units.share(count.ratio)


def _groups(run: Run) -> Html:
    assert run.plan is not None
    rows = [
        (
            group.name,
            describe_sites(group.sites),
            f"{group.n} of {group.i} x {group.o}",
            describe(group.form),
            f"{group.dense:,}",
            f"{group.parameters:,}",
        )
        for group in run.plan.groups
    ]
    heads = ("group", "matrices", "tiles", "form", "parameters before", "after")
    return table(heads, rows, caption=f"{run.plan.method}: what is factored together", numbers=(4, 5), tall=len(rows) > 16)
