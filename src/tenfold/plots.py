"""One style for every figure, and figures that carry their numbers: PNG, SVG and the CSV that it was drawn from.

No window and no pyplot: figures are objects, so nothing global changes and servers without a display work.

    with style():
        chart, axes = figure()
        axes.plot(x, y)
        axes.set(xlabel="tokens (millions)", ylabel="loss")
        save(chart, folder / "curve", rows=zip(x, y), columns=("tokens", "loss"))
"""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7F00")
"""Okabe and Ito's colours, told apart with every kind of colour blindness; their yellow, too pale for lines, is darker here."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
GREY = "#6B6B6B"
SEQUENTIAL, DIVERGING = "cividis", "RdBu_r"
"""Colour maps: cividis looks the same to nearly everybody; the diverging one is for values with a middle."""
SALT = "tenfold"
"""The names inside an SVG file are hashes: a fixed salt makes the same figure the same file."""

_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 13,
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 13,
    "figure.constrained_layout.use": True,
    "figure.dpi": 120,
    "figure.facecolor": "white",
    "figure.figsize": (7.2, 4.4),
    "figure.titlesize": 14,
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.8,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "lines.linewidth": 2.2,
    "lines.markersize": 6,
    "savefig.dpi": 120,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": SALT,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
}


@contextmanager
def style() -> Iterator[None]:
    """What is drawn inside looks like ours; afterwards matplotlib's settings are what they were."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def figure(rows: int = 1, columns: int = 1, size: tuple[float, float] | None = None, **subplots: Any) -> tuple[Figure, Any]:
    """A figure and its axes (one, or an array as from plt.subplots); `size` in inches. Call it inside `style()`."""
    chart = Figure(figsize=size)
    return chart, chart.subplots(rows, columns, **subplots)


def look(index: int) -> dict[str, Any]:
    """Colour, marker and dash of the series number `index`: readable without colours too."""
    return {
        "color": PALETTE[index % len(PALETTE)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[index // len(PALETTE) % len(DASHES)],
    }


def save(chart: Figure, path: Path, rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> tuple[Path, Path, Path]:
    """PATH.png, PATH.svg and PATH.csv: the picture twice and what it was drawn from. The same figure gives the same bytes."""
    picture, vector, table = (path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "svg", "csv"))
    with style():
        chart.savefig(picture, format="png", metadata={"Software": None})
        chart.savefig(vector, format="svg", metadata={"Date": None, "Creator": None})
    write_csv(table, rows, columns)
    return picture, vector, table


def write_csv(path: Path, rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> None:
    """Numbers as Python writes them, so that reading them back gives the same ones; whole or not at all."""
    beside = path.with_name(f"{path.name}.partial-{os.getpid()}")
    with beside.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            assert len(row) == len(columns), (row, columns)
            writer.writerow(row)
    beside.replace(path)
