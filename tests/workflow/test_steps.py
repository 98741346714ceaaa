"""Steps are done once, in folders that belong to one set of inputs."""

from pathlib import Path

import pytest

from tenfold.errors import OutputError, TenfoldError
from tenfold.workflow.steps import Steps


def steps(work: Path, told: str = "a", fresh: bool = False, said: list[str] | None = None) -> Steps:
    lines = list[str]() if said is None else said
    return Steps(work, {"recipe": told, "pair": (1, 2)}, fresh, lines.append)


def test_a_step_is_done_once(tmp_path: Path) -> None:
    work, made, said = tmp_path / "out.run", [], list[str]()

    def make(folder: Path) -> None:
        made.append(folder)
        folder.mkdir(parents=True)

    first = steps(work, said=said)
    assert first.folder("one", make) == work / "one"
    again = steps(work)
    assert again.folder("one", make) == work / "one"
    assert made == [work / "one"]
    assert again.seconds.keys() == {"one"}
    assert said == ["one: starts"]


def test_what_a_step_says_has_its_name_in_front(tmp_path: Path) -> None:
    said = list[str]()
    run = steps(tmp_path / "out.run", said=said)

    def make(folder: Path) -> None:
        run.say("loading")
        folder.mkdir()

    run.folder("one", make)
    run.say("after")
    assert said == ["one: starts", "one: loading", "after"]


def test_a_step_that_fails_is_done_again(tmp_path: Path) -> None:
    work = tmp_path / "out.run"

    def fail(folder: Path) -> None:
        raise TenfoldError(f"no {folder.name}")

    with pytest.raises(TenfoldError, match="no one"):
        steps(work).folder("one", fail)
    later = steps(work)
    later.folder("one", Path.mkdir)
    assert later.seconds.keys() == {"one"}


def test_an_unfinished_run_of_another_recipe_is_refused_and_can_be_dropped(tmp_path: Path) -> None:
    work = tmp_path / "out.run"
    steps(work).folder("one", Path.mkdir)
    with pytest.raises(TenfoldError, match=r"out\.run holds an unfinished run of another recipe or model: .* pass --fresh"):
        steps(work, "b")
    assert not (steps(work, "b", fresh=True).work / "one").exists()


@pytest.mark.parametrize("fresh", [False, True])
def test_a_folder_that_is_no_runs_is_left_alone(fresh: bool, tmp_path: Path) -> None:
    work = tmp_path / "out.run"
    work.mkdir()
    (work / "letters.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match=r"a run keeps its steps in .*out\.run, got something else there"):
        steps(work, fresh=fresh)
    assert (work / "letters.txt").read_text(encoding="utf-8") == "mine"


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OutputError, match=r"a run must be able to write .*file/out\.run, got Not a directory"):
        steps(tmp_path / "file/out.run")
