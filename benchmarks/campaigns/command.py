"""The command line of a campaign: verbs to functions."""

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from transformers.utils import logging

from campaigns import packing, publishing, searching
from campaigns.general import teach_all
from campaigns.places import Budget, Places, Spent
from campaigns.speeding import measure_speed
from campaigns.students import diverged, folder_of, is_ready
from campaigns.table import load_campaign, shipped
from campaigns.tasks import teach_student, teach_teacher
from tenfold.errors import Interrupted, TenfoldError, nearest

ROOT = Path(__file__).parents[2]
SPENT = 75
"""The exit code of a run whose budget was spent before its work was done: the same command goes on."""


def main(arguments: Sequence[str], about: str) -> int:
    asked = _parser(about).parse_args(arguments)
    _settle()
    try:
        asked.verb(asked)
    except Spent as error:
        _say(str(error))
        return SPENT
    except Interrupted as error:
        print(error, file=sys.stderr)
        return 130
    except TenfoldError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _settle() -> None:
    """No bars and no word of heads that are not there yet; and accelerate collects garbage after every cell."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    gc.freeze()


def _parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], None], campaign: bool = True) -> argparse.ArgumentParser:
        found = verbs.add_parser(name)
        found.set_defaults(verb=run)
        if campaign:
            found.add_argument("campaign", help="a YAML file, or the name of one in benchmarks/campaigns")
            found.add_argument("--data", type=Path, default=Path(os.environ.get("TENFOLD_DATA", "."), "data"))
            found.add_argument(
                "--work", type=Path, default=ROOT / "runs/campaign", help="models and states (default: runs/campaign)"
            )
            found.add_argument("--models", type=Path, help="folders by a model's name (default: WORK/models)")
            found.add_argument("--minutes", type=float, help="stop after so much wall clock, with everything saved")
            found.add_argument("--rows", help="some of the rows, separated by commas")
            found.add_argument("--tasks", help="some of the tasks, separated by commas")
        found.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/campaign")
        return found

    verb("list", _list)
    verb("teachers", _teachers).add_argument("--jobs", type=int, default=1, help="processes at a time")
    verb("general", _general)
    tasks = verb("tasks", _tasks)
    tasks.add_argument("--jobs", type=int, default=1, help="processes at a time")
    tasks.add_argument("--seeds", type=int, help="the first so many seeds alone")
    tasks.add_argument("--keep", action="store_true", help="keep the models (WORK/NAME/cells)")
    verb("search", _search)
    verb("speed", _speed)
    pack = verb("pack", _pack)
    pack.add_argument("out", type=Path)
    pack.add_argument("--wheels", type=Path, help="a folder of wheels to carry along")
    pack.add_argument("--states", action="store_true", help="carry teachers, trunks and students too")
    unpack = verbs.add_parser("unpack")
    unpack.set_defaults(verb=_unpack)
    unpack.add_argument("tree", type=Path)
    for name, run in (("summary", _summary), ("table", _table), ("plot", _plot)):
        verb(name, run, campaign=False)
    return parser


def _places(asked: argparse.Namespace) -> Places:
    campaign = load_campaign(asked.campaign)
    return Places(campaign, asked.data, asked.work, asked.results, asked.models or asked.work / "models")


def _rows(asked: argparse.Namespace, places: Places) -> list[str]:
    return _some(asked.rows, [*places.campaign.rows], "rows")


def _some(text: str | None, known: Sequence[str], what: str) -> list[str]:
    chosen = text.split(",") if text else [*known]
    if strange := [name for name in chosen if name not in known]:
        raise TenfoldError(f'--{what} names {what} of the campaign, got "{strange[0]}": {nearest(strange[0], known)}')
    return chosen


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _list(asked: argparse.Namespace) -> None:
    for line in publishing.listing(_places(asked)):
        print(line)


def _teachers(asked: argparse.Namespace) -> None:
    places, budget = _places(asked), Budget(asked.minutes)
    tasks = _some(asked.tasks, [*places.campaign.tasks], "tasks")
    _each(asked.jobs, _teacher_cell, [(places, task, budget) for task in tasks])


def _teacher_cell(places: Places, task: str, budget: Budget) -> None:
    """All seeds of a task, one after the other: they share the choice of a rate."""
    for k in range(places.campaign.seeds_of(task)):
        record = teach_teacher(places, task, k, _say, budget)
        _say(f"teacher of {task}, seed {k}: {record['metric']} {record['headline']:.2f} (floor {record['floor']:.2f})")


def _general(asked: argparse.Namespace) -> None:
    places = _places(asked)
    teach_all(places, _rows(asked, places), _say, Budget(asked.minutes))


def _tasks(asked: argparse.Namespace) -> None:
    places, budget = _places(asked), Budget(asked.minutes)
    tasks = _some(asked.tasks, [*places.campaign.tasks], "tasks")
    seeds = {task: min(asked.seeds or 10**9, places.campaign.seeds_of(task)) for task in tasks}
    chosen = _ready(asked, places)
    for task in tasks:
        for k in range(seeds[task]):
            teach_teacher(places, task, k, _say, budget)
    cells = [(k, row, task) for task in tasks for k in range(seeds[task]) for row in chosen]
    cells.sort(key=lambda cell: cell[0])  # the first seed of everything before the second of anything
    _each(asked.jobs, _student_cell, [(places, row, task, k, budget, asked.keep) for k, row, task in cells])


def _ready(asked: argparse.Namespace, places: Places) -> list[str]:
    """The rows whose general stage is over, with the folders that their tasks start from. One that is named must be ready."""
    found = []
    for row in _rows(asked, places):
        if asked.rows or is_ready(places, row):
            if diverged(places, row) is None:
                folder_of(places, row, _say)
            found.append(row)
        else:
            _say(f"{row}: its general stage is not over yet, passed over")
    return found


def _student_cell(places: Places, row: str, task: str, k: int, budget: Budget, keep: bool) -> None:
    record = teach_student(places, row, task, k, _say, budget, keep)
    score = "-" if record["headline"] is None else f"{record['metric']} {record['headline']:.2f} (floor {record['floor']:.2f})"
    _say(f"{row} on {task}, seed {k}: {score} {'; '.join(['failed', *record['failed']]) if record['failed'] else ''}")


def _each(jobs: int, work: Callable[..., None], cells: Sequence[tuple[Any, ...]]) -> None:
    """In this process, or several at a time in processes of their own, which share the device."""
    if jobs == 1:
        for cell in cells:
            work(*cell)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_settle) as pool:
        for future in [pool.submit(work, *cell) for cell in cells]:
            future.result()


def _search(asked: argparse.Namespace) -> None:
    print(searching.search(_places(asked), _say, Budget(asked.minutes)))


def _speed(asked: argparse.Namespace) -> None:
    places, budget = _places(asked), Budget(asked.minutes)
    for row in _rows(asked, places):
        budget.check()
        measure_speed(places, row, _say)


def _pack(asked: argparse.Namespace) -> None:
    places = _places(asked)
    size = packing.pack(places, _rows(asked, places), asked.out, asked.wheels, asked.states, _say)
    _say(f"{asked.out}: {size / 1e6:.0f} MB")


def _unpack(asked: argparse.Namespace) -> None:
    packing.unpack(asked.tree, _say)


def _summary(asked: argparse.Namespace) -> None:
    publishing.write_summary(_campaigns(), asked.results, asked.results.parent / "summary.json")


def _table(asked: argparse.Namespace) -> None:
    publishing.write_page(_campaigns(), asked.results, ROOT / "docs/results.md")


def _plot(asked: argparse.Namespace) -> None:
    publishing.plot(_campaigns(), asked.results, ROOT / "docs")


def _campaigns() -> list[Any]:
    return [load_campaign(name) for name in shipped()]
