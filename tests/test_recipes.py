"""Every recipe that is shipped: it parses, has the size that its first lines say, and runs on a pico model."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from distilling import write_table, write_text
from pico import save_folder
from transformers import BertConfig

from tenfold.checkpoints import Source, skeleton
from tenfold.planning import Plan, plan_model
from tenfold.workflow import Flow, load_flow, run_flow

ROOT = Path(__file__).parents[1] / "recipes"
RECIPES = sorted(path for path in ROOT.rglob("*.yaml") if path.parent.name != "ablations")
PAPER = sorted(ROOT.glob("paper/*.yaml"))
LAYERS = {"bert-base-uncased": 12, "huawei-noah/TinyBERT_General_6L_768D": 6}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT).with_suffix(""))


@cache
def model(layers: int) -> Any:
    return skeleton(Source("bert", BertConfig(num_hidden_layers=layers)))


def planned(flow: Flow) -> Plan:
    assert flow.model is not None
    return plan_model(model(LAYERS[flow.model]), flow.compress)[0].plan


def test_there_is_one_for_each_setting_of_the_paper_and_for_the_presets() -> None:
    rows = "III-64 III-384 IV-36-128 IV-36-256 IV-72-384 IV-FFN-48-384 IV-SAN-24-384 ALBERT II-245"
    assert {path.stem for path in PAPER} == {*rows.split(), "TinyBERT-IV-72-256", "TinyBERT-IV-72-384"}
    stages = [stage for path in RECIPES for stage in (load_flow(path, {}).general, load_flow(path, {}).task) if stage]
    assert {stage.preset for stage in stages} == {"paper", "tenfold"}


@pytest.mark.parametrize("path", PAPER, ids=name)
def test_a_paper_recipe_has_the_parameters_that_its_first_line_says(path: Path) -> None:
    said = re.search(r"([\d.]+)M parameters outside the word table", path.read_text(encoding="utf-8"))
    assert said is not None
    assert f"{planned(load_flow(path, {})).kept('paper') / 1e6:.1f}" == said[1]
    assert path.stem.endswith(load_flow(path, {}).compress.method or "?")


@pytest.mark.parametrize("path", [path for path in RECIPES if path not in PAPER], ids=name)
def test_a_recipe_of_ours_keeps_the_share_that_it_names(path: Path) -> None:
    flow = load_flow(path, {})
    assert flow.compress.to is not None
    asked = 1 / int(flow.compress.to.removeprefix("1/"))
    plan = planned(flow)
    assert 0.97 * asked < plan.ratio(flow.compress.of) <= asked
    assert "+" in plan.method, "shared + private: what ended closest"


def test_the_papers_recipes_differ_in_model_and_method_alone() -> None:
    changed = {"model": "x", "compress.method": "III-64", "compress.tile": "square"}
    assert len({load_flow(path, changed).model_dump_json() for path in PAPER}) == 1


def test_the_papers_protocol_is_its_codes() -> None:
    """lr 1e-4, warm-up 0.1, weight decay 0.01, length 128, batch 256; its text: rates 1e-5 and 2e-5, batches 16 and 32."""
    flow = load_flow(PAPER[0], {})
    assert flow.general is not None and flow.finetune is not None and flow.task is not None
    stage = flow.general.resolved()
    assert (stage.lr, stage.lr_rest, stage.warmup, stage.weight_decay, stage.batch) == (1e-4, 1e-4, 0.1, 0.01, 256)
    assert stage.corpus.length == 128
    assert stage.phases is not None
    assert [(loss.name, loss.layers) for loss in stage.phases[0].losses] == [("hidden", "last"), ("scores", "last")]
    assert (flow.finetune.lr, flow.finetune.batch) == ((1e-5, 2e-5), (16, 32))
    assert flow.task.augment is not None
    assert (flow.task.augment.p, flow.task.augment.candidates) == (0.4, 15)
    assert flow.compress.init == "hooi"


def test_factors_get_the_rates_that_suit_them() -> None:
    """Ours in the general stage: 4e-3 for factors, half for the rest; a fortieth of that, the paper's, loses much."""
    flow = load_flow(ROOT / "tenfold.yaml", {})
    assert flow.general is not None and flow.task_stage is not None
    general, task = flow.general.resolved(), flow.task_stage.resolved()
    assert (general.lr, general.lr_rest) == (4e-3, 2e-3)
    assert task.lr is not None and task.lr >= 1e-3
    assert flow.start.text == flow.general.text, "the start sees activations on the text that is learnt from"


@pytest.fixture(scope="module")
def pico_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What takes the place of a recipe's model and data: as few steps as show that every section is read."""
    folder = tmp_path_factory.mktemp("recipes")
    stage = {"batch": 8, "evaluations": 1}
    return {
        "model": str(save_folder(folder / "bert", head="masked_lm")),
        "general": {"text": str(write_text(folder / "wiki.txt")), "tokens": 1024, "held_out": 8, "length": 32} | stage,
        "data": {"train": str(write_table(folder / "rows.tsv", "classification")), "task": None, "length": 32},
        "finetune": {"epochs": 0.5},
        "task": {"epochs": 0.3} | stage,
        "measure": {"batches": [1], "lengths": [16], "max_seconds": 0.1},
    }


def swapped(path: Path, data: dict[str, Any]) -> Flow:
    """The recipe at pico's size: ranks of 768 become ranks of 32, banks of 144 tiles banks of 24; its sections stay."""
    flow = load_flow(path, {})
    method = re.sub(r"\d+$", lambda found: str(int(found[0]) // 24), flow.compress.method or "")
    method = re.sub(r"-(\d+)-", lambda found: f"-{int(found[1]) // 6}-", method)
    changes: dict[str, Any] = {"model": data["model"]} | ({"compress.method": method} if method else {"compress.to": "1/2"})
    for section in ("general", "data", "finetune", "task", "measure"):
        if getattr(flow, section) is not None:
            changes |= {f"{section}.{key}": value for key, value in data[section].items()}
    if flow.task is not None:
        changes |= {"task.augment.copies": 1}
    return load_flow(path, changes)


@pytest.mark.parametrize("path", PAPER, ids=name)
def test_a_paper_recipes_method_fits_pico(path: Path, pico_data: dict[str, Any]) -> None:
    from tenfold.checkpoints import find

    small = plan_model(skeleton(find(pico_data["model"], weights=True)), swapped(path, pico_data).compress)[0].plan
    assert small.method != load_flow(path, {}).compress.method or path.stem == "ALBERT"
    assert small.ratio("matrices") < 0.9


@pytest.mark.parametrize("path", [ROOT / "paper/IV-36-128.yaml", ROOT / "tenfold.yaml", ROOT / "general.yaml"], ids=name)
def test_a_recipe_runs(path: Path, pico_data: dict[str, Any], tmp_path: Path) -> None:
    """One of the paper's stands for all: the others have another method."""
    flow = swapped(path, pico_data)
    result = run_flow(flow, tmp_path / "out")
    assert (result.scores is not None) == (flow.data is not None)
    assert result.measurement is not None and result.report is not None
    assert load_flow(tmp_path / "out/recipe.yaml", {}) == flow
    assert not (tmp_path / "out.run").exists()
