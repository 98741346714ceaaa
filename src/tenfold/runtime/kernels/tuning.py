"""Whether a block's first call on a GPU times the cuts that it may take."""

from collections.abc import Iterator
from contextlib import contextmanager

_on = [False]


@contextmanager
def tuning() -> Iterator[None]:
    """Within it the first call of each kind of block, on each GPU, times every cut of it (each is compiled: seconds) and keeps
    the fastest for as long as the process lives. Without it, a call takes what was found so, else the table's best guess."""
    before, _on[0] = _on[0], True
    try:
        yield
    finally:
        _on[0] = before


def tunes() -> bool:
    return _on[0]
