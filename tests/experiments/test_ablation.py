"""tenfold ablate: cells worked out of a recipe, the recipes that are shipped, and the paper's three stages on a pico model."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ran, run
from distilling import write_text
from glue_files import write_task_files
from pico import save_folder
from safetensors.torch import load_file
from transformers import BertConfig

from tenfold.checkpoints import Source, skeleton
from tenfold.errors import RecipeError
from tenfold.experiments.ablation import STAGES, Ablation, load_ablation, variants
from tenfold.planning import plan_model
from tenfold.records import history, read_json

RECIPES = sorted((Path(__file__).parents[2] / "recipes/ablations").glob("*.yaml"))
GIVEN: dict[str, Any] = {"data": [{"task": "rte"}], "compress.method": "III-8"}
QUICK = ["task.batch=8", "task.epochs=1", "task.evaluations=1", "finetune.epochs=1", "finetune.batch=[8]", "compress.length=32"]
QUICK += ["general.batch=8", "general.length=32", "general.held_out=4", "general.evaluations=1", "general.tokens=512"]


def ablation(**changes: Any) -> Ablation:
    return load_ablation(None, {**GIVEN, **{key.replace("__", "."): value for key, value in changes.items()}})


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_shipped_recipe_fits_bert_base(path: Path) -> None:
    recipe = load_ablation(path, {"data": [{"task": "rte"}], "general.text": "wiki.txt"})
    model = skeleton(Source("bert", BertConfig()))
    sizes = {cell.name: plan_model(model, cell.compress)[0].plan.kept("matrices") for cell in variants(recipe)}
    assert len(sizes) >= 3
    assert all(size < 85_000_000 for size in sizes.values())
    changes = {cell.changes for cell in variants(recipe)}
    if "compress.method" in {key for keys in changes for key in keys}:
        assert len({*sizes.values()}) == len(sizes)


def test_the_recipes_are_those_of_the_paper() -> None:
    assert {path.stem for path in RECIPES} == {"stages", "sites", "start", "bank-and-rank"}
    by_name = {path.stem: load_ablation(path, {"data": [{"task": "rte"}], "general.text": "x"}) for path in RECIPES}
    assert by_name["stages"].cells == STAGES
    assert [cell.compress.method for cell in variants(by_name["sites"])] == ["IV-FFN-48-384", "IV-SAN-24-384", "IV-72-384"]
    assert [cell.compress.init for cell in variants(by_name["start"])] == ["random", "hosvd", "hooi", "activation"]


def test_the_stages_are_what_is_run_without_cells() -> None:
    found = variants(ablation(general__text="wiki.txt"))
    assert [(each.name, each.finish, each.general is not None) for each in found] == [
        ("GD+TD", "distill", True),
        ("GD+fine-tune", "finetune", True),
        ("fine-tune", "finetune", False),
    ]
    assert {each.compress.text for each in found} == {"wiki.txt"}, "the same start for all of them"


def test_a_sweep_is_every_combination() -> None:
    found = variants(ablation(sweep={"compress.init": ["random", "hosvd"], "task.lr": [1e-3, 1e-4]}))
    names = ["init=random lr=0.001", "init=random lr=0.0001", "init=hosvd lr=0.001", "init=hosvd lr=0.0001"]
    assert [each.name for each in found] == names
    assert [(each.compress.init, each.task.lr) for each in found][1] == ("random", 1e-4)
    assert {(each.finish, each.general) for each in found} == {("distill", None)}


def test_cells_and_a_sweep_multiply() -> None:
    cells = {"a": {"set": {"task.preset": "paper"}}, "b": {"finish": "finetune"}}
    found = variants(ablation(cells=cells, sweep={"compress.init": ["random", "hosvd"]}))
    assert [each.name for each in found] == ["a init=random", "a init=hosvd", "b init=random", "b init=hosvd"]
    assert [each.task.preset for each in found] == ["paper", "paper", "tenfold", "tenfold"]


def test_a_size_takes_the_place_of_a_method() -> None:
    found = variants(ablation(sweep={"compress.to": ["1/2", "1/4"]}))
    assert [(each.compress.method, each.compress.to) for each in found] == [(None, "1/2"), (None, "1/4")]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"data": []}, "got none: name tasks"),
        ({"compress.method": None}, "got neither for GD"),
        ({"cells": {"a": {"general": True}}}, "give --text"),
        ({"sweep": {"compress.init": ["random", "activation"]}}, r"\(the cell init=activation\) needs text"),
        ({"cells": {"a": {"finsh": "distill"}}}, 'did you mean "finish"'),
        ({"cells": {"a": {"set": {"seeds": 3}}}}, "got seeds"),
        ({"cells": {"a": {"set": {"compress.mehtod": "III-8"}}}}, 'did you mean "method"'),
        ({"sweep": {"compress.init": ["random", "randm"]}}, "init is wrong"),
        ({"sweep": {"compress.init": ["random", "random"]}}, "got one twice"),
        ({"sweep": {"compress.method": ["III-8", "III-4"]}}, "sets compress.method itself"),
        ({"finetune.seeds": 2}, "leave them out there"),
        ({"task.task": {"task": "rte"}}, "leave them out there"),
        ({"swep": {}}, 'did you mean "sweep"'),
    ],
)
def test_what_an_ablation_may_not_say(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        load_ablation(None, {**GIVEN, **changes})


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    save_folder(folder / "bert", "bert")
    write_text(folder / "wiki.txt")
    write_task_files(folder / "glue", "rte", {"train": 32, "dev": 16, "test": 4})
    return folder


def arguments(given: Path, out: Path, *settings: str, text: bool = True) -> list[object]:
    quick = [key for key in QUICK if text or not key.startswith("general")]
    words: list[object] = [
        "ablate",
        given / "bert",
        out,
        "--method",
        "III-12",
        *(["--text", given / "wiki.txt"] if text else []),
    ]
    return [*words, *(word for key in (*quick, *settings) for word in ("--set", key))]


def glue(given: Path) -> list[object]:
    return ["--tasks", "rte", "--data-dir", given / "glue"]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def stages(given: Path) -> tuple[Path, Any]:
    return given / "stages", ran(*arguments(given, given / "stages"), *glue(given), "--json").data


def test_the_three_stages(stages: tuple[Path, Any]) -> None:
    """Every cell has gone through what its name says, from one compressed model and one stage on text."""
    out, record = stages
    assert [row["name"] for row in record["rows"]] == ["teacher", "GD+TD", "GD+fine-tune", "fine-tune"]
    verbs = {
        row["name"]: [entry["verb"] for entry in history(out / row["folder"] / "rte/seed-0")] for row in record["rows"][1:]
    }
    assert verbs == {
        "GD+TD": ["compress", "distill", "distill"],
        "GD+fine-tune": ["compress", "distill", "finetune"],
        "fine-tune": ["compress", "finetune"],
    }
    starts = sorted(path.name for path in (out / "starts").iterdir())
    assert len(starts) == 2 and starts[1].startswith(f"{starts[0]}-general-")
    assert record["left"] == [] and record["title"] == "the stages of distillation"
    models = [weights(out / f"cells/{name}/rte/seed-0") for name in ("GD+TD", "GD+fine-tune", "fine-tune")]
    assert all(any(not torch.equal(a[key], b[key]) for key in a) for a, b in pairwise(models))


def test_constant_students_are_named(stages: tuple[Path, Any]) -> None:
    out, record = stages
    for row in record["rows"][1:]:
        seeds = read_json(out / row["folder"] / "scores.json")["tasks"]["rte"]["splits"]["dev"]["seeds"]
        assert [bool(each["constant"]) for each in seeds] == [bool(row["scores"]["rte"]["dev"]["constant"])]
        told = any(text.startswith(f"{row['name']}: rte dev: rte/seed-0 answers") for text in record["warnings"])
        assert told == bool(seeds[0]["constant"])


def test_more_cells_are_added_to_what_is_there(stages: tuple[Path, Any], given: Path) -> None:
    """The compressed models and the teacher are used again; a cell of the same name with other settings is refused."""
    out, _ = stages
    before = {path: path.stat().st_mtime_ns for path in out.rglob("model.safetensors")}
    words = [*arguments(given, out, "sweep={task.lr: [1.0e-3, 1.0e-4]}", text=False), *glue(given)]
    told = ran(*words, "--json").data
    assert [row["name"] for row in told["rows"]] == ["teacher", "lr=0.001", "lr=0.0001"]
    after = {path: path.stat().st_mtime_ns for path in out.rglob("model.safetensors")}
    assert {path: after[path] for path in before} == before
    rates = [history(out / f"cells/{row['name']}/rte/seed-0")[-1]["settings"]["lr"] for row in told["rows"][1:]]
    assert rates == [1e-3, 1e-4]
    refused = run(*words, "--set", "compress.seed=7")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "made with other settings" in refused.err


def test_all_rows_are_read_before_any_work(given: Path, tmp_path: Path) -> None:
    words = arguments(given, tmp_path / "out", text=False)
    done = run(*words, "--tasks", "rte,wnli", "--data-dir", given / "glue", "--set", "cells={td: {}}")
    assert (done.code, "must hold WNLI/" in done.err) == (2, True), done.err
    assert not (tmp_path / "out").exists()


def test_own_rows(given: Path, tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    lines = [f"a {'good' if i % 2 else 'bad'} film {i},{'yes' if i % 2 else 'no'}" for i in range(40)]
    table.write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    words = [*arguments(given, tmp_path / "out", "cells={td: {}, ft: {finish: finetune}}", text=False), "--train", table]
    told = ran(*words, "--seeds", 2, "--json").data
    assert [*told["tasks"]] == ["reviews"]
    assert {path.name for path in (tmp_path / "out/cells/ft/reviews").iterdir()} == {"seed-0", "seed-1"}
    assert [row["scores"]["reviews"]["dev"]["std"] is not None for row in told["rows"]] == [False, True, True]
    seeds = [history(tmp_path / f"out/cells/ft/reviews/seed-{k}")[-1]["seed"] for k in (0, 1)]
    assert seeds == [0, 1]
    assert run(*words, "--tasks", "rte").code == 2
