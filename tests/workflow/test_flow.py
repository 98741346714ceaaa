"""A whole recipe is checked as one, before anything is done."""

from pathlib import Path
from typing import Any

import pytest

from tenfold.errors import TenfoldError
from tenfold.workflow.recipe import Flow, Measure, dump_flow, load_flow

BASE: dict[str, Any] = {"model": "here", "compress.to": "1/10", "general.text": "wiki.txt"}
ROWS: dict[str, Any] = {"model": "here", "compress.to": "1/10", "data.train": "rows.csv"}


def test_a_run_on_text_alone_and_one_on_rows_alone() -> None:
    text, rows = load_flow(None, BASE), load_flow(None, ROWS)
    assert text.general is not None and text.task_stage is None
    assert rows.general is None and rows.task_stage is not None
    assert (rows.task_stage.stage, rows.task_stage.task) == ("task", rows.data)
    assert rows.task_stage.resolved().phases


def test_a_section_that_is_left_out_is_left_out_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("version: 1\nmodel: here\ncompress: {to: 1/10}\ngeneral: {text: wiki.txt}\n", encoding="utf-8")
    flow = load_flow(path, {})
    assert (flow.measure, flow.agree, flow.data, flow.task_stage, flow.report) == (None, None, None, None, True)
    assert load_flow(path, {"measure.batches": [4]}).measure == Measure(batches=(4,))


def test_without_a_recipe_speed_is_measured_unless_told_otherwise() -> None:
    assert load_flow(None, BASE).measure == Measure()
    assert load_flow(None, BASE | {"measure.batches": [4]}).measure == Measure(batches=(4,))
    assert load_flow(None, BASE | {"measure": None}).measure is None


def test_the_start_looks_at_the_general_stages_text() -> None:
    flow = load_flow(None, BASE | {"general.key": "body", "general.length": 64})
    assert (flow.start.text, flow.start.key, flow.start.length) == ("wiki.txt", "body", 64)
    assert load_flow(None, BASE | {"general.length": 64, "compress.length": 32}).start.length == 32
    assert load_flow(None, BASE).start.length == 128
    assert load_flow(None, BASE | {"compress.text": "other.txt"}).start.text == "other.txt"
    assert load_flow(None, BASE | {"compress.init": "hosvd"}).start.text is None
    assert load_flow(None, ROWS).start.text is None


def test_one_seed_goes_everywhere() -> None:
    flow = load_flow(None, BASE | ROWS | {"task.augment": {}, "finetune.epochs": 1}).seeded(7)
    assert flow.general is not None and flow.task is not None and flow.task.augment is not None
    assert flow.data is not None and flow.finetune is not None and flow.measure is not None
    seeds = (flow.compress, flow.general, flow.task, flow.task.augment, flow.data, flow.finetune, flow.measure)
    assert [section.seed for section in seeds] == [7] * len(seeds)
    assert load_flow(None, ROWS).seeded(7).finetune_settings.seed == 7


@pytest.mark.parametrize("given", [BASE, ROWS, BASE | ROWS | {"task.augment": {}, "report": False, "agree.text": "x"}])
def test_what_out_holds_can_be_run_again(given: dict[str, Any], tmp_path: Path) -> None:
    flow = load_flow(None, given).seeded(3)
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_flow(flow), encoding="utf-8")
    assert load_flow(path, {}) == flow
    assert path.read_text(encoding="utf-8").startswith("version: 1\n")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (BASE | {"model": None}, r"a run needs a model, got none: name one in the recipe \(model:\) or with --model"),
        (BASE | {"compress.to": None}, "a run needs a method or a size, got neither: give compress.method or compress.to"),
        (BASE | {"compress.method": "III-8"}, "a run takes a method or a size, got III-8 and 1/10: leave out compress.method"),
        ({"model": "here", "compress.to": "1/10"}, "a run teaches, got neither text nor labelled rows: give --text or --train"),
        (BASE | {"task.epochs": 1}, "task is about labelled rows, got none: name them under data"),
        (BASE | {"teacher": "there"}, "teacher is about labelled rows, got none: name them under data"),
        (BASE | {"finetune.epochs": 1}, "finetune is about labelled rows, got none: name them under data"),
        (ROWS | {"task.task": {"task": "rte"}}, r"a recipe names its task under data, got task\.task as well: leave that out"),
        (ROWS | {"teacher": "there", "finetune.epochs": 1}, "got finetune and the teacher there: leave one of them out"),
        (ROWS | {"finetune.seeds": 3}, r"a run makes one model, got finetune\.seeds 3: several seeds are for tenfold finetune"),
        (BASE | {"general.stage": "task"}, r"the section general holds a general stage, got general\.stage task"),
        (ROWS | {"task.stage": "general"}, r"the section task holds a task stage, got task\.stage general"),
        (BASE | {"general.text": None, "general.tokens": 5}, "the general stage learns from text, got none: give --text FILE"),
        (BASE | {"general.epochs": 5}, "the general stage takes no epochs, got one: leave it out"),
        (ROWS | {"task.text": "wiki.txt"}, "the task stage takes no text, got one: leave it out"),
        (BASE | {"measure.paths": ["fast"]}, 'a path must be one of .*, got "fast"'),
        (BASE | {"measure.dtypes": ["float23"]}, 'a dtype must be one of .*, got "float23": did you mean "float32"'),
        (BASE | {"version": 2}, "the recipe key version is wrong: .*1, got 2"),
        (BASE | {"generl.tokens": 5}, 'got "generl": did you mean "general"'),
        (BASE | {"general.tokns": 5}, 'got "general.tokns": did you mean "tokens"'),
        (BASE | {"agree.txt": "x"}, 'got "agree.txt": did you mean "text"'),
        (BASE | {"measure.batch": [1]}, 'got "measure.batch": did you mean "batches"'),
        (ROWS | {"finetune.epoch": 1}, 'got "finetune.epoch": did you mean "epochs"'),
        (ROWS | {"task.augment": {"copy": 1}}, 'got "task.augment.copy": did you mean "copies"'),
        (ROWS | {"data.label": "x"}, 'got "data.label": did you mean "label_column"'),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TenfoldError, match=message) as caught:
        load_flow(None, given)
    assert "\n" not in str(caught.value)


def test_every_section_is_strict_and_cannot_be_changed() -> None:
    for name, field in Flow.model_fields.items():
        sections = [
            part for part in (field.annotation, *getattr(field.annotation, "__args__", ())) if hasattr(part, "model_config")
        ]
        for section in sections:
            assert section.model_config.get("extra") == "forbid", name
            assert section.model_config.get("frozen") is True, name
