"""What a run does in which order, with whom as teacher, and what it does again after a kill. The verbs themselves stand in."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command import run
from distilling import LABELS, student_folder, write_table, write_text
from pico import save_folder

import tenfold.workflow.running
import tenfold.workflow.teaching
from tenfold.checkpoints import find
from tenfold.errors import OutputError, PlanError, TenfoldError
from tenfold.records import AGREEMENT, HISTORY, MEASUREMENT, SCORES, write_json
from tenfold.tasks import TaskSpec, load_task, write_task
from tenfold.workflow import Flow, load_flow, run_flow
from tenfold.workflow.teaching import answers

FACTS = {
    "method": "II-8",
    "parameters": {"matrices": {"before": 100, "after": 10, "ratio": 0.1}},
    "flops": {"length": 128, "before": 4e9, "after": 1e9, "ratio": 0.25},
}


class Verbs:
    """Stand-ins that leave what the verbs leave. `calls`: each with the names of the folders that it was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fail: str | None = None

    def note(self, verb: str, *rest: Any) -> None:
        if verb == self.fail:
            raise KeyboardInterrupt
        self.calls.append((verb, *(Path(str(each)).name for each in rest)))

    def folder(self, out: Path) -> None:
        out.mkdir(parents=True)
        (out / "model.safetensors").write_bytes(bytes(10))
        write_json(out / HISTORY, [{"verb": "compress", **FACTS}])

    def compress(self, model: str, out: Path, recipe: Any, *_: Any) -> None:
        self.note("compress", model, recipe.compress.text)
        self.folder(out)

    def distill(self, student: str, out: Path, teacher: str, stage: Any, **_: Any) -> None:
        self.note(stage.stage, student, teacher)
        self.folder(out)

    def finetune(self, model: str, out: Path, *_: Any, **__: Any) -> None:
        self.note("finetune", model)
        self.folder(out)

    def evaluate(self, folder: str, *_: Any, teacher: str, **__: Any) -> None:
        self.note("evaluate", folder, teacher)
        write_json(Path(folder) / SCORES, {"tasks": {}})

    def measure(self, compressed: str, original: str, settings: Any, **_: Any) -> Any:
        self.note("measure", compressed, original)
        return settings

    def write_measurement(self, folder: Path, measurement: Any) -> None:
        write_json(folder / MEASUREMENT, {"cells": [], "batches": measurement.batches})

    def agree(self, folder: Path, original: str, models: dict[str, Path], *_: Any) -> None:
        self.note("agree", original, *models)
        rows = [{"name": name, "cosine": 0.5, "rank_correlation": 0.4, "neighbours_kept": 0.3} for name in models]
        write_json(folder / AGREEMENT, {"sentences": 20, "rows": rows})

    def card(self, folder: Path) -> None:
        (folder / "README.md").write_text("card", encoding="utf-8")

    def page(self, folder: Path) -> None:
        self.note("report", folder)
        (folder / "report.html").write_text("page", encoding="utf-8")


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> Verbs:
    found = Verbs()
    stand_ins: dict[str, Callable[..., Any]] = {
        "compress_folder": found.compress, "distill_folder": found.distill, "evaluate_folder": found.evaluate,
        "measure_folders": found.measure, "write_measurement": found.write_measurement, "write_agreement": found.agree,
        "write_card": found.card, "write_report": found.page,
    }  # fmt: skip
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(tenfold.workflow.running, name, stand_in)
    monkeypatch.setattr(tenfold.workflow.teaching, "finetune_folder", found.finetune)
    return found


def with_head(path: Path, labels: dict[str, Any]) -> Path:
    return save_folder(path, head="sequence_classification", **labels)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    return {
        "bert": str(save_folder(folder / "bert")),
        "tuned": str(with_head(folder / "tuned", LABELS)),
        "text": str(write_text(folder / "wiki.txt")),
        "rows": str(write_table(folder / "rows.tsv", "classification")),
    }


@pytest.fixture
def both(data: dict[str, str]) -> dict[str, Any]:
    return {"model": data["bert"], "compress.to": "1/10", "general.text": data["text"], "data.train": data["rows"]}


def test_every_step_in_its_order(verbs: Verbs, both: dict[str, Any], data: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "small"
    flow = load_flow(None, both | {"agree.text": data["text"]})
    result = run_flow(flow, out)
    assert verbs.calls == [
        ("compress", "bert", "wiki.txt"),
        ("general", "compressed", "bert"),
        ("finetune", "bert"),
        ("task", "general", "teacher"),
        ("evaluate", "small", "teacher"),
        ("agree", "bert", "compressed", "compressed and taught"),
        ("measure", "small", "teacher"),
        ("report", "small"),
    ]
    steps = ["compressed", "general", "teacher", "task", "result", "scores", "agreement", "speed", "report"]
    assert list(result.seconds) == steps
    left = {"model.safetensors", "recipe.yaml", "README.md", "report.html", HISTORY, SCORES, MEASUREMENT, AGREEMENT}
    assert {path.name for path in out.iterdir()} == left
    assert load_flow(out / "recipe.yaml", {}) == flow
    assert (result.to_dict()["method"], result.bytes_after) == ("II-8", 10)
    assert not (tmp_path / "small.run").exists()


def test_text_alone_needs_no_teacher_but_the_model(verbs: Verbs, both: dict[str, Any], tmp_path: Path) -> None:
    del both["data.train"]
    result = run_flow(load_flow(None, both), tmp_path / "small")
    assert [call[0] for call in verbs.calls] == ["compress", "general", "measure", "report"]
    assert verbs.calls[2] == ("measure", "small", "bert")
    assert result.scores is None and result.agreement is None and result.measurement is not None


def test_what_is_left_out_is_not_done(verbs: Verbs, both: dict[str, Any], tmp_path: Path) -> None:
    del both["general.text"]
    result = run_flow(load_flow(None, both | {"measure": None, "report": False}), tmp_path / "small")
    assert verbs.calls == [
        ("compress", "bert", "None"),
        ("finetune", "bert"),
        ("task", "compressed", "teacher"),
        ("evaluate", "small", "teacher"),
    ]
    assert (result.measurement, result.report) == (None, None)
    assert result.to_dict()["report"] is None


def test_a_given_teacher_is_taken_as_it_is(verbs: Verbs, both: dict[str, Any], data: dict[str, str], tmp_path: Path) -> None:
    run_flow(load_flow(None, both | {"teacher": data["tuned"]}), tmp_path / "small")
    assert ("task", "general", "tuned") in verbs.calls
    assert ("measure", "small", "tuned") in verbs.calls
    assert "finetune" not in [call[0] for call in verbs.calls]


def test_a_model_that_answers_already_is_its_own_teacher(
    verbs: Verbs, both: dict[str, Any], data: dict[str, str], tmp_path: Path
) -> None:
    result = run_flow(load_flow(None, both | {"model": data["tuned"]}), tmp_path / "small")
    assert ("task", "general", "tuned") in verbs.calls
    assert result.notes == ()
    again = run_flow(load_flow(None, both | {"model": data["tuned"], "finetune.epochs": 1}), tmp_path / "other")
    assert again.notes == (f"{data['tuned']} answers the task already: the section finetune had nothing to do",)
    assert "finetune" not in [call[0] for call in verbs.calls]


@pytest.mark.parametrize("killed", ["general", "finetune", "task", "evaluate", "measure", "report"])
def test_a_killed_run_goes_on_where_it_was(killed: str, verbs: Verbs, both: dict[str, Any], tmp_path: Path) -> None:
    flow, out = load_flow(None, both), tmp_path / "small"
    verbs.fail = killed
    with pytest.raises(KeyboardInterrupt):
        run_flow(flow, out)
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["small.run"]
    verbs.fail = None
    result = run_flow(flow, out)
    done = [call[0] for call in verbs.calls]
    assert done == ["compress", "general", "finetune", "task", "evaluate", "measure", "report"], "each once"
    assert "compressed" in result.seconds and not (tmp_path / "small.run").exists()


def test_an_unfinished_run_of_another_recipe_is_refused(verbs: Verbs, both: dict[str, Any], tmp_path: Path) -> None:
    verbs.fail = "task"
    with pytest.raises(KeyboardInterrupt):
        run_flow(load_flow(None, both), tmp_path / "small")
    verbs.fail = None
    other = load_flow(None, both | {"compress.to": "1/20"})
    with pytest.raises(TenfoldError, match=r"small\.run holds an unfinished run of another recipe or model"):
        run_flow(other, tmp_path / "small")
    run_flow(other, tmp_path / "small", fresh=True)
    assert [call[0] for call in verbs.calls].count("compress") == 2


@pytest.mark.usefixtures("verbs")
def test_the_models_on_the_way_can_be_kept(both: dict[str, Any], tmp_path: Path) -> None:
    run_flow(load_flow(None, both), tmp_path / "small", keep=True)
    kept = {path.name for path in (tmp_path / "small.run").iterdir() if path.is_dir()}
    assert kept == {"compressed", "general", "teacher", "task", "result"}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": "./nowhere"}, r"MODEL must be a folder, a config\.json or a hub name, got \./nowhere"),
    ({"general.text": "nowhere.txt"}, r"text must be a file, a folder, a glob or datasets:NAME, got nowhere\.txt"),
    ({"compress.text": "nowhere.txt"}, r"text must be a file, a folder, a glob or datasets:NAME, got nowhere\.txt"),
    ({"agree.text": "nowhere.txt"}, r"text must be a file, a folder, a glob or datasets:NAME, got nowhere\.txt"),
    ({"data.train": "nowhere.csv"}, r"nowhere\.csv"),
    ({"data.label_column": "stars"}, "stars"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_what_cannot_end_well_does_not_begin(
    wrong: dict[str, Any], message: str, verbs: Verbs, both: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(TenfoldError, match=message) as caught:
        run_flow(load_flow(None, both | wrong), tmp_path / "small")
    assert "\n" not in str(caught.value)
    assert not verbs.calls and not list(tmp_path.iterdir())


def test_a_teacher_that_does_not_answer_is_refused_at_once(
    verbs: Verbs, both: dict[str, Any], data: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(TenfoldError, match=r"a teacher must answer the task own, got .*bert, which has no head"):
        run_flow(load_flow(None, both | {"teacher": data["bert"]}), tmp_path / "small")
    assert not verbs.calls


def test_an_out_that_exists_is_refused(verbs: Verbs, both: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    with pytest.raises(OutputError, match="the output folder must not exist"):
        run_flow(load_flow(None, both), tmp_path / "small")
    assert not verbs.calls


def test_a_model_that_is_compressed_already_is_refused(both: dict[str, Any], tmp_path: Path) -> None:
    folder = student_folder(tmp_path / "student")
    with pytest.raises(PlanError, match="compression starts from dense weights"):
        run_flow(load_flow(None, both | {"model": str(folder)}), tmp_path / "small")


def test_several_processes_are_for_the_stages(both: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TenfoldError, match="a run is one process, got 2: start tenfold distill with torchrun"):
        run_flow(load_flow(None, both), tmp_path / "small")


def test_which_models_answer_a_task(data: dict[str, str], tmp_path: Path) -> None:
    task = load_task(TaskSpec(train=data["rows"])).task
    assert task.labels == ("no", "yes")
    assert answers(find(data["tuned"], weights=True), task)
    assert not answers(find(data["bert"], weights=True), task)
    other = LABELS | {"id2label": {0: "yes", 1: "no"}, "label2id": {"yes": 0, "no": 1}}
    turned = with_head(tmp_path / "turned", other)
    assert not answers(find(str(turned), weights=True), task), "the same classes in another order"
    assert answers(find(data["bert"], weights=True), replace(task, kind="embedding", labels=())), "vectors need no head"
    made = with_head(tmp_path / "made", {})
    write_task(made, task, TaskSpec(train="elsewhere.csv"))
    assert answers(find(str(made), weights=True), task)
    assert not answers(find(str(made), weights=True), replace(task, columns=("text",))), "made for pairs"


@pytest.mark.usefixtures("verbs")
def test_the_command_line_says_all_without_a_recipe(data: dict[str, str], tmp_path: Path) -> None:
    words: list[object] = ["run", "--model", data["bert"], "--to", "1/10", "--text", data["text"], "--train", data["rows"]]
    done = run(*words, "--seed", 5, "--json", tmp_path / "small")
    assert (done.code, done.err) == (0, "")
    assert done.data["seconds"].keys() >= {"compressed", "general", "teacher", "task", "scores", "speed"}
    flow = load_flow(tmp_path / "small/recipe.yaml", {})
    assert (flow.compress.to, flow.compress.seed) == ("1/10", 5)
    assert isinstance(flow, Flow) and flow.general is not None and flow.general.seed == 5


@pytest.mark.usefixtures("verbs")
def test_options_win_over_the_recipe_and_a_person_can_read_the_result(data: dict[str, str], tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"version: 1\nmodel: nowhere\ncompress: {{method: III-8}}\ngeneral: {{text: {data['text']}}}\ndata: {{task: rte}}\n"
        f"agree: {{text: {data['text']}}}\n",
        encoding="utf-8",
    )
    done = run("run", recipe, tmp_path / "small", "--model", data["bert"], "--to", "1/5", "--train", data["rows"])
    assert (done.code, done.err) == (0, "")
    flow = load_flow(tmp_path / "small/recipe.yaml", {})
    assert (flow.compress.method, flow.compress.to, flow.measure) == (None, "1/5", None)
    assert flow.data is not None and (flow.data.task, flow.data.train) == (None, data["rows"])
    assert "II-8" in done.out and "1.00 G" in done.out and "0.500" in done.out and "report.html" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("recipe.yaml",), "run takes a recipe and the folder to make, got recipe.yaml alone: tenfold run recipe.yaml OUT"),
        (
            ("a.yaml", "small", "c.txt"),
            "run takes a recipe and the folder to make, got 3 paths: quote globs, and leave out c.txt",
        ),
        (("nowhere.yaml", "small"), "a recipe must be a readable file, got nowhere.yaml: No such file or directory"),
        (("small",), "a run needs a model, got none"),
        (("--model", "bert", "--text", "wiki.txt", "small"), "a run needs a method or a size, got neither"),
        (("--model", "bert", "--to", "1/10", "small"), "a run teaches, got neither text nor labelled rows"),
        (("--model", "b", "--to", "1/10", "--method", "III-8", "--text", "x", "small"), "got III-8 and 1/10: leave out"),
        (
            ("--model", "b", "--to", "1/9", "--text", "x", "--set", "general.lrr=1", "small"),
            'got "general.lrr": did you mean "lr"',
        ),
    ],
)
def test_a_mistake_is_one_line(words: tuple[str, ...], message: str) -> None:
    done = run("run", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("tenfold: ") and done.err.count("\n") == 1
    assert message in done.err
