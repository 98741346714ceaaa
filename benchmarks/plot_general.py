"""The curves of general_stage.py as a picture: error of the last hidden states against tokens, one panel a size.

python benchmarks/plot_general.py benchmarks/results/general-all-MiniLM-L6-v2.json docs/general-stage.png
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")  # Okabe and Ito
MARKS = "osD^vPX*"


def panel(axes: Any, rows: list[dict[str, Any]], title: str) -> None:
    for k, row in enumerate(sorted(rows, key=lambda r: -r["curve"][-1]["last"])):
        colour, mark, line = COLOURS[k % len(COLOURS)], MARKS[k % len(MARKS)], "-" if k < len(COLOURS) else "--"
        steps = [point["step"] for point in row["curve"]]
        tokens = [step / steps[-1] * row["tokens"] / 1e6 for step in steps]
        label = row["cell"].replace(":square", "").replace(":whole", "").replace(":", ", ")
        axes.plot(
            tokens, [point["last"] for point in row["curve"]], color=colour, marker=mark, ls=line, markersize=4, label=label
        )
    axes.set_title(title)
    axes.set_xlabel("tokens of the general stage (millions)")
    axes.set_ylabel("error of last hidden states / variance")
    axes.set_ylim(bottom=0.25, top=1.3)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    result = json.loads(source.read_text(encoding="utf-8"))
    large = [row for row in result["rows"] if row["parameters"]["ratio"] > 0.1]
    small = [row for row in result["rows"] if row["parameters"]["ratio"] <= 0.1]
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    panel(axes[0], large, f"{result['model']}, 1/7 of the matrices")
    panel(axes[1], small, f"{result['model']}, 1/48 of the matrices")
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
