"""One factor at a time over a base row, scored on a slice of train that neither the student nor its teacher has seen."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from campaigns.general import teach_all
from campaigns.places import Budget, Places, Say, done
from campaigns.students import diverged
from campaigns.table import Search, varied
from campaigns.tasks import held_out_score, settings_of
from tenfold.errors import TenfoldError
from tenfold.records import Record


def search(places: Places, say: Say, budget: Budget) -> str:
    """Every cell that is not done yet, then the table of all, ready for LOG.md. What is done stays in the results."""
    asked = places.campaign.search
    if asked is None:
        raise TenfoldError(f"a search needs a section search, got none in {places.campaign.name}: add row, tasks and factors")
    places, names = _variants(places)
    teach_all(places, names, say, budget)
    for name in names:
        for task in asked.tasks:
            for k in range(asked.seeds):
                _cell(places, name, task, k, say, budget)
    return table(places, asked, names)


def _variants(places: Places) -> tuple[Places, list[str]]:
    """The base row as it stands, then one more row for each value of each factor: all of them, and a campaign that has them."""
    campaign, asked = places.campaign, places.campaign.search
    assert asked is not None
    names = [asked.row]
    for key, values in asked.factors.items():
        for value in values:
            campaign, name = varied(campaign, key, value)
            names.append(name)
    return replace(places, campaign=campaign), names


def _cell(places: Places, row: str, task: str, k: int, say: Say, budget: Budget) -> Record:
    file, settings = places.result("search", f"{row} {task}-seed-{k}"), settings_of(places.campaign, row, task, k)
    if (held := done(file, settings)) is not None:
        return held
    budget.check()
    facts: Record
    try:
        if (why := diverged(places, row)) is None:
            facts = held_out_score(places, row, task, k, say)
        else:
            facts = {"score": None, "diverged": why}
    except TenfoldError as error:
        if "finite" not in str(error):
            raise
        facts = {"score": None, "diverged": str(error)}
    say(f"{row} on {task}, seed {k}: {facts['score']}")
    return places.write(
        file, settings, row=row, task=task, seed=places.campaign.seed + k, held_out=places.campaign.held_out, **facts
    )


def table(places: Places, asked: Search, names: Sequence[str]) -> str:
    """Markdown: a row for each variant that is done, means over seeds and their difference from the base's."""
    found: dict[str, dict[str, float | None]] = {}
    for name in names:
        scores = {task: _mean(places, name, task, asked.seeds) for task in asked.tasks}
        if all(score is not None for score in scores.values()):
            found[name] = {task: score[0] for task, score in scores.items() if score is not None}
    head = f"| {places.campaign.name} | {' | '.join(asked.tasks)} | against the base |"
    base = found.get(asked.row)
    lines = [head, "|---" * (len(asked.tasks) + 2) + "|"]
    for name, row in found.items():
        shown = " | ".join("diverged" if score is None else f"{score:.1f}" for score in row.values())
        lines.append(f"| {name} | {shown} | {_gap(row, base)} |")
    return "\n".join(lines)


def _mean(places: Places, row: str, task: str, seeds: int) -> tuple[float | None] | None:
    """None where a seed is missing, (None,) where one diverged."""
    records: list[Any] = [
        done(places.result("search", f"{row} {task}-seed-{k}"), settings_of(places.campaign, row, task, k))
        for k in range(seeds)
    ]
    if None in records:
        return None
    scores = [record["score"] for record in records]
    return (None,) if None in scores else (fmean(scores),)


def _gap(row: dict[str, float | None], base: dict[str, float | None] | None) -> str:
    if base is None or None in row.values() or None in base.values():
        return "-"
    return f"{fmean(row[task] - base[task] for task in row):+.1f}"  # type: ignore[operator]
