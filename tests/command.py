"""The command line in this process: what it prints and the code it exits with."""

import gc
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from tenfold.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON object that is all of the output."""
        assert self.out.count("\n") == 1
        return json.loads(self.out)


def run(*words: object) -> Ran:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", ["tenfold", *map(str, words)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        finally:
            gc.unfreeze()  # main is the last thing that a process does
            gc.enable()
    return Ran(code, out.getvalue(), err.getvalue())


def ran(*words: object) -> Ran:
    """Where it must go well."""
    done = run(*words)
    assert (done.code, done.err) == (0, ""), done.err
    return done
