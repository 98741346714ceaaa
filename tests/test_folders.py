"""An output folder is complete or absent, whatever happens while it is written."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tenfold.errors import OutputError
from tenfold.folders import complete_folder, refuse_existing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def old_model(out: Path) -> Path:
    out.mkdir()
    (out / "config.json").write_text("{}")
    return out


def test_the_name_is_taken_at_the_end(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with complete_folder(out) as partial:
        assert not out.exists()
        assert partial.parent == out.parent
        (partial / "a").write_text("whole")
    assert names(out.parent) == ["out"]
    assert (out / "a").read_text() == "whole"


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(1)])
def test_nothing_is_left_where_the_block_fails(error: BaseException, tmp_path: Path) -> None:
    def write() -> None:
        with complete_folder(tmp_path / "out") as partial:
            (partial / "a").write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert names(tmp_path) == []


def test_what_is_there_is_refused_and_kept(tmp_path: Path) -> None:
    out = old_model(tmp_path / "out")
    for refuse in (lambda: refuse_existing(out, force=False), lambda: complete_folder(out).__enter__()):
        with pytest.raises(
            OutputError, match=rf"must not exist, got {out}: choose another name, or pass --force to replace it"
        ):
            refuse()
    assert names(out) == ["config.json"]


def test_force_replaces_at_the_end_and_not_before(tmp_path: Path) -> None:
    out = old_model(tmp_path / "out")

    def write(fail: bool) -> None:
        with complete_folder(out, force=True) as partial:
            assert names(out) == ["config.json"]
            (partial / "new").write_text("whole")
            if fail:
                raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        write(fail=True)
    assert (names(out), names(tmp_path)) == (["config.json"], ["out"])
    write(fail=False)
    assert (names(out), names(tmp_path)) == (["new"], ["out"])


def test_force_does_not_replace_what_is_no_model(tmp_path: Path) -> None:
    """`--force` with a wrong path must not cost somebody's files."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years")
    (tmp_path / "table.csv").write_text("days")
    (tmp_path / "empty").mkdir()
    for name in ("thesis", "table.csv"):
        with pytest.raises(OutputError, match=r"--force replaces a model folder, got .*, which holds no config\.json"):
            refuse_existing(tmp_path / name, force=True)
    refuse_existing(tmp_path / "empty", force=True)
    refuse_existing(old_model(tmp_path / "old"), force=True)
    refuse_existing(tmp_path / "absent", force=True)


def test_what_a_killed_run_left_is_removed_by_the_next_for_the_same_name(tmp_path: Path) -> None:
    """A run that lives, another name, and a folder of somebody else's stay; ours may have the number of a dead container."""
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    gone = dead_process()
    stale = [f"out[1].partial-{gone}", f"out[1].partial-{gone}-old", f"out[1].partial-{os.getpid()}"]
    kept = [f"out[1].partial-{living.pid}", f"out1.partial-{gone}", f"out.partial-{gone}", "out[1].partial-mine"]
    try:
        for name in stale + kept:
            (tmp_path / name).mkdir()
            (tmp_path / name / "a").write_text("half")
        with complete_folder(tmp_path / "out[1]"):
            pass
        assert names(tmp_path) == sorted([*kept, "out[1]"])
    finally:
        living.communicate(b"\n")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "out", Path("/proc/out")):
        with pytest.raises(OutputError, match=r"the output folder must be writable, got .*: choose another"):
            complete_folder(out).__enter__()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line_and_leaves_nothing(code: int, tmp_path: Path) -> None:
    def write() -> None:
        with complete_folder(tmp_path / "out") as partial:
            (partial / "a").write_text("half")
            try:
                raise OSError(code, os.strerror(code))
            except OSError as error:
                raise RuntimeError("could not save") from error

    with pytest.raises(OutputError, match=r"needs more disk space than there is \(could not save\): free some"):
        write()
    assert names(tmp_path) == []


def test_another_failure_to_write_is_one_line_too(tmp_path: Path) -> None:
    def write() -> None:
        with complete_folder(tmp_path / "out") as partial:
            shutil.copy2(tmp_path / "absent", partial)

    with pytest.raises(
        OutputError, match=r"must be written whole, got No such file or directory for .*absent: nothing was kept"
    ):
        write()
    assert names(tmp_path) == []


def test_a_relative_name_and_a_link_are_what_they_lead_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = old_model(tmp_path / "out")
    (tmp_path / "link").symlink_to(out)
    with complete_folder(tmp_path / "link", force=True) as partial:
        (partial / "config.json").write_text("new")
    assert names(tmp_path) == ["link", "out"]
    assert (out / "config.json").read_text() == "new"
    (out / "inner").mkdir()
    monkeypatch.chdir(out / "inner")
    with complete_folder(Path(".."), force=True) as partial:
        (partial / "config.json").write_text("newer")
    assert names(tmp_path) == ["link", "out"]
    assert (out / "config.json").read_text() == "newer"
