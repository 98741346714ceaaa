"""Colours: white is what means nothing, and the diagonal does not set their range."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tenfold.analysis import heatmaps
from tenfold.analysis.heatmaps import around, heatmap, table
from tenfold.plots import style


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(heatmaps, "save", lambda chart, *_: found.append(chart))
    return found


def test_the_diagonal_does_not_set_the_range() -> None:
    distances = torch.tensor([[0.0, 0.9, 1.2], [0.9, 0.0, 1.0], [1.2, 1.0, 0.0]])
    colours = around(distances, 1)
    assert (colours["vmin"], colours["vmax"]) == pytest.approx((0.8, 1.2))
    flat = around(torch.eye(3), 0)
    assert (flat["vmin"], flat["vmax"]) == (-1, 1)


def test_stretches_have_one_label_each(charts: list[Any]) -> None:
    with style():
        heatmap(Path("x"), "title", torch.eye(4), list("abcd"), ["left", "left", "right", "right"], "cosine", centre=0)
    [chart] = charts
    axes, bar = chart.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["left", "right"]
    assert list(axes.get_yticks()) == [0.5, 2.5]
    assert bar.get_ylabel() == "cosine"


def test_a_table_of_shares_is_in_percent_and_its_colours_too(charts: list[Any]) -> None:
    values = {("q", 0): 0.25, ("q", 1): 0.5, ("k", 1): 1.25}
    with style():
        table(Path("x"), "title", "all", ["q", "k"], [0, 1], values, "share", percent=True)
    [chart] = charts
    axes, bar = chart.axes
    assert sorted(text.get_text() for text in axes.texts) == ["125", "25", "50"]
    chart.draw_without_rendering()
    assert all(label.get_text().endswith("%") for label in bar.get_yticklabels() if label.get_text())
