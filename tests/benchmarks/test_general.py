"""The general stage of a campaign: cut, killed, made longer or shared, it ends in the same weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.pico_campaign import DATA, FOREVER, TOKENS, given, places, silent
from campaigns import general
from campaigns.factors import own_tensors, read_facts, read_student
from campaigns.general import Class, Pupil, rate, teach_all
from campaigns.places import Budget, Places, Spent
from campaigns.students import begun, plan_of_row, student_file
from campaigns.table import start_of
from distilling import same
from safetensors.torch import load_file

from tenfold.checkpoints import load
from tenfold.errors import CheckpointError, TenfoldError
from tenfold.records import read_json


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def whole(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Both rows at once, without a stop."""
    found = places(here, tmp_path_factory.mktemp("whole"))
    teach_all(found, ["III-16", "II-4"], silent, FOREVER)
    return found


def student(found: Places, row: str = "III-16") -> dict[str, torch.Tensor]:
    return load_file(student_file(found, row))


def stopped(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """A budget that is spent after so many steps."""
    calls: list[int] = []

    def spent(budget: Budget) -> bool:
        calls.append(1)
        return budget.minutes is not None and len(calls) > steps

    monkeypatch.setattr(Budget, "spent", property(spent))


def test_the_rate_rises_stays_and_falls_to_0() -> None:
    found = [rate(step, 6, 10, 2) for step in range(10)]
    assert found[:6] == [1 / 3, 2 / 3, 1, 1, 1, 1]
    assert found[6:] == [1.0, 0.75, 0.5, 0.25]
    assert [rate(step, 0, 4, 0) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]


def test_students_learn_and_the_result_says_how(whole: Places) -> None:
    record = read_json(whole.result("III-16", "general"))
    assert record["tokens"] == 10 * TOKENS and record["steps"] == 10 and record["taught_together"] == 2
    assert [row["step"] for row in record["curve"]] == [0, 4, 6, 8, 10]
    assert record["curve"][-1]["last"] < 0.95 * record["curve"][0]["last"]
    assert record["model"] == whole.hash and len(record["hashes"]["file"]) == 64
    assert record["settings"]["general"]["tokens"] == 10 * TOKENS and record["versions"]["torch"] == torch.__version__
    assert record["rounding"]["last"] == record["rounding"]["last_before"] and record["rounding"]["lost"] == 0
    plan = plan_of_row(whole, "III-16")
    assert plan is not None and record["size"]["matrices"] == plan.kept("matrices")


@pytest.mark.parametrize("steps", [3, 7])
def test_a_stage_that_was_cut_goes_on_to_the_same_weights(
    here: Path, whole: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """In its level part and in its decay, between two saves."""
    found = places(here, tmp_path)
    with monkeypatch.context() as patch:
        stopped(patch, steps)
        with pytest.raises(Spent, match="all is saved, the same command goes on"):
            teach_all(found, ["III-16", "II-4"], silent, Budget(1.0))
    assert not found.result("III-16", "general").exists()
    teach_all(found, ["III-16", "II-4"], silent, FOREVER)
    assert same(student(found), student(whole)) and same(student(found, "II-4"), student(whole, "II-4"))


def test_a_kill_goes_on_from_the_last_save(here: Path, whole: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, learn = places(here, tmp_path), Pupil.learn

    def killed(pupil: Pupil, loss: Any) -> None:
        if pupil.step == 5:
            raise KeyboardInterrupt
        learn(pupil, loss)

    with monkeypatch.context() as patch:
        patch.setattr(Pupil, "learn", killed)
        with pytest.raises(KeyboardInterrupt):
            teach_all(found, ["III-16"], silent, FOREVER)
    teach_all(found, ["III-16"], silent, FOREVER)
    assert same(student(found), student(whole))


def test_a_student_alone_is_what_it_is_beside_others(here: Path, whole: Places, tmp_path: Path) -> None:
    found = places(here, tmp_path)
    teach_all(found, ["II-4"], silent, FOREVER)
    assert same(student(found, "II-4"), student(whole, "II-4"))


def test_a_longer_stage_goes_on_from_the_level_part_of_a_shorter_one(here: Path, whole: Places, tmp_path: Path) -> None:
    rows = {
        "short": {"compress": {"method": "III-16"}, "set": {"general.tokens": 5 * TOKENS}},
        "long": {"compress": {"method": "III-16"}},
    }
    found = places(here, tmp_path, rows=rows)
    teach_all(found, ["long", "short"], silent, FOREVER)
    assert same(student(found, "long"), student(whole))
    assert not same(student(found, "short"), student(whole))
    [home] = (found.home / "trunks").iterdir()
    assert read_facts(home / "trunk.safetensors")["step"] == 6, "where the longer one began to decay"
    assert [path.name for path in home.iterdir() if "tail" in path.name] == []


def test_a_shorter_stage_after_a_longer_one_is_refused(here: Path, tmp_path: Path) -> None:
    compress = {"method": "II-4", "init": "hosvd"}
    teach_all(places(here, tmp_path, rows={"long": {"compress": compress}}), ["long"], silent, FOREVER)
    short = {"short": {"compress": compress, "set": {"general.tokens": 5 * TOKENS}}}
    with pytest.raises(TenfoldError, match="gone on to step 6: teach shorter ones first"):
        teach_all(places(here, tmp_path, rows=short), ["short"], silent, FOREVER)


def test_one_that_is_behind_catches_up(here: Path, whole: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = places(here, tmp_path)
    with monkeypatch.context() as patch:
        stopped(patch, 3)
        with pytest.raises(Spent):
            teach_all(found, ["III-16"], silent, Budget(1.0))
    teach_all(found, ["III-16", "II-4"], silent, FOREVER)
    assert same(student(found), student(whole)) and same(student(found, "II-4"), student(whole, "II-4"))


def test_what_is_done_is_passed_over_and_other_settings_are_refused(
    here: Path, whole: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(general, "Class", None)
    teach_all(whole, ["III-16", "II-4"], silent, FOREVER)
    other = places(here, whole.work.parent, general={**DATA["general"], "lr": 1e-3})
    with pytest.raises(TenfoldError, match="made with another general: rename the row, or remove it"):
        teach_all(other, ["III-16"], silent, FOREVER)


def test_a_student_whose_loss_is_not_finite_is_marked_and_the_others_go_on(here: Path, whole: Places, tmp_path: Path) -> None:
    rows = {
        "wild": {"compress": {"method": "III-16"}, "set": {"general.lr": 1e30, "general.lr_rest": 1e30}},
        "II-4": DATA["rows"]["II-4"],
    }
    found = places(here, tmp_path, rows=rows)
    teach_all(found, ["wild", "II-4"], silent, FOREVER)
    assert "must stay finite" in read_json(found.result("wild", "general"))["diverged"]
    assert not student_file(found, "wild").exists()
    assert same(student(found, "II-4"), student(whole, "II-4"))


def test_factors_learn_at_the_rate_of_their_name(here: Path, tmp_path: Path) -> None:
    found = places(here, tmp_path, schedule={**DATA["schedule"], "rates": {"U": 0.5, "V": 0.25}})
    [pupil] = Class(found, ["III-16"], silent).pupils
    names = {id(p): name.rpartition(".")[2] for name, p in pupil.named.items() if "factor_banks" in name}
    told = {names.get(id(p), "rest"): group["full"] for group in pupil.optimizer.param_groups for p in group["params"]}
    assert told == {"U": 2e-3, "V": 1e-3, "core": 4e-3, "rest": 2e-3}
    strange = places(here, tmp_path, schedule={**DATA["schedule"], "rates": {"W": 0.5}})
    with pytest.raises(TenfoldError, match=r"that a student has \(U, V, core\), got"):
        Class(strange, ["III-16"], silent)


def test_a_student_may_be_a_running_mean(here: Path, whole: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its weights after every step; a stage that was cut goes on with it, and measures it."""
    schedule = {**DATA["schedule"], "average": 0.75}
    found, learn = places(here, tmp_path / "a", schedule=schedule), Pupil.learn
    means: dict[str, torch.Tensor] = {}

    def watched(pupil: Pupil, loss: Any) -> None:
        for name, p in pupil.named.items():
            means.setdefault(name, p.detach().clone())
        learn(pupil, loss)
        means.update({name: 0.75 * means[name] + 0.25 * p.detach() for name, p in pupil.named.items()})

    with monkeypatch.context() as patch:
        patch.setattr(Pupil, "learn", watched)
        teach_all(found, ["III-16"], silent, FOREVER)
    ours = student(found)
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, means[name])
    assert not same(ours, student(whole))
    record = read_json(found.result("III-16", "general"))
    assert record["curve"][-1]["last"] == record["rounding"]["last"], "what is measured is the mean"
    again = places(here, tmp_path / "b", schedule=schedule)
    with monkeypatch.context() as patch:
        stopped(patch, 5)
        with pytest.raises(Spent):
            teach_all(again, ["III-16"], silent, Budget(1.0))
    teach_all(again, ["III-16"], silent, FOREVER)
    assert same(student(again), ours)


def test_a_students_file_holds_what_the_original_has_not(whole: Places) -> None:
    tensors = student(whole)
    assert not any("word_embeddings" in name for name in tensors)
    again = read_student(student_file(whole, "III-16"), whole.original, whole.hash)
    assert same(own_tensors(again, whole.original, None), tensors)
    with pytest.raises(CheckpointError, match="belongs to the weights that it was made from"):
        read_student(student_file(whole, "III-16"), whole.original, "other")


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_rounding_is_measured(here: Path, tmp_path: Path, dtype: str, bound: float) -> None:
    found = places(here, tmp_path, schedule={**DATA["schedule"], "dtype": dtype, "measure": 10**6})
    teach_all(found, ["II-4"], silent, FOREVER)
    told = read_json(found.result("II-4", "general"))["rounding"]
    assert 0 < told["lost"] < bound and 0 < abs(told["last"] - told["last_before"]) < 0.01
    assert told["bytes"] == student_file(found, "II-4").stat().st_size
    assert {tensor.dtype for tensor in student(found, "II-4").values()} == {getattr(torch, dtype)}


def test_a_row_may_begin_as_another(here: Path, tmp_path: Path) -> None:
    """Short rows of text first: the second stage starts from the first one's student, and counts its tokens too."""
    rows = {
        "short": {"compress": {"method": "II-4"}, "set": {"general.length": 16, "general.tokens": 5 * TOKENS}},
        "long": {"begin": "short"},
    }
    found = places(here, tmp_path, rows=rows)
    with pytest.raises(TenfoldError, match="long begins as the student of short, got none: run general --rows short first"):
        teach_all(found, ["long"], silent, FOREVER)
    teach_all(found, ["long", "short"], silent, FOREVER)
    start = found.home / "trunks" / start_of(found.campaign, "long").trunk / "start.safetensors"
    assert same(load_file(start), student(found, "short")) and not same(student(found, "long"), student(found, "short"))
    records = [read_json(found.result(row, "general")) for row in rows]
    assert records[1]["tokens"] == 10 * TOKENS + records[0]["tokens"] and records[0]["size"] == records[1]["size"]


def test_layers_of_the_teacher_are_students_too(here: Path, tmp_path: Path) -> None:
    rows = {"every-2": {"layers": "every-2", "rival": "kd", "set": {"general.map": "uniform", "general.lr": 1e-3}}}
    found = places(here, tmp_path, rows=rows)
    teach_all(found, ["every-2"], silent, FOREVER)
    record = read_json(found.result("every-2", "general"))
    assert record["curve"][-1]["last"] < record["curve"][0]["last"]
    network = read_student(student_file(found, "every-2"), found.original, found.hash)
    size, whole = record["size"], load(found.original)
    assert size["kept"] == 0.5 and size["model"] == sum(p.numel() for p in network.parameters())
    assert size["paper"] == size["model"] - whole.get_input_embeddings().weight.numel()
    assert begun(found, "every-2", silent).config.num_hidden_layers == 1
