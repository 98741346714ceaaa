"""Output folders that are either complete or absent."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path

from safetensors import SafetensorError

from tenfold.errors import OutputError


@contextmanager
def complete_folder(out: Path, force: bool = False) -> Iterator[Path]:
    """A folder beside `out` to write into; it takes out's name when the block ends well and goes when it does not.

    A killed run leaves only the folder beside, named `OUT.partial-PID`; the next run for the same `out` removes it.
    """
    out = out.resolve()  # "." and ".." have no name to put a suffix to
    if not force:
        refuse_existing(out, force)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(out)
        partial = out.with_name(f"{out.name}.partial-{os.getpid()}")
        partial.mkdir()
    except OSError as error:
        raise OutputError(f"the output folder must be writable, got {_reason(error)}: choose another") from error
    try:
        yield partial
        _take_name(partial, out)
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)
        if _disk_full(error):
            raise OutputError(
                f"writing {out} needs more disk space than there is ({error}): free some, nothing was kept"
            ) from error
        if isinstance(error, OSError | SafetensorError):
            raise OutputError(f"{out} must be written whole, got {_reason(error)}: nothing was kept") from error
        raise
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def refuse_existing(out: Path, force: bool) -> None:
    """Nothing may be where a model is to go, or with `force` a model folder: a wrong path must not cost a home folder."""
    if not out.exists():
        return
    if not force:
        raise OutputError(f"the output folder must not exist, got {out}: choose another name, or pass --force to replace it")
    if not (out / "config.json").is_file() and not (out.is_dir() and not any(out.iterdir())):
        raise OutputError(f"--force replaces a model folder, got {out}, which holds no config.json: choose another name")


def cache_folder(name: str) -> Path:
    """$TENFOLD_CACHE/NAME, or ~/.cache/tenfold/NAME: what can be made again from what it is named after."""
    return Path(os.environ.get("TENFOLD_CACHE") or Path.home() / ".cache" / "tenfold").expanduser() / name


def _reason(error: Exception) -> str:
    return f"{error.strerror} for {error.filename}" if isinstance(error, OSError) and error.filename else str(error)


def _take_name(partial: Path, out: Path) -> None:
    if out.exists():
        old = out.with_name(f"{out.name}.partial-{os.getpid()}-old")
        out.rename(old)
        partial.rename(out)
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    else:
        partial.rename(out)


def _remove_stale(out: Path) -> None:
    """A folder with this process's own number is stale too: a container gives the same one every time."""
    for path in out.parent.glob(f"{escape(out.name)}.partial-*"):
        pid = path.name.removeprefix(f"{out.name}.partial-").split("-")[0]
        if pid.isdigit() and (int(pid) == os.getpid() or not _alive(int(pid))):
            shutil.rmtree(path, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        if "No space left on device" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
