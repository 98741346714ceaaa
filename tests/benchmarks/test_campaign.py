"""A campaign on pico models: teachers, students, scores, what is published of them, and the tree that is carried."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.pico_campaign import DATA, FOREVER, TOKENS, given, places, silent
from campaigns import command, speeding, tasks
from campaigns.command import SPENT, main
from campaigns.general import teach_all
from campaigns.packing import pack, unpack
from campaigns.papers import paper_rows
from campaigns.places import Budget, Places
from campaigns.publishing import BEGIN, END, listing, plot, summary, tables, write_page, write_summary
from campaigns.rows import rows_of, unlabelled_pairs
from campaigns.searching import search
from campaigns.students import folder_of, student_file
from campaigns.table import Row, corpus_stage, load_campaign, parse_campaign, shipped, start_of, task_stage
from campaigns.tasks import choosing_teacher, spec_of, teach_student, teach_teacher
from distilling import same
from safetensors.torch import load_file, save_file
from transformers import BertConfig

from tenfold.checkpoints import Source, skeleton
from tenfold.errors import RecipeError, TenfoldError
from tenfold.planning import plan_model
from tenfold.records import read_json
from tenfold.tasks import load_task

ROOT = Path(__file__).parents[2]
SEARCH = {"row": "II-4", "tasks": ["stsb"], "factors": {"task.lr": [1e30], "general.lr": [1e-3, 1e30]}}
ROWS = {**DATA["rows"], "II-4 start": {"compress": {"method": "II-4"}, "general": False}}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return given(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def run(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Everything but one seed of one row; the search of one row."""
    found = places(here, tmp_path_factory.mktemp("run"), rows=ROWS, search=SEARCH)
    teach_all(found, [*ROWS], silent, FOREVER)
    for row in ROWS:
        teach_student(found, row, "rte", 0, silent, FOREVER)
        for k in range(1 if row == "II-4" else 2):
            teach_student(found, row, "stsb", k, silent, FOREVER)
    return found


def made(found: Places) -> dict[str, int]:
    return {path.relative_to(found.results).as_posix(): path.stat().st_mtime_ns for path in found.results.rglob("*.json")}


def test_a_cell_says_all_of_its_making(run: Places) -> None:
    record = read_json(run.result("III-16", "stsb-seed-1"))
    assert record["metric"] == "spearman" and record["headline"] == record["scores"]["dev"]["spearman"]
    assert record["floor"] == 0.0 and record["seed"] == 1 and record["steps"] == 4
    assert record["general"] == {
        "tokens": 10 * TOKENS,
        "file": read_json(run.result("III-16", "general"))["hashes"]["file"],
    }
    assert record["hashes"]["train"] == load_task(spec_of(run, "stsb")).train.digest and record["model"] == run.hash
    assert all(len(record["hashes"][name]) == 64 for name in ("teacher", "start", "student")) and record["curve"]
    assert record["settings"]["task"]["keep"] == "last" and record["versions"]["torch"] == torch.__version__
    assert not list((run.home / "cells").iterdir()), "models are dropped after they were scored"


def test_what_is_done_is_passed_over(run: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made(run)
    monkeypatch.setattr(tasks, "distill_folder", None)
    monkeypatch.setattr(tasks, "finetune_folder", None)
    teach_student(run, "III-16", "stsb", 1, silent, Budget(0.0))
    assert made(run) == before
    with pytest.raises(TenfoldError, match="the budget of 0 minutes is spent: all is saved"):
        teach_student(run, "II-4", "stsb", 1, silent, Budget(0.0))


def test_a_killed_task_stage_goes_on(run: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a cell outlives a kill before its scores were written, and is not made twice."""
    other = replace(run, results=tmp_path)
    teach_teacher(other, "rte", 0, silent, FOREVER)
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "_scored", _killed)
        with pytest.raises(KeyboardInterrupt):
            teach_student(other, "III-16", "rte", 0, silent, FOREVER)
    monkeypatch.setattr(tasks, "distill_folder", None)
    monkeypatch.setattr(tasks, "finetune_folder", None)
    record = teach_student(other, "III-16", "rte", 0, silent, FOREVER)
    assert record["hashes"]["student"] == read_json(run.result("III-16", "rte-seed-0"))["hashes"]["student"]


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt


def test_dev_chooses_nothing(run: Places, tmp_path: Path) -> None:
    """Other dev rows, other scores; the same cell of the grid, the same teachers, the same student, the same search."""
    swapped = given(tmp_path / "other")
    for file in (swapped / "data/glue").rglob("dev.tsv"):
        head, *lines = file.read_text(encoding="utf-8").splitlines()
        labels = [line.split("\t")[-1] for line in lines]
        turned = [line.rpartition("\t")[0] + "\t" + label for line, label in zip(lines, labels[1:] + labels[:1], strict=True)]
        file.write_text("\n".join([head, *turned]) + "\n", encoding="utf-8")
    other = places(swapped, tmp_path, rows=ROWS, search=SEARCH)
    teach_all(other, ["II-4"], silent, FOREVER)
    teach_student(other, "II-4", "stsb", 0, silent, FOREVER)
    names = (("teachers", "stsb-seed-0"), ("II-4", "stsb-seed-0"))
    ours, theirs = ([read_json(each.result(*name)) for name in names] for each in (run, other))
    assert ours[0]["cell"] == theirs[0]["cell"] and len(ours[0]["grid"]) == 2
    for a, b in zip(ours, theirs, strict=True):
        assert a["headline"] != b["headline"] and a["data"] != b["data"]
    assert ours[0]["hashes"]["model"] == theirs[0]["hashes"]["model"]
    assert ours[1]["hashes"]["student"] == theirs[1]["hashes"]["student"]
    assert search(run, silent, FOREVER) == search(other, silent, FOREVER)


def test_a_search_changes_one_factor_at_a_time(run: Places) -> None:
    table = search(run, silent, FOREVER).splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in table[2:]] == [
        "II-4",
        "II-4 task.lr=1e+30",
        "II-4 general.lr=0.001",
        "II-4 general.lr=1e+30",
    ]
    assert table[2].endswith("| +0.0 |") and table[3].endswith("| diverged | - |") and table[5].endswith("| diverged | - |")
    assert read_json(run.result("II-4 general.lr=0.001", "general"))["taught_together"] == 2, "all variants share the teacher"
    base, other = (read_json(run.result("search", f"{name} stsb-seed-0")) for name in ("II-4", "II-4 general.lr=0.001"))
    changed = [key for key in base["settings"] if base["settings"][key] != other["settings"][key]]
    assert changed == ["start"] and other["settings"]["start"]["general"]["lr"] == 1e-3
    data = load_task(spec_of(run, "stsb", 0.25))
    assert list(data.dev) == ["held_out"] and len(data.dev["held_out"]) == 10 and base["held_out"] == 0.25
    learnt = read_json(choosing_teacher(run, "stsb", silent) / "history.json")[-1]["data"]
    assert learnt == data.train.digest, "the teacher of a search has not seen the slice either"


def test_constant_students_and_those_below_their_floor_fail(run: Places) -> None:
    folder = run.home / "teachers" / "rte" / "seed-0"
    told = _told_of(folder, run.work / "still", lambda name, tensor: tensor * 0 if name.startswith("classifier") else tensor)
    assert any(re.match('constant: answers ".*" to all 16 rows', text) for text in told["failed"])
    folder = run.home / "teachers" / "stsb" / "seed-0"
    told = _told_of(folder, run.work / "turned", lambda name, tensor: -tensor if name.startswith("classifier") else tensor)
    right = _told_of(folder, run.work / "right", lambda _, tensor: tensor)
    [bad] = [each for each in (told, right) if each["headline"] < 0]
    assert bad["failed"] == [f"spearman {bad['headline']:.1f}, floor 0.0"]
    assert [each["failed"] for each in (told, right) if each["headline"] > 0] == [[]]


def _told_of(folder: Path, to: Path, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Any:
    """The scores of a model with other weights."""
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    held = load_file(folder / "model.safetensors")
    save_file({name: change(name, tensor) for name, tensor in held.items()}, to / "model.safetensors", {"format": "pt"})
    return tasks._scored(to, silent)


def failed(found: Places, *rows: str) -> Path:
    """The same results with these rows failed on rte, and every other one not."""
    for file in found.results.rglob("*-seed-*.json"):
        record = read_json(file)
        record["failed"] = ["accuracy 40.0, floor 50.0"] if record["task"] == "rte" and record["row"] in rows else []
        record["headline"] = 40.0 if record["failed"] else 60.0 + record["seed"]
        file.write_text(json.dumps(record), encoding="utf-8")
    return found.results


@pytest.fixture
def copied(run: Places, tmp_path: Path) -> Places:
    for file in run.results.rglob("*.json"):
        to = tmp_path / file.relative_to(run.results)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.read_bytes())
    return replace(run, results=tmp_path)


def test_the_summary_has_the_keys_that_were_promised(copied: Places, tmp_path: Path) -> None:
    results = failed(copied, "III-16")
    found = summary([copied.campaign], results)["pico bert"]
    assert {*found} == {*ROWS}
    for row, method in found.items():
        assert {*method} == {"retention", "tasks", "tokens", "matrices"}
        assert {*method["tasks"]} == {"rte", "stsb"} and 0 < method["matrices"] < 1
        assert all({*each} == {"scores", "teacher", "floor"} for each in method["tasks"].values())
        assert method["tokens"] == (0 if row == "II-4 start" else 10 * TOKENS)
    assert found["III-16"]["retention"] is None, "it failed on rte"
    assert found["II-4"]["retention"] is None, "a seed is missing"
    assert found["II-4 start"]["retention"] == pytest.approx(1.0)
    assert found["II-4 start"]["tasks"]["stsb"] == {"scores": [60.0, 61.0], "teacher": [60.0, 61.0], "floor": 0.0}
    write_summary([copied.campaign], results, tmp_path / "summary.json")
    assert read_json(tmp_path / "summary.json") == {"pico bert": found}
    with pytest.raises(TenfoldError, match="a summary is of results, got none"):
        write_summary([copied.campaign], tmp_path / "nothing", tmp_path / "summary.json")


def test_the_page_shows_what_was_run_and_marks_what_failed(copied: Places, tmp_path: Path) -> None:
    text = tables(copied.campaign, failed(copied, "III-16"))
    [line] = [line for line in text.splitlines() if line.startswith("| III-16 |")]
    assert "| 40.0 failed |" in line and "| 60.5 ± 0.7 (100.0%) | - | - |" in line
    assert re.match(r"\S.*: \d+\.\d minutes of processor time of general stages, \d+\.\d of teachers and task stages\. ", text)
    assert "- III-16, rte: accuracy 40.0, floor 50.0" in text and "stsb spearman 0.0" in text
    assert "| 60.2 | 100.0% |" in next(line for line in text.splitlines() if line.startswith("| II-4 start |"))
    page = tmp_path / "page.md"
    page.write_text("no place", encoding="utf-8")
    with pytest.raises(TenfoldError, match="the page has a place for every campaign with results, got none for paper"):
        write_page([copied.campaign], copied.results, page)
    marks = "\n".join(f"{BEGIN.format(name)}\nold\n{END}" for name in ("paper", "pico bert"))
    page.write_text(f"before\n{marks}\nafter", encoding="utf-8")
    write_page([copied.campaign], copied.results, page)
    first = page.read_text(encoding="utf-8")
    write_page([copied.campaign], copied.results, page)
    assert page.read_text(encoding="utf-8") == first and "old" not in first and text in first
    assert first.startswith("before\n") and first.endswith("\nafter")


def test_curves_come_with_their_numbers(copied: Places, tmp_path: Path) -> None:
    [path] = plot([copied.campaign], failed(copied, "III-16"), tmp_path)
    lines = path.with_suffix(".csv").read_text(encoding="utf-8").splitlines()
    assert path.with_suffix(".png").stat().st_size > 10_000 and len(lines) == 1 + 6
    assert lines[0] == "row,task,kept,minutes,share,failed"
    assert next(line for line in lines if line.startswith("III-16,rte")).endswith("0.6666666666666666,True")


def test_the_list_says_what_is_done(run: Places) -> None:
    lines = [line.split() for line in listing(run)]
    assert lines[0] == ["teachers", "fine-tuned", "rte", "1/1", "stsb", "2/2"]
    assert ["II-4", "0.0M", "tokens", "rte", "1/1", "stsb", "1/2"] in lines


def test_the_papers_rows_are_as_printed() -> None:
    rows = {row[0]: row[1:] for row in paper_rows()}
    assert rows["BERT-III-64"] == ["1.8M", "91.9", "85.5", "63.3", "80.7", "80.0", "96.7%"]
    assert rows["TinyBERT-IV-72-384"][-1] == "98.3%" and rows["BERT-base"][-1] == "100.0%"


def test_a_tree_goes_on_where_nothing_can_be_downloaded(here: Path, run: Places, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/some.whl").write_bytes(b"wheel")
    size = pack(run, ["II-4"], tmp_path / "tree", tmp_path / "wheels", True, silent)
    tree = tmp_path / "tree"
    assert size == sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    assert not [path for path in tree.rglob("*") if path.name in ("test.tsv", "__pycache__", "results")]
    assert (tree / "wheels/some.whl").is_file() and (tree / "tenfold/archs/bert.yaml").is_file()
    unpack(tree, silent)
    again = Places(run.campaign, tree, tree / "work", tmp_path / "results", tree / "work/models")
    stage, schedule = corpus_stage(run.campaign, "II-4"), start_of(run.campaign, "II-4").schedule
    ours, theirs = rows_of(run, stage, schedule, silent), rows_of(again, stage, schedule, silent)
    assert len(ours) == len(theirs) and all(torch.equal(ours[k]["input_ids"], theirs[k]["input_ids"]) for k in range(len(ours)))
    half = load_file(tree / "work/models/bert/model.safetensors")
    whole = load_file(here / "models/bert/model.safetensors")
    assert same(half, {name: tensor.half() for name, tensor in whole.items()})
    assert load_task(spec_of(again, "stsb")).train.digest == load_task(spec_of(run, "stsb")).train.digest
    assert student_file(again, "II-4").parent.is_dir() and (again.home / "teachers/stsb/seed-0/config.json").is_file()
    teach_all(again, ["II-4"], silent, FOREVER)
    assert read_json(again.result("II-4", "general"))["steps"] == 10
    told = (tree / "README.txt").read_text(encoding="utf-8")
    [file] = set(re.findall(r"benchmarks/campaigns/\S+\.yaml", told))
    assert load_campaign(str(tree / file)) == run.campaign
    with pytest.raises(TenfoldError, match="unpack takes a tree that pack made"):
        unpack(tmp_path, silent)


def ask(found: Places, here: Path, *words: str) -> int:
    """A verb of the command line for the campaign of `found`."""
    file = found.work / "campaign.yaml"
    file.write_text(found.campaign.model_dump_json(exclude_defaults=True), encoding="utf-8")
    verb, *rest = words
    where = ["--data", here / "data", "--work", found.work, "--models", here / "models", "--results", found.results]
    return main([verb, str(file), *rest, *map(str, where)], "")


def test_the_command_line(here: Path, run: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(run, here, "list") == 0
    assert "stsb 1/2" in capsys.readouterr().out
    assert ask(run, here, "tasks", "--minutes", "0") == SPENT
    assert "the same command goes on" in capsys.readouterr().err
    assert ask(run, here, "general", "--rows", "II-5") == 2
    assert capsys.readouterr().err == 'error: --rows names rows of the campaign, got "II-5": did you mean "II-4"?\n'
    assert ask(run, here, "tasks", "--rows", "III-16,II-4 start", "--tasks", "stsb") == 0
    assert ask(run, here, "teachers", "--tasks", "rte") == 0
    more = {**run.campaign.rows, "later": Row(compress={"method": "II-5"})}
    later = replace(run, campaign=run.campaign.model_copy(update={"rows": more}))
    assert ask(later, here, "tasks", "--rows", "later") == 2
    assert "run general --rows later" in capsys.readouterr().err
    assert ask(later, here, "tasks", "--tasks", "rte") == 0
    assert "later: its general stage is not over yet, passed over" in capsys.readouterr().err
    assert ask(run, here, "teachers", "--tasks", "rte") == 0
    assert "teacher of rte, seed 0: accuracy" in capsys.readouterr().err


def test_several_processes_take_a_cell_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool gets every cell once; a cell that fails is not swallowed."""
    seen: list[Any] = []

    class Pool:
        def __init__(self, jobs: int, mp_context: Any, initializer: Any) -> None:
            assert jobs == 3 and callable(initializer) and mp_context.get_start_method() == "spawn"

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def submit(self, work: Any, *cell: Any) -> Any:
            assert work is print
            seen.append(cell)
            return self

        def result(self) -> None:
            if len(seen) == 3:
                raise TenfoldError("one failed")

    monkeypatch.setattr(command, "ProcessPoolExecutor", Pool)
    with pytest.raises(TenfoldError, match="one failed"):
        command._each(3, print, [(1,), (2,), (3,)])
    assert seen == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rowss": {}}, 'a recipe key must be one that this version knows, got "rowss": did you mean "rows"?'),
        ({"teacher": {"keep": "best"}}, "never looks at dev, got keep"),
        ({"task": {"keep": "best"}}, "never looks at dev, got task, unlabelled or keep"),
        ({"tasks": {"SST-2": {}}}, "names tasks plainly, got SST-2: write sst2"),
        ({"general": {**DATA["general"], "warmup": 0.1}}, "takes no warmup, got one for III-16: see schedule"),
        ({"schedule": {"decai": 0.1}}, 'got "decai": did you mean "decay"?'),
        ({"rows": {"x": {}}}, "needs one of compress, layers and begin, got none or several for x"),
        ({"rows": {"x": {"begin": "x"}}}, "has a general stage and stands below it, got x for x"),
        ({"rows": {"x": {"compress": {"method": "II-4"}, "set": {"finetune.lr": 1}}}}, "got finetune.lr: write for example"),
        ({"rows": {"x": {"compress": {"method": "II-4", "text": "a"}}}}, "got text of its own for x: leave it out"),
        ({"search": {"row": "II-5", "tasks": ["stsb"], "factors": {}}}, "takes a row and tasks of its campaign, got II-5"),
        ({"search": {**SEARCH, "factors": {"task.lrr": [1]}}}, 'got "lrr": did you mean "lr"?'),
    ],
)
def test_a_campaign_is_read_strictly(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(message)):
        parse_campaign({**DATA, **changes})


def test_rivals_take_their_own_losses_and_rates(here: Path, run: Places) -> None:
    rows = {
        "kd": {"layers": "every-2", "rival": "kd", "general": False},
        "fast": {"layers": "every-2", "rival": "kd", "general": False, "set": {"task.lr": 1e-3}},
    }
    found = places(here, run.work.parent, rows=rows)
    student, teacher = folder_of(found, "kd", silent), run.home / "teachers/stsb/seed-0"
    stage = tasks._stage(found, "kd", student, teacher, spec_of(found, "stsb"), 0)
    assert [loss.name for loss in stage.losses or ()] == ["answers", "hard_labels"]
    assert (stage.lr, stage.lr_rest, stage.freeze_embeddings, stage.map) == (5e-5, 5e-5, False, "uniform")
    assert tasks._stage(found, "fast", student, teacher, spec_of(found, "stsb"), 0).lr == 1e-3


def test_a_student_that_diverged_is_a_failed_row(here: Path, run: Places, tmp_path: Path) -> None:
    """In the general stage, and on a task alone."""
    rows = {
        "wild": {"compress": {"method": "II-4"}, "set": {"general.lr": 1e30, "general.lr_rest": 1e30}},
        "wild task": {**ROWS["II-4"], "set": {"task.lr": 1e30}},
    }
    found = replace(places(here, run.work.parent, rows=rows), results=tmp_path)
    teach_all(found, ["wild", "wild task"], silent, FOREVER)
    texts = [teach_student(found, row, "rte", 0, silent, FOREVER)["failed"][0] for row in rows]
    assert texts[0].startswith("diverged in the general stage: the loss must stay finite")
    assert texts[1].startswith("diverged: ") and "finite" in texts[1]
    methods = summary([found.campaign], tmp_path)["pico bert"]
    assert all(method["retention"] is None and method["tasks"]["rte"]["scores"] == [] for method in methods.values())
    assert "| failed | - | - | - |" in tables(found.campaign, tmp_path)


def test_speed_is_against_the_originals_fastest_path(copied: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeding, "CPU", {"batches": [2], "lengths": [16], "repeats": 6})
    record = speeding.measure_speed(copied, "II-4", silent)
    assert record["speedup"]["best"] and record["speedup"]["estimate"] > 0 and record["cell"]["batch"] == 2
    [line] = [line for line in tables(copied.campaign, copied.results).splitlines() if line.startswith("| II-4 |")]
    assert f"| {record['speedup']['estimate']:.2f}x |" in line
    monkeypatch.setattr(speeding, "measure_folders", None)
    assert speeding.measure_speed(copied, "II-4", silent) == record


def test_pairs_out_of_the_corpus_are_taught_too(here: Path, run: Places) -> None:
    found = places(here, run.work.parent, rows={"II-4": {**ROWS["II-4"], "set": {"pairs.count": 24, "pairs.length": 6}}})
    file = unlabelled_pairs(found, "II-4", "stsb")
    assert file is not None and unlabelled_pairs(run, "II-4", "stsb") is None
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "sentence1\tsentence2" and len(lines) == 25
    assert all(0 < len(text.split()) <= 6 for line in lines for text in line.split("\t"))
    before = read_json(run.result("II-4", "stsb-seed-0"))
    taught = teach_student(replace(found, results=found.results / "pairs"), "II-4", "stsb", 0, silent, FOREVER)
    assert taught["hashes"]["student"] != before["hashes"]["student"] and taught["steps"] == before["steps"]
    assert any("24 more rows" in note for note in taught["notes"])
    many = places(here, run.work.parent, rows={"II-4": {**ROWS["II-4"], "set": {"pairs.count": 9999}}})
    with pytest.raises(TenfoldError, match="got 9999 of"):
        unlabelled_pairs(many, "II-4", "stsb")


def test_what_is_published_is_what_the_committed_results_give(tmp_path: Path) -> None:
    campaigns, results = [load_campaign(name) for name in shipped()], ROOT / "benchmarks/results/campaign"
    page = ROOT / "docs/results.md"
    (tmp_path / "page.md").write_bytes(page.read_bytes())
    write_page(campaigns, results, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    assert (read_json(ROOT / "benchmarks/results/summary.json") or {}) == summary(campaigns, results)


SHAPES = {"all-MiniLM-L6-v2": (6, 384), "all-MiniLM-L6-v2-cpu": (6, 384), "all-mpnet-base-v2": (12, 768), "e5-small": (12, 384)}
NAMED = {
    "all-mpnet-base-v2": "III-384 III-64 IV-72-384 IV-36-256 IV-36-128 IV-FFN-48-384 IV-SAN-24-384",
    "all-MiniLM-L6-v2": "II-64 III-192 IV-36-192 IV-36-128 III-64 III-48",
}


def test_campaigns_that_are_shipped_have_the_rows_that_were_asked_for() -> None:
    assert {*shipped()} == {*SHAPES}
    for name, rows in NAMED.items():
        campaign = load_campaign(name)
        assert {*rows.split()} <= {*campaign.rows} and {*campaign.tasks} == {"sst2", "mrpc", "rte", "stsb", "cola"}
        assert {row.rival for row in campaign.rows.values()} == {None, "kd", "tinybert"}
        assert task_stage(campaign, "III-64", "sst2").batch == 64


@pytest.mark.parametrize("name", [name for name in SHAPES if not name.endswith("-cpu")])
def test_private_and_mixed_rows_are_no_larger_than_the_shared_ones(name: str) -> None:
    layers, width = SHAPES[name]
    config = BertConfig(num_hidden_layers=layers, hidden_size=width, intermediate_size=4 * width)
    network, campaign = skeleton(Source("x", config)), load_campaign(name)
    kept: dict[str, list[int]] = {"shared": [], "private": [], "mixed": []}
    for row, asked in campaign.rows.items():
        compress = start_of(campaign, row).compress
        if compress is None or "-FFN-" in row or "-SAN-" in row or " " in row or row == "II-64":
            continue
        kind = "mixed" if "+" in row else "private" if row.startswith("II-") else "shared"
        assert asked.compress is not None and (compress.tile == "whole") == (kind == "private")
        kept[kind].append(plan_model(network, compress)[0].plan.kept("matrices"))
    for shared, mixed in zip(kept["shared"], kept["mixed"], strict=True):
        assert 0.97 * shared < mixed <= shared
        assert any(0.8 * shared < private <= shared for private in kept["private"])
