"""How to make it again: the recipe, the commands, the versions, the machine."""

from dataclasses import dataclass

from tenfold.reporting import units
from tenfold.reporting.collect import Run
from tenfold.reporting.html import Child, Html, absent, join, table, tag
from tenfold.reporting.records import Entry


@dataclass(frozen=True)
class Step:
    """One command. `circumstances`: versions and machine, as far as they are known."""

    verb: str
    command: tuple[str, ...]
    time: str
    circumstances: str


def making(run: Run) -> Html | None:
    parts: list[Child] = []
    if made := steps(run):
        parts += [tag("h3", "Commands"), tag("pre", tag("code", "\n".join(commands(run))), tabindex=0)]
        before = ["", *(step.circumstances for step in made)]
        rows = [
            (
                f"{k + 1}. {step.verb}",
                units.moment(step.time),
                "as above" if step.circumstances == before[k] else step.circumstances,
            )
            for k, step in enumerate(made)
        ]
        parts.append(table(("step", "when", "with"), rows))
    if run.recipe:
        parts += [tag("h3", "Recipe"), tag("pre", tag("code", run.recipe.strip()), tabindex=0)]
    elif run.model:
        parts.append(absent("No recipe.yaml in the folder"))
    return join(parts, "\n") if parts else None


def commands(run: Run) -> list[str]:
    """Each once: one `tenfold run` makes several steps."""
    return list(dict.fromkeys(units.shell(step.command) for step in steps(run) if step.command))


def steps(run: Run) -> list[Step]:
    """The history, then what was measured of the result."""
    done: list[tuple[str, Entry]] = [(entry.verb, entry) for entry in run.history]
    done += [
        (verb, entry)
        for verb, entry in (
            ("evaluate", run.scores),
            ("agree", run.agreement),
            ("analyze", run.analysis),
            ("explore", run.look),
        )
        if entry
    ]
    found = [Step(verb, entry.command, entry.time, _circumstances(entry)) for verb, entry in done]
    if speed := run.measurement:
        found.append(Step("measure", tuple(speed.command), speed.time, _versions(speed.versions)))
    return found


def _circumstances(entry: Entry) -> str:
    return "; ".join(part for part in (_versions(entry.versions), entry.machine) if part)


def _versions(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())
