"""The figure's three files hold the times, and every line is there."""

import csv
from pathlib import Path

import pytest
from measuring import cell, measurement

from tenfold.errors import TenfoldError
from tenfold.measurement.figure import COLUMNS, draw_measurement, figure_path


def test_a_figure_carries_its_numbers(tmp_path: Path) -> None:
    found = measurement()
    files = draw_measurement(found, tmp_path / "deep" / "times")
    assert [file.name for file in files] == ["times.png", "times.svg", "times.csv"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    head, *rows = csv.reader(files[2].read_text().splitlines())
    assert tuple(head) == COLUMNS
    assert len(rows) == 3 * len(found.cells)
    timing = found.cells[1].timings[1]
    assert timing.median is not None
    assert rows[4] == [
        "compressed",
        "eager",
        "float32",
        "32",
        "8",
        str(1e3 * timing.median),
        str(1.2 * 1e3 * timing.median),
        "20",
    ]


def test_lines_and_panels_are_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    charts = []
    monkeypatch.setattr("tenfold.measurement.figure.save", lambda chart, *_: charts.append(chart))
    draw_measurement(measurement(), tmp_path / "two")
    draw_measurement(measurement((cell(1, 32, 2.0),)), tmp_path / "one")
    two, one = charts
    assert [axes.get_title(loc="left") for axes in two.axes] == ["length 32, float32", "length 128, float32"]
    assert [len(axes.lines) for axes in (*two.axes, *one.axes)] == [3, 3, 3]
    assert [text.get_text() for text in two.legends[0].get_texts()] == [
        "original, eager",
        "compressed, eager",
        "compressed, onnx",
    ]
    original, eager, onnx = two.axes[0].lines
    assert original.get_xydata().tolist() == [[1, 1], [8, 8], [32, 32]]
    assert original.get_color() == eager.get_color() != onnx.get_color()
    assert original.get_linestyle() != eager.get_linestyle()


def test_a_figure_has_a_name_that_ends_in_png() -> None:
    assert figure_path(Path("a/times.png")) == figure_path(Path("a/times")) == Path("a/times")
    with pytest.raises(TenfoldError, match=r"--figure must be a name that ends in .png .* got times.pdf"):
        figure_path(Path("times.pdf"))
