"""Which checkpoint of an unfinished run to go on from."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tenfold.errors import CheckpointError
from tenfold.records import digest, read_json, write_json

STATE, DIGESTS = "trainer_state.json", "digests.json"


def seal(checkpoint: Path) -> None:
    """Write down what its files are like now that all of them are there; one without this was cut off."""
    write_json(checkpoint / DIGESTS, {path.name: digest([path]) for path in sorted(checkpoint.iterdir())})


def last_good(work: Path, say: Callable[[str], None], drop: bool = False) -> str | None:
    """The newest checkpoint whose files are as they were written; others are passed over, and said so.

    drop: remove those. The trainer keeps the checkpoints of the highest steps: they would crowd out the ones that come now.
    """
    found = sorted(work.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in found:
        problem = _problem(path)
        if problem is None:
            return str(path)
        say(f"warning: {path.name} is not whole ({problem}): going on from the one before")
        if drop:
            shutil.rmtree(path, ignore_errors=True)
    return None


def _problem(path: Path) -> str | None:
    try:
        sealed = read_json(path / DIGESTS)
        if not isinstance(sealed, dict):
            return "it was not written to its end"
        changed = [name for name, told in sealed.items() if digest([path / name]) != told]
    except (CheckpointError, OSError) as error:
        return str(error)
    return f"{changed[0]} is not as it was written" if changed else None
