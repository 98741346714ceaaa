"""Runs as points: which numbers they get, and which they do not."""

from pathlib import Path

import made_up
import pytest

from tenfold.reporting.collect import collect, collect_all, form_of
from tenfold.reporting.facts import COST, QUALITY, Axis, speed_range
from tenfold.reporting.frontier import front
from tenfold.reporting.points import ORIGINAL_FORM, Point, axes, points
from tenfold.reporting.sections.tradeoff import overview
from tenfold.reporting.teaching import curves, measures


def values(point: Point) -> dict[str, float]:
    return {axis.key: value for axis, value in point.values.items()}


def test_a_run_its_original_and_what_it_was_on_the_way(tmp_path: Path) -> None:
    original, before, taught = points([collect(made_up.full(tmp_path / "taught"))])
    assert (original.name, original.form, original.method) == ("all-MiniLM-L6-v2", ORIGINAL_FORM, "the original")
    assert (before.name, taught.name, taught.form) == ("taught (compressed)", "taught", "mixed")
    assert values(original)["parameters:model"] == made_up.BEFORE["model"]
    assert values(taught)["parameters:matrices"] == round(0.14 * made_up.BEFORE["matrices"])
    assert [values(each)["alike:cosine"] for each in (original, before, taught)] == [1.0, 0.31, 0.77]
    assert (values(original)["score:rte:dev:accuracy"], values(taught)["score:rte:dev:accuracy"]) == (64.1, 61.7)
    assert values(taught)["score:average:scored"] == pytest.approx((61.7 + 88.2) / 2)
    assert "score:rte:dev:accuracy" not in values(before)


def test_times_are_in_ms_and_relative_to_the_originals_best(tmp_path: Path) -> None:
    original, _, taught = points([collect(made_up.full(tmp_path / "taught", measurement=made_up.measurement(2.0)))])
    place = "eager, 8 x 128, float32"
    assert values(original)[f"time:{place}"] == pytest.approx(10.24)
    assert values(taught)[f"time:{place}"] == pytest.approx(5.12)
    assert values(taught)[f"relative:{place}"] == pytest.approx(0.5)
    assert not any("onnx" in key for key in values(taught)), "a path that was not timed is not drawn"


def test_the_range_of_speeds_takes_the_best_path_of_each_cell(tmp_path: Path) -> None:
    run = collect(made_up.full(tmp_path / "taught"))
    assert run.measurement is not None
    assert speed_range(run.measurement) == pytest.approx((0.87, 1.9))


def test_what_compressing_lost_is_only_said_before_teaching(tmp_path: Path) -> None:
    bare, taught = (
        collect(made_up.folder(tmp_path / name, history=entries)) for name, entries in (("a", []), ("b", [made_up.distill()]))
    )
    assert values(points([bare])[-1])["lost:weights"] == pytest.approx(61.0)
    assert values(points([bare])[-1])["lost:outputs"] == pytest.approx(23.0)
    assert not any(key.startswith("lost") for key in values(points([taught])[-1]))


def test_agreement_from_before_a_task_stage_is_not_the_results(tmp_path: Path) -> None:
    folder = made_up.full(tmp_path / "tuned", history=[made_up.distill(), made_up.distill("task")])
    found = points([collect(folder)])
    assert [point.name for point in found] == ["all-MiniLM-L6-v2", "tuned (compressed)", "tuned (general)", "tuned"]
    assert "alike:cosine" not in values(found[-1])


def test_two_runs_share_their_original(tmp_path: Path) -> None:
    folders = [made_up.full(tmp_path / "a"), made_up.full(tmp_path / "b", "IV-36-128", measurement=made_up.measurement(1.2))]
    found = points(collect_all(folders))
    assert [point.form for point in found] == [ORIGINAL_FORM, "mixed", "mixed", "tucker", "tucker"]
    assert [axis.key for axis in axes(found, COST)][:3] == ["parameters:model", "parameters:paper", "parameters:matrices"]
    assert axes(found, QUALITY)[0].key == "score:average:scored"


def test_a_run_that_another_was_made_from_is_one_point(tmp_path: Path) -> None:
    entry = made_up.stamp("finetune", "finetune", model="bert", task="rte")
    teacher = made_up.folder(tmp_path / "teacher", None, history=[entry], scores=made_up.scores(64.1, 91.2))
    small = made_up.folder(tmp_path / "small", None, history=[made_up.compress("II-36", 0.1, model=str(teacher))])
    found = {point.name: point for point in points(collect_all([teacher, small]))}
    assert [*found] == ["bert", "teacher", "small"]
    assert values(found["teacher"])["parameters:model"] == made_up.BEFORE["model"]
    assert values(found["teacher"])["score:rte:dev:accuracy"] == 64.1


def test_forms_of_methods() -> None:
    names = {
        "II-245": "low_rank",
        "III-64": "tensor_train",
        "IV-36-128": "tucker",
        "ALBERT": "layer_shared",
        "III-6+II-2": "mixed",
    }
    assert {name: form_of(name) for name in (*names, "dense")} == {**names, "dense": "dense"}


def test_the_overview_has_the_headlines_only(tmp_path: Path) -> None:
    runs = [collect(made_up.full(tmp_path / "taught"))]
    heads, rows = overview(points(runs), runs)
    assert heads[:2] == ["model", "method"]
    assert "times as fast" in heads
    assert not any("time of a call" in head or "rank correlation" in head for head in heads)
    taught = dict(zip(heads, rows[-1], strict=True))
    assert (taught["times as fast"], taught["rte (dev): accuracy"]) == ("0.87 to 1.90", "61.7")
    assert dict(zip(heads, rows[0], strict=True))["times as fast"] is None


def test_the_front_holds_what_nothing_beats() -> None:
    cost, up = Axis("c", "c", COST), Axis("q", "q", QUALITY, "", "higher")
    made = {"a": (1, 5), "b": (2, 4), "c": (2, 7), "d": (3, 7), "e": (4, 9), "f": (4, 8)}
    all_points = [Point(name, "dense", "", {cost: x, up: y}) for name, (x, y) in made.items()]
    assert [point.name for point in front(all_points, cost, up)] == ["a", "c", "e"]
    down = Axis("q", "q", QUALITY)
    mirrored = [Point(point.name, "dense", "", {cost: point.values[cost], down: -point.values[up]}) for point in all_points]
    assert [point.name for point in front(mirrored, cost, down)] == ["a", "c", "e"]


def test_curves_have_tokens_and_names(tmp_path: Path) -> None:
    entries = [made_up.distill(), made_up.distill("task", time="2026-02-04T00:00:00+00:00")]
    [general, task] = curves([collect(made_up.folder(tmp_path / "a", history=entries))])
    assert (general.name, task.name) == ("general stage", "task stage (rte)")
    assert [row["tokens"] for row in general.rows] == [0, 4e6, 8e6, 12e6, 16e6]
    assert measures([general, task]) == ["loss", "hidden", "vectors"]


def test_a_round_that_two_runs_went_through_is_drawn_once(tmp_path: Path) -> None:
    first = made_up.distill()
    later = made_up.distill("task", time="2026-02-04T00:00:00+00:00")
    runs = collect_all(
        [made_up.folder(tmp_path / "a", history=[first]), made_up.folder(tmp_path / "b", history=[first, later])]
    )
    assert [curve.name for curve in curves(runs)] == ["a: general stage", "b: task stage (rte)"]
