"""Small labelled tables of the pico tokenizer's words, whose labels a word of the text gives away."""

import csv
import random
from collections.abc import Sequence
from pathlib import Path

from pico import CORPUS

Table = list[dict[str, str]]


def classes(rows: int = 96, names: Sequence[str] = ("neg", "pos"), seed: int = 0, skip: int = 0) -> Table:
    """Of other sentences with another `skip`; "good ..." is the last class, "bad ..." the first, "old ..." the one between."""
    words = {names[0]: "bad", names[-1]: "good", **({names[1]: "old"} if len(names) == 3 else {})}
    draw = random.Random(seed)
    labels = [names[i % len(names)] for i in range(rows)]
    draw.shuffle(labels)
    return [
        {"text": f"{words[label]} {words[label]} {text}", "label": label}
        for label, text in zip(labels, CORPUS[skip:], strict=False)
    ]


def pairs(rows: int = 64, seed: int = 0) -> Table:
    """The score is the share of words that both texts have, 0 to 5."""
    draw, found = random.Random(seed), []
    for text in CORPUS[:rows]:
        words = text.split()
        kept = draw.randrange(len(words) + 1)
        other = words[:kept] + [draw.choice(("red", "slow", "train", "often")) for _ in words[kept:]]
        found.append({"sentence1": text, "sentence2": " ".join(other), "score": f"{5 * kept / len(words):.2f}"})
    return found


def write(path: Path, table: Table) -> str:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return str(path)
