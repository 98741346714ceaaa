"""tenfold glue on pico models: every model of the table is made as its name says, once, and the table holds its scores."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import labelled
import numpy as np
import pytest
import torch
from command import ran, run
from distilling import write_text
from glue_files import write_task_files
from labelled import classes
from pico import save_folder
from safetensors.torch import load_file

from tenfold.checkpoints import find, load, skeleton
from tenfold.distillation.running import distill_folder
from tenfold.errors import PlanError, RecipeError, TenfoldError
from tenfold.evaluation import predict
from tenfold.experiments import bench as bench_module
from tenfold.experiments.baselines import baseline
from tenfold.experiments.bench import parameters, safe
from tenfold.experiments.glue import Table, _bench, parse_table, run_glue, task_specs
from tenfold.experiments.rival import general_stages, low_rank_settings, original_of
from tenfold.experiments.tables import columns, gaps, rows
from tenfold.finetuning.blocks import block_list
from tenfold.pipeline import tokenizer_of
from tenfold.planning import plan_model
from tenfold.records import Record, digest, history, read_json
from tenfold.tasks import TaskSpec, encode, load_task

RIVALS = ("dense", "low_rank", "every-2-kd", "every-2-pkd", "theseus", "tinybert")
ROWS = {"train": 32, "dev": 16, "test": 4}
QUICK = ["batch=8", "length=32", "held_out=4", "evaluations=1"]
TABLE: dict[str, Any] = {
    "length": 32,
    "finetune": {"epochs": 1, "batch": [8], "lr": [1e-4, 1e-3]},
    "task": {"stage": "task", "batch": 8, "epochs": 1, "evaluations": 1},
}


class Killed(Exception):
    """In place of a signal."""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bert, a student that was compressed and taught on text, two tasks."""
    folder = tmp_path_factory.mktemp("given")
    bert, text = save_folder(folder / "bert", "bert", layers=4), write_text(folder / "wiki.txt")
    for name in ("rte", "stsb"):
        write_task_files(folder / "glue", name, ROWS)
    ran("compress", bert, folder / "small", "--method", "III-16", "--init", "hosvd")
    settings = [word for key in QUICK for word in ("--set", key)]
    ran("distill", folder / "small", folder / "taught", "--teacher", bert, "--text", text, "--tokens", 512, *settings)
    return folder


def table(given: Path, **changes: Any) -> Table:
    return parse_table({**TABLE, "data_dir": str(given / "glue"), **changes})


@pytest.fixture(scope="module")
def made(given: Path) -> tuple[Path, Record]:
    """The whole table, killed once on its way."""
    out, asked = given / "table", table(given, tasks=["rte", "stsb"], baselines=RIVALS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench_module, "distill_folder", _killed_at(3, distill_folder))
        with pytest.raises(Killed):
            run_glue(str(given / "taught"), out, asked)
    assert not (out / "results.json").exists()
    before = stamps(out)
    assert len(before) > 3
    record = run_glue(str(given / "taught"), out, asked)
    assert {name: stamps(out)[name] for name in before} == before
    return out, record


def _killed_at(call: int, original: Callable[..., Any]) -> Callable[..., Any]:
    calls: list[int] = []

    def distil(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            raise Killed
        return original(*args, **kwargs)

    return distil


def stamps(out: Path) -> dict[str, int]:
    """When each model was written."""
    return {path.relative_to(out).as_posix(): path.stat().st_mtime_ns for path in out.rglob("model.safetensors")}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_every_model_is_where_it_should_be(made: tuple[Path, Record]) -> None:
    out, record = made
    tasks = ("rte", "stsb")
    places = [f"teachers/{task}" for task in tasks] + [f"{task}/seed-0" for task in tasks]
    places += [f"baselines/{name}/{task}/seed-0" for name in RIVALS for task in tasks]
    starts = ("starts/every-2", "starts/II-5", "starts/II-5-general-1", "starts/every-2-tinybert-general-1")
    assert {path.removesuffix("/model.safetensors") for path in stamps(out)} == {*places, *starts}
    assert [row["name"] for row in record["rows"]] == ["teacher", "taught", *RIVALS]
    assert not [path for path in out.rglob("*") if ".partial-" in path.name or path.name.endswith((".training", ".finetuning"))]


def test_the_record_holds_the_scores_of_every_folder(made: tuple[Path, Record]) -> None:
    out, record = made
    assert read_json(out / "results.json") == json.loads(json.dumps(record))
    for row in record["rows"][1:]:
        scores = read_json(out / row["folder"] / "scores.json")
        for task in ("rte", "stsb"):
            found, shown = scores["tasks"][task]["splits"]["dev"], row["scores"][task]["dev"]
            assert (shown["mean"], shown["std"]) == (found["mean"], None)
            assert shown["retention"] == found["against"][0]["retention"]
        assert row["weights"] == scores["model"]
    assert record["tasks"]["rte"]["data"] == scores["tasks"]["rte"]["data"]
    assert record["rows"][0]["weights"]["rte"] == digest([out / "teachers/rte/model.safetensors"])
    ours = read_json(out / "scores.json")["tasks"]["rte"]["splits"]["dev"]["against"]
    assert [each["name"] for each in ours] == ["teacher", *RIVALS]
    keys = ("name", "retention", "difference", "low", "high", "p")
    assert record["rows"][1]["scores"]["rte"]["dev"]["against"] == [{key: each[key] for key in keys} for each in ours]
    teacher, dense = record["rows"][0], record["rows"][2]
    assert {task: split["dev"]["mean"] for task, split in teacher["scores"].items()} == {
        task: split["dev"]["mean"] for task, split in dense["scores"].items()
    }


def test_averages_are_of_the_first_metrics(made: tuple[Path, Record]) -> None:
    _, record = made
    teacher = record["rows"][0]["average"]
    for row in record["rows"]:
        firsts = [row["scores"]["rte"]["dev"]["mean"]["accuracy"], row["scores"]["stsb"]["dev"]["mean"]["spearman"]]
        assert row["average"] == pytest.approx(sum(firsts) / 2)
        assert row["retention"] == (pytest.approx(row["average"] / teacher) if teacher > 0 else None)


def test_a_constant_model_is_marked_and_no_other(made: tuple[Path, Record], given: Path) -> None:
    out, record = made
    data = load_task(TaskSpec(task="rte", data_dir=str(given / "glue"), length=32))
    constant = {}
    for row in record["rows"][1:]:
        source = find(str(out / row["folder"] / "rte/seed-0"), weights=True)
        said = predict(load(source), encode(data.dev["dev"], data.task, tokenizer_of(source))).argmax(1)
        constant[row["name"]] = len(np.unique(said)) == 1
    assert {row["name"]: bool(row["scores"]["rte"]["dev"]["constant"]) for row in record["rows"][1:]} == constant
    marked = {row[0] for row in rows(record) if row[4].endswith("!")}
    assert marked == {name for name, same in constant.items() if same}
    warned = " ".join(record["warnings"])
    assert all((f"{'student' if name == 'taught' else name}: rte dev: rte/seed-0 answers" in warned) == same
               for name, same in constant.items())  # fmt: skip


def test_dense_is_the_teacher_and_its_grid_is_run_once(made: tuple[Path, Record]) -> None:
    out, _ = made
    ours, theirs = weights(out / "baselines/dense/rte/seed-0"), weights(out / "teachers/rte")
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert len(history(out / "teachers/rte")[-1]["cells"]) == 2


def test_low_rank_is_as_large_as_the_student_and_went_through_its_stages(made: tuple[Path, Record], given: Path) -> None:
    out, record = made
    student, model = given / "taught", given / "bert"
    settings = low_rank_settings(str(model), str(student))
    assert settings.method == "II-5"
    network = skeleton(find(str(model), weights=True))
    sizes = [plan_model(network, settings.model_copy(update={"method": f"II-{d}"}))[0].plan.kept("model") for d in (5, 6)]
    assert sizes[0] <= parameters(student) < sizes[1]
    entries = history(out / "baselines/low_rank/rte/seed-0")
    assert [entry["verb"] for entry in entries] == ["compress", "distill", "distill"]
    ours, theirs = entries[1]["settings"], history(student)[1]["settings"]
    assert ours == theirs
    task = history(out / "rte/seed-0")[-1]["settings"]
    assert entries[2]["settings"] == task
    by_name = {row["name"]: row for row in record["rows"]}
    assert by_name["low_rank"]["kept"] <= by_name["taught"]["kept"] < 1


@pytest.mark.parametrize(
    ("name", "losses", "pairs"),
    [
        ("every-2-kd", [{"soft_labels", "hard_labels"}], None),
        ("every-2-pkd", [{"soft_labels", "hard_labels", "patient"}], "every-2"),
        ("tinybert", [{"embedding", "hidden", "scores"}, {"answers"}], "uniform"),
    ],
)
def test_rivals_with_fewer_layers(made: tuple[Path, Record], name: str, losses: list[set[str]], pairs: str | None) -> None:
    out, _ = made
    folder = out / f"baselines/{name}/rte/seed-0"
    first, last = history(folder)[0], history(folder)[-1]
    assert (first["verb"], first["layers"]) == ("trim", [0, 2])
    phases = last["settings"]["phases"]
    assert [{loss["name"] for loss in phase["losses"]} for phase in phases] == losses
    assert (last["settings"]["map"] or "uniform") == (pairs or "uniform")
    assert (last["settings"]["lr"], last["settings"]["freeze_embeddings"]) == (5e-5, False)
    assert len(block_list(load(find(str(folder), weights=True)))[1]) == 2
    assert (len(history(folder)) == 3) == (name == "tinybert")
    assert last["steps"] == history(out / "rte/seed-0")[-1]["steps"]


def test_theseus_learns_from_labels_with_the_teachers_blocks(made: tuple[Path, Record]) -> None:
    out, _ = made
    entry = history(out / "baselines/theseus/rte/seed-0")[-1]
    assert entry["verb"] == "finetune"
    assert entry["settings"]["theseus"]["teacher"] == str(out / "teachers/rte")


def test_the_same_command_makes_nothing_again_and_a_longer_one_adds(
    made: tuple[Path, Record], given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, record = made
    before = stamps(out)
    arguments = ["--data-dir", given / "glue", "--epochs", 1, "--set", "task.batch=8", "--set", "task.evaluations=1"]
    arguments += ["--set", "finetune={epochs: 1, batch: [8], lr: [1.0e-4, 1.0e-3]}", "--set", "length=32"]
    for name in ("distill_folder", "finetune_folder", "evaluate_folder"):
        monkeypatch.setattr(bench_module, name, _killed_at(1, print))
    told = ran("glue", given / "taught", out, *arguments, "--tasks", "rte,stsb", "--baselines", ",".join(RIVALS), "--json").data
    assert [row["scores"] for row in told["rows"]] == [row["scores"] for row in record["rows"]]
    monkeypatch.undo()
    shown = ran("glue", given / "taught", out, *arguments, "--tasks", "rte", "--seeds", 2, "--baselines", "dense").out
    assert all(text in shown for text in ("2 seeds", "floor", "95% interval"))
    added = {f"{place}rte/seed-1/model.safetensors" for place in ("", "baselines/dense/")}
    assert stamps(out).keys() - before.keys() == added
    assert {name: stamps(out)[name] for name in before} == before
    new = read_json(out / "results.json")
    assert [row["name"] for row in new["rows"]] == ["teacher", "taught", "dense"]
    spread = new["rows"][1]["scores"]["rte"]["dev"]["std"]
    assert spread is not None and len(read_json(out / "scores.json")["tasks"]["rte"]["splits"]["dev"]["seeds"]) == 2
    a, b = (weights(out / f"rte/seed-{k}") for k in (0, 1))
    assert any(not torch.equal(a[key], b[key]) for key in a)
    cell = history(out / "teachers/rte")[-1]["best"]
    second = history(out / "baselines/dense/rte/seed-1")[-1]
    assert (second["best"], len(second["cells"]), second["seed"]) == (cell, 1, 1)


def test_other_settings_are_not_mixed_in(made: tuple[Path, Record], given: Path) -> None:
    out, _ = made
    with pytest.raises(TenfoldError, match="--fresh"):
        run_glue(str(given / "taught"), out, table(given, tasks=["rte"], length=16))
    with pytest.raises(TenfoldError, match="--fresh"):
        run_glue(str(given / "small"), out, table(given, tasks=["rte"]), model=str(given / "bert"))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, given: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    for fresh in (False, True):
        with pytest.raises(TenfoldError, match="something else"):
            run_glue(str(given / "taught"), tmp_path, table(given), fresh=fresh)
    assert (tmp_path / "letters.txt").read_text() == "mine"


def test_a_trimmed_and_compressed_student_is_just_a_student(given: Path, made: tuple[Path, Record], tmp_path: Path) -> None:
    """TinyBERT-IV: its layers answer those of the whole teacher evenly; teachers of another table are used again."""
    out, _ = made
    ran("trim", given / "bert", tmp_path / "half", "--layers", "every-2")
    ran("compress", tmp_path / "half", tmp_path / "small", "--method", "III-8", "--init", "hosvd")
    words = ["--model", given / "bert", "--data-dir", given / "glue", "--tasks", "RTE", "--teachers", out / "teachers"]
    words += ["--epochs", 1, "--set", "task.batch=8", "--set", "task.evaluations=1", "--set", "length=32"]
    before = stamps(out / "teachers")
    told = ran("glue", tmp_path / "small", tmp_path / "out", *words, "--json").data
    assert history(tmp_path / "out/rte/seed-0")[-1]["settings"]["map"] == "uniform"
    assert stamps(out / "teachers") == before and not (tmp_path / "out/teachers").exists()
    assert told["rows"][1]["kept"] < 0.3
    assert original_of(str(tmp_path / "small")) == str(tmp_path / "half")


def test_tinybert_compressed_goes_through_all_its_stages(given: Path, made: tuple[Path, Record], tmp_path: Path) -> None:
    """TinyBERT-IV as a rival: trimmed, TinyBERT's general stage, compressed, the student's two stages."""
    student, model = given / "taught", str(given / "bert")
    asked = table(given, tasks=["rte"], teachers=str(made[0] / "teachers"))
    bench = _bench(str(student), tmp_path / "out", asked, model, task_specs(asked), False, lambda _: None)
    rival = baseline("tinybert-III-8", str(student))
    folder = rival.learn(bench, rival.start(bench), "rte", 0)
    assert folder == tmp_path / "out/baselines/tinybert-III-8/rte/seed-0"
    entries = history(folder)
    assert [entry["verb"] for entry in entries] == ["trim", "distill", "compress", "distill", "distill"]
    _, dense, compressed, general, task = entries
    assert [loss["name"] for loss in dense["settings"]["phases"][0]["losses"]] == ["embedding", "hidden", "scores"]
    assert (compressed["method"], compressed["settings"]["init"]) == ("III-8", "hosvd")
    assert {**general["settings"], "map": None} == history(student)[-1]["settings"]
    assert {**task["settings"], "map": None} == history(made[0] / "rte/seed-0")[-1]["settings"]
    assert general["settings"]["map"] == task["settings"]["map"] == "uniform"
    with pytest.raises(PlanError, match="IV a bank size and a rank"):
        baseline("every-3-tinybert-IV-72", str(student))


def test_rows_of_ones_own(given: Path, tmp_path: Path) -> None:
    """Teacher, student and rival on a CSV with other names of columns."""
    file = labelled.write(tmp_path / "film-reviews.csv", [{"said": row["text"], "stars": row["label"]} for row in classes(40)])
    words = ["--train", file, "--text-column", "said", "--label-column", "stars", "--epochs", 1, "--set", "length=32"]
    words += ["--set", "task.batch=8", "--set", "task.evaluations=1", "--set", "finetune.epochs=1", "--baselines", "low_rank"]
    told = ran("glue", given / "taught", tmp_path / "out", *words, "--json").data
    assert [row["name"] for row in told["rows"]] == ["teacher", "taught", "low_rank"]
    assert told["tasks"]["film-reviews"]["metrics"] == ["accuracy", "f1_macro"]
    made_for = [read_json(tmp_path / f"out/{place}/task.json") for place in ("teachers/film-reviews", "film-reviews/seed-0")]
    assert all((each["task"]["columns"], each["task"]["label"]) == (["said"], "stars") for each in made_for)
    refused = run("glue", given / "taught", tmp_path / "out", *words, "--tasks", "rte")
    assert (refused.code, refused.err.count("\n"), "got both" in refused.err) == (2, 1, True)


def test_a_teacher_made_for_other_rows_is_refused(given: Path, made: tuple[Path, Record], tmp_path: Path) -> None:
    asked = table(given, tasks=["rte"], length=16, teachers=str(made[0] / "teachers"))
    with pytest.raises(TenfoldError, match="the same rows"):
        run_glue(str(given / "taught"), tmp_path / "out", asked)


def test_tasks_are_those_that_are_there(given: Path) -> None:
    assert [*task_specs(table(given))] == ["stsb", "rte"]
    assert [*task_specs(table(given, tasks=["SST-2", "rte", "sst2"]))] == ["sst2", "rte"]
    assert [*task_specs(Table())] == ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte"]
    with pytest.raises(TenfoldError, match="tenfold submit"):
        task_specs(table(given, tasks=["ax"]))
    with pytest.raises(TenfoldError, match="got none of"):
        task_specs(table(given, data_dir=str(given)))


def test_general_stages_come_out_of_the_students_history(given: Path) -> None:
    ((teacher, stage),) = general_stages(str(given / "taught"))
    assert teacher == str(given / "bert")
    assert (stage.tokens, stage.batch, stage.text) == (512, 8, (str(given / "wiki.txt"),))
    assert stage.resolved().model_dump(mode="json") == history(given / "taught")[-1]["settings"]
    assert general_stages(str(given / "small")) == [] == general_stages("some/name-of-the-hub")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"taks": ["rte"]}, 'did you mean "tasks"'),
        ({"finetune": {"lrr": 1}}, 'did you mean "lr"'),
        ({"task": {"stage": "task", "epoch": 1}}, 'did you mean "epochs"'),
        ({"task": {"stage": "general"}}, "of its own"),
        ({"finetune": {"seeds": 3}}, "give seeds"),
        ({"seeds": 0}, "seeds is wrong"),
        ({"own": {"train": "x.csv"}, "data_dir": "glue"}, "got both"),
        ({"own": {"dev": "x.csv"}}, "give --train"),
        ({"own": {"train": "x.csv", "label": "y"}}, 'did you mean "label_column"'),
    ],
)
def test_a_table_is_strict(data: dict[str, Any], told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        parse_table(data)


@pytest.mark.parametrize("name", ["every-2", "tinybret", "every-0-kd", "every-2-albert"])
def test_an_unknown_rival_lists_the_known(name: str) -> None:
    with pytest.raises(RecipeError, match="known: dense, low_rank, theseus"):
        baseline(name, "student")


def test_what_cannot_be_had_is_said_before_any_training(given: Path, tmp_path: Path) -> None:
    """A student smaller than rank 1 of everything; one that does not say where it came from."""
    ran("compress", given / "bert", tmp_path / "tiny", "--method", "IV-4-4", "--init", "random")
    words = ["--data-dir", given / "glue", "--tasks", "rte", "--set", "length=32"]
    cases: list[tuple[Path, list[object], str]] = [
        (tmp_path / "tiny", ["--baselines", "low_rank"], "leave it out"),
        (given / "bert", [], "give --model"),
        (given / "taught", ["--model", given / "small"], "dense weights"),
        (given / "taught", ["--tasks", "sst3"], "sst2"),
        (given / "taught", ["--tasks", "rte,wnli"], "must hold WNLI/"),
    ]
    for student, more, told in cases:
        done = run("glue", student, tmp_path / "out", *words, *more)
        assert (done.code, done.err.count("\n"), told in done.err) == (2, 1, True), done.err
        assert not stamps(tmp_path / "out")


def test_the_tables_shape() -> None:
    """MNLI has two columns; every row as many cells as there are columns."""
    split = {"rows": 9, "floor": {"accuracy": 35.0}}
    cell = {"mean": {"accuracy": 80.0}, "std": {"accuracy": 0.5}, "retention": 1.0, "constant": [], "against": []}
    row = {
        "name": "small",
        "role": "student",
        "method": "III-8",
        "parameters": 10**6,
        "kept": 0.1,
        "average": 80.0,
        "retention": None,
    }
    record = {
        "tasks": {"mnli": {"metrics": ["accuracy"], "splits": {"matched": split, "mismatched": split}}},
        "rows": [{**row, "scores": {"mnli": {"matched": cell, "mismatched": {**cell, "constant": ["x"]}}}}],
    }
    head, body = columns(record), rows(record)
    assert head[4:6] == ("mnli matched accuracy", "mnli mismatched accuracy")
    assert body[0] == ("small", "III-8", "1.00M", "0.100", "80.0 ± 0.5", "80.0 ± 0.5!", "80.0", "-")
    assert all(len(one) == len(head) for one in body)
    assert gaps(record) == []


def test_the_gaps_of_a_table() -> None:
    """The student's difference from everything it is held against; a rival's own is not repeated."""
    against = {"name": "teacher", "retention": 0.875, "difference": -10.0, "low": -12.25, "high": -8.0, "p": 0.0}
    cell = {"mean": {"f1": 70.0}, "against": [against, {**against, "name": "II", "retention": None}]}
    rows = [("teacher", "teacher", 80.0), ("small", "student", 70.0), ("II", "baseline", 90.0)]
    record = {
        "tasks": {"mrpc": {"metrics": ["f1"], "splits": {"dev": {}}}},
        "rows": [
            {"name": name, "role": role, "scores": {"mrpc": {"dev": {**cell, "mean": {"f1": mean}}}}}
            for name, role, mean in rows
        ],
    }
    told = ("-10.0", "-12.2 to -8.0", "0.0000")
    assert gaps(record) == [
        ("small", "teacher", "mrpc", "dev", "80.0", "87.5%", *told),
        ("small", "II", "mrpc", "dev", "90.0", "-", *told),
    ]


def test_names_of_folders() -> None:
    names = ["GD+TD", "init=random", "a b/c", "..", "IV-36-128"]
    assert [safe(name) for name in names] == ["GD+TD", "init=random", "a_b_c", "_", "IV-36-128"]
