"""Text files that are whole or as they were."""

import os
from pathlib import Path

from tenfold.errors import OutputError


def write_whole(path: Path, text: str) -> Path:
    beside = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OutputError(f"{path} must be writable, got {error.strerror}: choose another folder or free some space") from error
    return path
