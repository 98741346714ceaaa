"""GLUE out of its official folder: tab-separated, never quoted, here and there a byte-order mark or a file without a header."""

from pathlib import Path

from tenfold.errors import TenfoldError
from tenfold.tasks.glue import GlueTask
from tenfold.tasks.task import Label, Rows, TaskData

OTHER_FOLDERS = {"AX": ("AX", "diagnostic", "."), "MNLI": ("MNLI", "MultiNLI")}
OTHER_FILES = {"diagnostic.tsv": ("diagnostic.tsv", "AX.tsv", "test.tsv")}


def read_official(row: GlueTask, data_dir: Path) -> TaskData:
    """Every split whose file is there; train and dev must be (the diagnostic set has neither)."""
    folder = _folder(row, data_dir)
    notes: list[str] = []
    train = [_split(row, folder, "train", file, notes) for file in row.files["train"].values()]
    dev = {name: _split(row, folder, "dev", file, notes) for name, file in row.files["dev"].items()}
    test = {name: _split(row, folder, "test", file, notes) for name, file in row.files["test"].items() if _find(folder, file)}
    return TaskData(row.task, train[0] if train else Rows((), ()), dev, test, tuple(notes))


def find_folder(row: GlueTask, data_dir: Path) -> Path | None:
    """DATA_DIR/SST-2, or DATA_DIR itself where that is the task's own folder."""
    names = OTHER_FOLDERS.get(row.folder, (row.folder,))
    for folder in (*(data_dir / name for name in names), *([data_dir] if data_dir.name in names else [])):
        if folder.is_dir() and any(_find(folder, file) for files in row.files.values() for file in files.values()):
            return folder
    return None


def _folder(row: GlueTask, data_dir: Path) -> Path:
    folder = find_folder(row, data_dir)
    if folder is None:
        raise TenfoldError(
            f"--data-dir must hold {row.folder}/ with GLUE's official files, got {data_dir}, which has {_listing(data_dir)}: "
            "name the folder above, or leave it out to take the task from the hub"
        )
    return folder


def _listing(folder: Path) -> str:
    if not folder.is_dir():
        return "no such folder"
    return ", ".join(sorted(path.name for path in folder.iterdir())[:12]) or "nothing"


def _find(folder: Path, file: str) -> Path | None:
    return next((folder / name for name in OTHER_FILES.get(file, (file,)) if (folder / name).is_file()), None)


def _split(row: GlueTask, folder: Path, part: str, file: str, notes: list[str]) -> Rows:
    """A line with too few columns (QQP's train has a handful) is left out of train and said; elsewhere it is an error."""
    path = _find(folder, file)
    if path is None:
        raise TenfoldError(f"GLUE's {row.folder} needs {file}, got none in {folder}: copy it, or leave --data-dir out")
    lines = _lines(path)
    header = row.header.get(part) or (lines.pop(0)[1] if lines else [])
    wanted = [*row.columns] if part != "test" or not row.header else [*row.task.columns]
    places = [_place(path, header, name) for name in wanted]
    label = _place(path, header, row.label) if part != "test" else header.index(row.label) if row.label in header else None
    texts, labels, short = [], [], 0
    for number, cells in lines:
        if len(cells) <= max([*places, label or 0]):
            if part != "train":
                raise TenfoldError(f"{path} must have {len(header)} columns in each line, got {len(cells)} in line {number}")
            short += 1
            continue
        texts.append(tuple(cells[place].strip() for place in places))
        labels.append(None if label is None else _label(row, cells[label], path, number))
    if short:
        notes.append(f"{short} lines of {path.name} lack columns and were left out")
    return Rows(tuple(texts), tuple(labels))


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """(number, cells) of every line that is not empty. Only line feeds end a line: text holds other separators."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TenfoldError(f"GLUE's files must be UTF-8, got {path} ({error.reason} at byte {error.start})") from error
    return [(i, line.rstrip("\r").split("\t")) for i, line in enumerate(text.split("\n"), 1) if line.strip()]


def _place(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        raise TenfoldError(f'{path} must have the column "{name}", got {", ".join(header)}: take GLUE\'s official file')
    return header.index(name)


def _label(row: GlueTask, text: str, path: Path, number: int) -> Label:
    if row.task.kind == "regression":
        try:
            return float(text)
        except ValueError as error:
            raise TenfoldError(f'a score must be a number, got "{text}" in line {number} of {path}') from error
    if text not in row.spelling:
        raise TenfoldError(f'a label must be one of {", ".join(row.spelling)}, got "{text}" in line {number} of {path}')
    return row.spelling.index(text)
