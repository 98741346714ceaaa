"""GLUE's folder layout in small, as the official release has it: its columns, spellings and oddities."""

from collections.abc import Mapping
from pathlib import Path

from pico import CORPUS

from tenfold.tasks.glue import GlueTask, glue

HEADERS = {
    "cola": {"test": "index\tsentence"},
    "sst2": {"train": "sentence\tlabel", "test": "index\tsentence"},
    "mrpc": {"train": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "test": "index\t#1 ID\t#2 ID\t#1 String\t#2 String"},
    "stsb": {"train": "index\tgenre\tsentence1\tsentence2\tscore", "test": "index\tgenre\tsentence1\tsentence2"},
    "qqp": {"train": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "test": "id\tquestion1\tquestion2"},
    "mnli": {"train": "index\tgenre\tsentence1\tsentence2\tgold_label", "test": "index\tgenre\tsentence1\tsentence2"},
    "qnli": {"train": "index\tquestion\tsentence\tlabel", "test": "index\tquestion\tsentence"},
    "rte": {"train": "index\tsentence1\tsentence2\tlabel", "test": "index\tsentence1\tsentence2"},
    "wnli": {"train": "index\tsentence1\tsentence2\tlabel", "test": "index\tsentence1\tsentence2"},
    "ax": {"test": "index\tsentence1\tsentence2"},
}
"""By task and split; dev's is train's. CoLA's train and dev have none."""

COLA = ["source", "label", "original", "sentence"]


def write_task_files(folder: Path, name: str, rows: Mapping[str, int]) -> Path:
    """`folder`/SST-2/train.tsv and so on, as many rows of each part (train, dev, test) as said."""
    row = glue()[name]
    for part, files in row.files.items():
        for k, file in enumerate(files.values()):
            path = folder / row.folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([*_header(name, part), *_lines(row, part, rows[part], 7 * k)]) + "\n", encoding="utf-8")
    return folder


def _header(name: str, part: str) -> list[str]:
    found = HEADERS[name].get(part) or (HEADERS[name].get("train") if part == "dev" else None)
    return [found] if found else []


def _lines(row: GlueTask, part: str, count: int, shift: int) -> list[str]:
    names = (_header(row.task.name, part) or ["\t".join(COLA)])[0].split("\t")
    texts = row.task.columns if row.header and part == "test" else row.columns
    lines = []
    for i in range(count):
        cells = dict.fromkeys(names, str(i))
        for side, column in enumerate(texts):
            cells[column] = CORPUS[(3 * i + side + shift + len(part)) % len(CORPUS)]
        cells[row.label] = row.spelling[i % len(row.spelling)] if row.spelling else f"{(i * 0.7) % 5:.3f}"
        lines.append("\t".join(cells[name] for name in names))
    return lines
