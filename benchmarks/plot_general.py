"""The curves of general_stage.py as a picture: error of the last hidden states against tokens and seconds.

    python benchmarks/plot_general.py benchmarks/results/general-all-MiniLM-L6-v2.json docs/general-stage

A row of panels a size. Seconds are a cell's whole `tenfold distill` times the share of its steps, so that starting up and
measuring are spread over the curve.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tenfold.plots import figure, look, save, style

AXES = {"tokens of the general stage (millions)": "tokens", "seconds on a shared device": "seconds"}


def points(row: dict[str, Any]) -> list[dict[str, float]]:
    steps = row["curve"][-1]["step"]
    shares = [point["step"] / steps for point in row["curve"]]
    return [
        {"tokens": share * row["tokens"] / 1e6, "seconds": share * row["seconds"], "error": point["last"]}
        for share, point in zip(shares, row["curve"], strict=True)
    ]


def label(row: dict[str, Any]) -> str:
    return row["cell"].replace(":square", "").replace(":whole", "").replace(":", ", ")


def panel(axes: Any, rows: list[dict[str, Any]], title: str, name: str) -> None:
    for k, row in enumerate(rows):
        found = points(row)
        axes.plot([p[AXES[name]] for p in found], [p["error"] for p in found], label=label(row), markersize=5, **look(k))
    axes.set(title=title, xlabel=name, ylabel="error of last hidden states / variance", ylim=(0.25, 1.3))


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    result = json.loads(source.read_text(encoding="utf-8"))
    rows = sorted(result["rows"], key=lambda row: -row["curve"][-1]["last"])
    sizes = {
        "1/7": [r for r in rows if r["parameters"]["ratio"] > 0.1],
        "1/48": [r for r in rows if r["parameters"]["ratio"] <= 0.1],
    }
    with style():
        chart, axes = figure(2, 2, size=(15, 10))
        for line, (size, chosen) in zip(axes, sizes.items(), strict=True):
            for place, name in zip(line, AXES, strict=True):
                panel(place, chosen, f"{result['model']}, {size} of the matrices", name)
            line[1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        drawn = [(label(row), *point.values()) for row in rows for point in points(row)]
        save(chart, target, drawn, ("cell", "million tokens", "seconds", "error"))


if __name__ == "__main__":
    main()
