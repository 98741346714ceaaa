"""Figures look alike, carry their numbers, and leave matplotlib as it was."""

import csv
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from tenfold.plots import DASHES, MARKERS, PALETTE, SEQUENTIAL, figure, look, save, style, write_csv

ROWS = [(1, 0.1 + 0.2, "a"), (2, 1e-17, "b, c")]


def draw(path: Path) -> tuple[Path, Path, Path]:
    with style():
        chart, axes = figure()
        axes.plot([row[0] for row in ROWS], [row[1] for row in ROWS], **look(0), label="x")
        axes.legend()
        axes.set(xlabel="step", ylabel="loss")
        return save(chart, path, ROWS, ("step", "loss", "name"))


def test_a_figure_is_three_files_and_the_same_again(tmp_path: Path) -> None:
    first, again = draw(tmp_path / "v1.2"), draw(tmp_path / "again")
    assert [file.name for file in first] == ["v1.2.png", "v1.2.svg", "v1.2.csv"]
    assert sorted(tmp_path.iterdir()) == sorted([*first, *again])
    for a, b in zip(first, again, strict=True):
        assert a.read_bytes() == b.read_bytes()
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert not re.search(rb"20\d\d-\d\d-\d\d|matplotlib", first[0].read_bytes())
    assert "dc:date" not in first[1].read_text()


def test_the_table_gives_the_numbers_back_to_the_last_bit(tmp_path: Path) -> None:
    rows = list(csv.reader(draw(tmp_path / "x")[2].read_text().splitlines()))
    assert rows[0] == ["step", "loss", "name"]
    assert [(int(a), float(b), c) for a, b, c in rows[1:]] == ROWS


def test_a_row_that_does_not_fit_its_columns_leaves_no_table(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        write_csv(tmp_path / "x.csv", [(1, 2), (3,)], ("a", "b"))
    assert not (tmp_path / "x.csv").exists()


def test_matplotlib_is_left_as_it_was(tmp_path: Path) -> None:
    before: dict[str, Any] = dict(matplotlib.rcParams)
    loaded = "matplotlib.pyplot" in sys.modules
    with style():
        assert matplotlib.rcParams["svg.hashsalt"] == "tenfold"
    draw(tmp_path / "x")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_a_users_own_settings_do_not_change_our_figures(tmp_path: Path) -> None:
    plain = draw(tmp_path / "plain")
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "savefig.transparent": True}):
        theirs = draw(tmp_path / "theirs")
    assert plain[0].read_bytes() == theirs[0].read_bytes()


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_series_differ_in_more_than_colour_and_stand_out_from_white() -> None:
    looks = [tuple(look(index).values()) for index in range(len(PALETTE) * len(DASHES))]
    assert len(set(looks)) == len(looks)
    assert len(set(MARKERS)) == len(MARKERS) == len(PALETTE)
    assert min(1.05 / (luminance(colour) + 0.05) for colour in PALETTE) > 2


def test_the_sequential_colours_grow_evenly_lighter() -> None:
    """Readable in grey and with any colour blindness: each step of cividis is lighter than the one before."""
    shades = [luminance(matplotlib.colors.to_hex(matplotlib.colormaps[SEQUENTIAL](k / 16))) for k in range(17)]
    assert all(b > a for a, b in pairwise(shades))
