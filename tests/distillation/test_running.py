"""distill_folder: what it makes, and what becomes of runs that are killed, interrupted, starved or changed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ran, run
from distilling import environment, general, same, student_folder, weights, write_text
from pico import pico, save_folder
from transformers import AutoModel, Trainer

from tenfold.distillation.checkpoints import last_good, seal
from tenfold.distillation.running import Distilled, distill_folder
from tenfold.distillation.trainer import Distiller
from tenfold.distillation.watch import Watch
from tenfold.errors import Interrupted, OutputError, TenfoldError

STEPS, EVERY = 16, 4


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a teacher, a student and text; the cache of texts goes with it."""
    place = tmp_path_factory.mktemp("distill")
    save_folder(place / "teacher", seed=1)
    student_folder(place / "student")
    write_text(place / "text.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENFOLD_CACHE", str(place / "cache"))
        yield place


def distill(place: Path, out: Path, **changes: Any) -> Distilled:
    options = {key: changes.pop(key) for key in ("fresh", "progress", "force") if key in changes}
    stage = general(place / "text.txt", STEPS, **({"evaluations": STEPS // EVERY} | changes))
    return distill_folder(str(place / "student"), out, str(place / "teacher"), stage, **options)


@pytest.fixture(scope="module")
def straight(place: Path) -> Distilled:
    """A run that nothing happened to."""
    return distill(place, place / "straight")


def interrupt(text: str) -> None:
    if text.startswith("step 10 "):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def unfinished(place: Path) -> Path:
    """What Ctrl-C left in the eleventh step, to be copied."""
    with pytest.raises(Interrupted, match=f"stopped at step 11 of {STEPS}: all is saved, the same command goes on"):
        distill(place, place / "unfinished", progress=interrupt)
    return place / "unfinished.training"


def on_disk(work: Path) -> list[str]:
    return sorted(path.name for path in work.glob("checkpoint-*"))


def test_a_run_leaves_a_model_and_its_history_and_nothing_else(place: Path, straight: Distilled) -> None:
    out = straight.out
    assert not out.with_name("straight.training").exists()
    assert {"config.json", "model.safetensors", "tokenizer.json", "history.json"} <= {path.name for path in out.iterdir()}
    [entry] = json.loads((out / "history.json").read_text(encoding="utf-8"))
    assert (entry["verb"], entry["steps"], entry["out"]) == ("distill", STEPS, "straight")
    assert entry["settings"]["phases"][0]["losses"][0]["name"] == "hidden"
    assert json.loads(json.dumps(straight.to_dict()))["peak"] is None
    assert [row["step"] for row in straight.curve] == [0, 4, 8, 12, 16]
    assert straight.curve[-1]["last"] < straight.curve[0]["last"]
    assert straight.tokens == STEPS * 8 * 32 and straight.tokens_per_second > 0
    model, before = AutoModel.from_pretrained(out), AutoModel.from_pretrained(place / "student")
    assert not torch.equal(model.factor_banks["all"].A, before.factor_banks["all"].A)
    assert torch.equal(model.get_input_embeddings().weight, before.get_input_embeddings().weight)


def test_one_seed_gives_one_model_and_another_another(place: Path, straight: Distilled, tmp_path: Path) -> None:
    again, other = distill(place, tmp_path / "again"), distill(place, tmp_path / "other", seed=1)
    assert same(weights(straight.out), weights(again.out))
    assert not same(weights(straight.out), weights(other.out))


def test_a_run_that_kill_9_ended_goes_on_to_the_same_weights(place: Path, straight: Distilled, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    code = (
        "import os, torch; torch.set_num_threads(1)\n"
        "from pathlib import Path; from distilling import general; from tenfold.distillation.running import distill_folder\n"
        f"stage = general(Path({str(place / 'text.txt')!r}), {STEPS}, evaluations={STEPS // EVERY})\n"
        "say = lambda text: os.kill(os.getpid(), 9) if text.startswith('step 7 ') else None\n"
        f"distill_folder({str(place / 'student')!r}, Path({str(out)!r}), {str(place / 'teacher')!r}, stage, progress=say)\n"
    )
    path = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment(place / "cache") | path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not out.exists() and on_disk(out.with_name("killed.training")) == ["checkpoint-4"]
    result = distill(place, out)
    assert same(weights(result.out), weights(straight.out))
    assert [row["step"] for row in result.curve] == [0, 4, 8, 12, 16]


def test_ctrl_c_saves_and_the_same_command_goes_on(place: Path, straight: Distilled, unfinished: Path, tmp_path: Path) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert on_disk(unfinished) == ["checkpoint-11", "checkpoint-8"], "two at most"
    shutil.copytree(unfinished, tmp_path / "out.training")
    assert same(weights(distill(place, tmp_path / "out").out), weights(straight.out))


def test_the_command_line_exits_with_130_after_ctrl_c(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(self: Watch, args: Any, state: Any, control: Any, **kwargs: Any) -> None:  # noqa: ARG001
        if state.global_step == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Watch, "on_step_begin", begin)
    words = (
        "distill", place / "student", tmp_path / "out", "--teacher", place / "teacher", "--text", place / "text.txt",
        "--batch", 8, "--set", "length=32", "--set", "held_out=8", "--tokens", 2048, "--json",
    )  # fmt: skip
    done = run(*words)
    assert (done.code, done.out) == (130, "")
    assert done.err == "tenfold: stopped at step 2 of 8: all is saved, the same command goes on\n"
    monkeypatch.undo()
    assert ran(*words, "--resume").data["curve"][0]["step"] == 0, "of the run before"


def cut_off(content: bytes) -> bytes:
    return content[: len(content) // 2]


def spoilt(content: bytes) -> bytes:
    """As long as before, and a safetensors file that loads."""
    middle = len(content) // 2
    return content[:middle] + bytes(16) + content[middle + 16 :]


SPOILT = [
    ("model.safetensors", cut_off), ("model.safetensors", spoilt), ("optimizer.pt", cut_off), ("optimizer.pt", spoilt),
    ("rng_state.pth", cut_off), ("trainer_state.json", cut_off), ("digests.json", cut_off),
]  # fmt: skip


@pytest.mark.parametrize(("file", "spoil"), SPOILT)
def test_a_checkpoint_that_is_cut_off_or_corrupt_is_passed_over(
    place: Path, straight: Distilled, unfinished: Path, tmp_path: Path, file: str, spoil: Callable[[bytes], bytes]
) -> None:
    work = shutil.copytree(unfinished, tmp_path / "out.training")
    content = (work / "checkpoint-11" / file).read_bytes()
    (work / "checkpoint-11" / file).write_bytes(spoil(content))
    result = distill(place, tmp_path / "out")
    assert same(weights(result.out), weights(straight.out))
    [note] = result.notes
    assert note.startswith("warning: checkpoint-11 is not whole (") and note.endswith("going on from the one before")


def test_a_checkpoint_that_a_kill_ended_is_passed_over(
    place: Path, straight: Distilled, unfinished: Path, tmp_path: Path
) -> None:
    work = shutil.copytree(unfinished, tmp_path / "out.training")
    (work / "checkpoint-11" / "digests.json").unlink()
    result = distill(place, tmp_path / "out")
    assert same(weights(result.out), weights(straight.out))
    assert result.notes == (
        "warning: checkpoint-11 is not whole (it was not written to its end): going on from the one before",
    )


def test_where_no_checkpoint_is_whole_a_run_begins_again(
    place: Path, straight: Distilled, unfinished: Path, tmp_path: Path
) -> None:
    work = shutil.copytree(unfinished, tmp_path / "out.training")
    for name in on_disk(work):
        (work / name / "optimizer.pt").unlink()
    result = distill(place, tmp_path / "out")
    assert same(weights(result.out), weights(straight.out)) and len(result.notes) == 2


def test_checkpoints_that_are_not_whole_make_room_for_new_ones(tmp_path: Path) -> None:
    for step in (5, 11):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    seal(tmp_path / "checkpoint-5")
    assert last_good(tmp_path, lambda _: None) == str(tmp_path / "checkpoint-5") and len(on_disk(tmp_path)) == 2
    assert last_good(tmp_path, lambda _: None, drop=True) == str(tmp_path / "checkpoint-5")
    assert on_disk(tmp_path) == ["checkpoint-5"]


def test_a_kill_between_the_last_step_and_saving_adds_no_step(
    place: Path, straight: Distilled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tenfold.distillation.running._save", killed)
        with pytest.raises(KeyboardInterrupt):
            distill(place, tmp_path / "out")
    assert "checkpoint-16" in on_disk(tmp_path / "out.training")
    monkeypatch.setattr(Distiller, "training_step", killed)
    result = distill(place, tmp_path / "out")
    assert same(weights(result.out), weights(straight.out)) and result.steps == STEPS


def test_an_unfinished_run_belongs_to_its_inputs(place: Path, unfinished: Path, tmp_path: Path) -> None:
    work = shutil.copytree(unfinished, tmp_path / "out.training")
    with pytest.raises(TenfoldError, match=r"out\.training holds an unfinished run with other settings or models: .* --fresh"):
        distill(place, tmp_path / "out", lr=0.1)
    stage = general(place / "text.txt", STEPS, evaluations=STEPS // EVERY)
    with pytest.raises(TenfoldError, match="other settings or models"):
        distill_folder(str(place / "teacher"), tmp_path / "out", str(place / "teacher"), stage)
    text = place / "text.txt"
    content = text.read_text(encoding="utf-8")
    try:
        text.write_text(content.replace("a", "the"), encoding="utf-8")
        with pytest.raises(TenfoldError, match="other rows"):
            distill(place, tmp_path / "out")
        assert on_disk(work) == ["checkpoint-11", "checkpoint-8"], "a refusal costs nothing"
        assert distill(place, tmp_path / "out", fresh=True, tokens=512).steps == 2
    finally:
        text.write_text(content, encoding="utf-8")


def test_memory_that_runs_out_halves_the_rows_at_a_time(
    place: Path, straight: Distilled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, sizes = Distiller._traces, []

    def traces(self: Distiller, inputs: Any, model: Any, leg: Any) -> Any:
        if torch.is_grad_enabled():
            sizes.append(len(inputs["input_ids"]))
            if sizes[-1] > 2 and self.state.global_step >= 5:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")
        return before(self, inputs, model, leg)

    monkeypatch.setattr(Distiller, "_traces", traces)
    result = distill(place, tmp_path / "out")
    assert result.notes == (
        "warning: 8 rows at a time do not fit in memory: going on with 4, the batch stays 8",
        "warning: 4 rows at a time do not fit in memory: going on with 2, the batch stays 8",
    )
    assert sizes[-4:] == [2, 2, 2, 2] and result.steps == STEPS
    for name, tensor in weights(straight.out).items():
        torch.testing.assert_close(weights(result.out)[name], tensor, rtol=1e-3, atol=2e-4)


def test_where_one_row_does_not_fit_that_is_said(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def traces(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr(Distiller, "_traces", traces)
    with pytest.raises(TenfoldError, match=r"1 rows of 32 tokens must fit in memory, got CUDA out of memory.*: lower") as error:
        distill(place, tmp_path / "out", micro=1)
    assert "\n" not in str(error.value)


def test_models_that_do_not_fit_are_said_before_training(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    monkeypatch.setattr("tenfold.distillation.preparing.probe", probe)
    with pytest.raises(
        TenfoldError, match=r"both models and 8 rows must fit in memory, got CUDA out of memory\. .*: lower length"
    ):
        distill(place, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_stops_and_leaves_the_last_good_state(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Distiller.compute_loss

    def broken(self: Distiller, *args: Any, **kwargs: Any) -> Any:
        return before(self, *args, **kwargs) * (float("nan") if self.state.global_step == 9 else 1)

    monkeypatch.setattr(Distiller, "compute_loss", broken)
    with pytest.raises(TenfoldError, match=r"the loss must stay finite, got nan at step 10: lower lr and lr_rest .* --fresh"):
        distill(place, tmp_path / "out")
    work = tmp_path / "out.training"
    assert on_disk(work) == ["checkpoint-4", "checkpoint-8"] and not (tmp_path / "out").exists()
    assert all(tensor.isfinite().all() for tensor in weights(work / "checkpoint-8").values())


def test_weights_that_are_not_finite_are_not_kept(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(self: Watch, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:  # noqa: ARG001
        if state.global_step == 6:
            torch.nn.init.constant_(model.pooler.dense.bias, float("inf"))  # no loss sees it

    monkeypatch.setattr(Watch, "on_step_begin", spoil)
    with pytest.raises(TenfoldError, match="weights must stay finite, got NaN or infinity at step 8"):
        distill(place, tmp_path / "out")
    assert on_disk(tmp_path / "out.training") == ["checkpoint-4"]


def test_a_full_disk_is_one_line(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Trainer, "_save_checkpoint", full)
    with pytest.raises(OutputError, match=r"a checkpoint must be written whole, got .*No space left on device: make room"):
        distill(place, tmp_path / "out")


def test_a_setting_of_accelerate_that_would_be_ignored_is_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(TenfoldError, match="got accelerate's FSDP: start it with torchrun"):
        distill(place, tmp_path / "out")


def test_an_existing_folder_is_refused_at_once(place: Path, straight: Distilled) -> None:
    with pytest.raises(OutputError, match="must not exist"):
        distill(place, straight.out)


def test_another_depth_and_width_end_without_the_projection(place: Path, tmp_path: Path) -> None:
    narrow: dict[str, Any] = {"layers": 1, "hidden_size": 16, "intermediate_size": 64}
    save_folder(tmp_path / "narrow", **narrow)
    stage = general(place / "text.txt", STEPS, map="top", lr_rest=0.02)
    result = distill_folder(str(tmp_path / "narrow"), tmp_path / "out", str(place / "teacher"), stage)
    assert result.curve[-1]["last"] < result.curve[0]["last"]
    assert weights(result.out).keys() == pico("bert", **narrow).state_dict().keys()


def test_a_local_phase_then_another(place: Path, tmp_path: Path) -> None:
    phases = [
        {"local": True, "share": 1},
        {"share": 3, "losses": [{"name": "hidden"}, {"name": "relations", "layers": "last"}]},
    ]
    result = distill(place, tmp_path / "out", phases=phases)
    assert "blocks" in result.curve[0] and "hidden" in result.curve[-1]
    assert result.curve[-1]["last"] < result.curve[0]["last"]
