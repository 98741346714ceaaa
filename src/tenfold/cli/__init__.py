"""The command line: verbs to functions. The only place that prints or exits."""

import gc
import os
import sys

from tenfold.cli import (  # noqa: F401 - each registers its verbs with the app
    augmenting,
    demo,
    distilling,
    evaluating,
    experimenting,
    exploring,
    exporting,
    finetuning,
    measuring,
    optimizing,
    planning,
    reporting,
    running,
    submitting,
    tables,
)
from tenfold.cli.common import app
from tenfold.errors import Interrupted, TenfoldError

__all__ = ["app", "main"]

ORDER = (
    "plan",
    "explore",
    "compress",
    "trim",
    "finetune",
    "augment",
    "distill",
    "evaluate",
    "run",
    "glue",
    "ablate",
    "optimize",
    "export",
    "submit",
    "measure",
    "analyze",
    "report",
    "compare",
    "tables",
    "demo",
)
"""As `tenfold --help` lists the verbs: in the order in which one needs them."""

app.registered_commands.sort(key=lambda command: ORDER.index(command.callback.__name__))  # type: ignore[union-attr]


def main() -> None:
    """Run the verb. A user's mistake is one line and exit code 2."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    gc.disable()  # torch and transformers make 600,000 objects that stay: looking for garbage among them costs 1.6 s
    try:
        app(prog_name="tenfold")
    except TenfoldError as error:
        print(f"tenfold: {error}", file=sys.stderr)
        sys.exit(130 if isinstance(error, Interrupted) else 2)
    finally:
        gc.freeze()
