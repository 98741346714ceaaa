"""A stage as the user writes it: presets, what goes with which stage, mistakes."""

from typing import Any

import pytest

from tenfold.distillation.stage import PRESETS, Stage, parse_stage
from tenfold.errors import RecipeError, TenfoldError

TEXT = {"text": "wiki.txt"}
TASK = {"stage": "task", "task": {"task": "rte"}}


def resolved(**data: Any) -> Stage:
    return parse_stage(data).resolved()


@pytest.mark.parametrize(("stage", "preset"), PRESETS)
def test_a_preset_fills_in_everything_that_was_left_out(stage: str, preset: str) -> None:
    found = resolved(**(TEXT if stage == "general" else TASK), preset=preset)
    assert found.phases and all((found.batch, found.lr, found.lr_rest)) and found.warmup is not None
    assert found.model_dump(include=set(PRESETS[stage, preset])) == Stage(**PRESETS[stage, preset]).model_dump(
        include=set(PRESETS[stage, preset])
    )
    assert found.resolved() == found


def test_what_is_given_goes_before_the_preset() -> None:
    found = resolved(**TEXT, preset="paper", lr=0.5, losses=[{"name": "relations", "layers": [1, 2], "heads": 4}])
    [phase] = found.phases or ()
    assert (found.lr, found.lr_rest, found.batch) == (0.5, 1e-4, 256)
    assert [(loss.name, loss.layers, loss.options) for loss in phase.losses] == [("relations", (1, 2), {"heads": 4})]


def test_a_length_is_the_tasks_too() -> None:
    found = resolved(**TASK, length=48)
    assert found.task is not None and found.task.length == 48


def test_the_papers_task_stage_has_two_parts() -> None:
    first, second = resolved(**TASK, preset="paper").phases or ()
    assert [loss.name for loss in first.losses] == ["hidden", "scores"] and first.decay == "constant"
    assert [loss.name for loss in second.losses] == ["answers"] and second.decay == "linear"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({}, "the general stage learns from text, got none: give --text FILE"),
        ({"stage": "task"}, r"the task stage needs a task, got none: name one \(--task rte\)"),
        ({"stage": "both"}, "the recipe key stage is wrong"),
        (TEXT | {"task": {"task": "rte"}}, "the general stage takes no task, got one: leave it out, or make it --stage task"),
        (TEXT | {"epochs": 3}, "the general stage takes no epochs"),
        (TASK | {"tokens": 5}, "the task stage takes no tokens"),
        (TEXT | {"losses": [{"name": "hiden"}]}, 'a loss must be one that exists, got "hiden": did you mean "hidden"'),
        (TEXT | {"losses": [{"name": "answers"}]}, 'the loss "answers" needs a task, got the general stage'),
        (TEXT | {"losses": [{"name": "hard_labels"}]}, 'the loss "hard_labels" needs a task'),
        (TEXT | {"losses": [{"name": "hidden", "temperature": 2}]}, "an option must be one that its loss takes"),
        (TEXT | {"losses": [{"name": "hidden", "wieght": 2}]}, 'got "losses.0.wieght": did you mean "weight"'),
        (TEXT | {"losses": []}, "a phase needs at least one loss, got none"),
        (TEXT | {"losses": [{"name": "hidden"}], "phases": [{"local": True}]}, "either losses or phases, got both"),
        (TEXT | {"phases": [{"local": True, "losses": [{"name": "hidden"}]}]}, "a local phase compares blocks only"),
        (TEXT | {"phases": [{"local": True, "shares": 1}]}, 'got "phases.0.shares": did you mean "share"'),
        (TASK | {"task": {"tusk": "rte"}}, 'got "task.tusk": did you mean "task"'),
        (TEXT | {"lr": -1}, "the recipe key lr is wrong: .* got -1"),
        (TEXT | {"mode": "fast"}, "the recipe key mode is wrong"),
    ],
)
def test_mistakes_are_one_line_with_a_remedy(data: dict[str, Any], line: str) -> None:
    with pytest.raises(RecipeError, match=f"(?i){line}") as error:
        resolved(**data)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"losses": [{"name": "hidden", "layers": [3]}]}, "must be among those that the map pairs \\(1, 2\\), got 3"),
        ({"map": "evenly"}, 'a map of layers must be last, top, uniform, every-K .* got "evenly"'),
    ],
)
def test_layers_are_checked_against_the_models(data: dict[str, Any], line: str) -> None:
    stage = resolved(**TEXT, **data)
    assert stage.phases
    with pytest.raises(TenfoldError, match=line):
        stage.phases[0].losses[0].pairs(2, 2, stage.map)
