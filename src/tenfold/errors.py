"""What a user's mistake looks like: one message that tells the rule, what was received and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class TenfoldError(ValueError):
    """Something the user can put right. The command line prints it as one line and exits with 2."""


class PlanError(TenfoldError):
    """A method, rank, size or grouping that cannot be had for this model."""


class RecipeError(TenfoldError):
    """A recipe with an unknown key, a wrong type or a contradiction."""


class CheckpointError(TenfoldError):
    """A model folder that is missing, cut off, unsafe or not what it says it is."""


class OutputError(TenfoldError):
    """An output folder that exists already or cannot be written."""


class Interrupted(TenfoldError):
    """Ctrl-C, after everything was saved. The command line exits with 130, as shells expect."""


def nearest(word: str, known: Iterable[str]) -> str:
    """' Did you mean "x"?' for the closest known word, or the list of them where none is close."""
    words = sorted(known)
    lower = {w.lower(): w for w in words}
    close = get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    return f'did you mean "{lower[close[0]]}"?' if close else f"known: {', '.join(words)}"
