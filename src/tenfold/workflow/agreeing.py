"""How alike the models of a run place sentences that none of them was taught on."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tenfold.checkpoints import find, load
from tenfold.errors import TenfoldError
from tenfold.evaluation import agreement, embed
from tenfold.pipeline import tokenizer_of
from tenfold.plots import PALETTE, figure, save, style
from tenfold.records import AGREEMENT, stamp, write_json
from tenfold.text import sources
from tenfold.workflow.recipe import Agree

FEWEST = 10
MEASURES = {
    "cosine": "cosine of\nthe vectors",
    "rank_correlation": "rank correlation\nof similarities",
    "neighbours_kept": "5 nearest\nneighbours kept",
}
"""What evaluation.Agreement holds, and how a figure names it."""


def write_agreement(folder: Path, original: str, models: Mapping[str, Path], settings: Agree) -> None:
    """FOLDER/agreement.json and its figure: each model against the original, in the order in which they were made."""
    texts = held_out(settings)
    source = find(original, weights=True)
    tokenizer = tokenizer_of(source)
    theirs = embed(load(source), tokenizer, texts)
    rows = [
        {"name": name, **asdict(agreement(embed(load(find(str(model), weights=True)), tokenizer, texts), theirs))}
        for name, model in models.items()
    ]
    facts: dict[str, Any] = {"original": original, "text": settings.text, "sentences": len(texts), "rows": rows}
    draw_agreement(folder / Path(AGREEMENT).stem, rows, len(texts))
    write_json(folder / AGREEMENT, stamp("agree", **facts))


def held_out(settings: Agree) -> list[str]:
    """At most so many passages, at even distances."""
    found = [passage for source in sources(settings.text) for passage in source if passage]
    if len(found) < FEWEST:
        raise TenfoldError(f"agreement needs at least {FEWEST} passages, got {len(found)} in {settings.text}: one a line")
    step = max(1, len(found) // settings.sentences)
    return found[::step][: settings.sentences]


def draw_agreement(path: Path, rows: list[dict[str, Any]], sentences: int) -> None:
    """A bar for each model in each measure."""
    width = 0.8 / len(rows)
    with style():
        chart, axes = figure()
        for index, row in enumerate(rows):
            places = [place + (index - (len(rows) - 1) / 2) * width for place in range(len(MEASURES))]
            bars = axes.bar(places, [row[name] for name in MEASURES], width, color=PALETTE[index], label=row["name"])
            axes.bar_label(bars, fmt="%.2f", padding=2)
        axes.set_xticks(range(len(MEASURES)), MEASURES.values())
        axes.set(ylim=(min(0.0, *(row[name] for row in rows for name in MEASURES)), 1.2), ylabel="1: as the original")
        axes.set_title(f"Agreement with the original on {sentences} held-out passages")
        axes.set_yticks([tenth / 10 for tenth in range(0, 11, 2)])
        axes.grid(visible=False, axis="x")
        axes.legend(loc="upper left", ncols=len(rows))
        save(chart, path, rows=[[row["name"], *(row[name] for name in MEASURES)] for row in rows], columns=("model", *MEASURES))
