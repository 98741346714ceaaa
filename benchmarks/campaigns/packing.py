"""A tree to carry to a machine with nothing to download, and back into what the other verbs read.

TREE/tenfold, TREE/benchmarks       the library and the campaign, as source
TREE/models/NAME                    the original, its weights in float16, with its tokenizer
TREE/glue/TASK                      train.tsv and dev.tsv of the campaign's tasks
TREE/corpora                        rows of tokens: uint16 ids and places, xz
TREE/work                           with --states: teachers, trunks and students
TREE/wheels                         with --wheels, for what the machine lacks (pydantic)
TREE/README.txt                     the commands
"""

import json
import lzma
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import yaml
from safetensors.torch import load_file, save_file

import tenfold
from campaigns.places import Places, Say
from campaigns.rows import corpora, rows_of
from campaigns.table import FOLDER, corpus_stage, start_of
from tenfold.errors import OutputError, TenfoldError
from tenfold.folders import complete_folder
from tenfold.pipeline import copy_beside
from tenfold.records import HISTORY
from tenfold.tasks import glue

CHUNK = 1 << 22
STATES = ("teachers", "trunks", "students")
README = """tenfold {version}, the campaign {name}. It needs Python 3.11 or later with torch, transformers, accelerate,
safetensors, scipy, scikit-learn, matplotlib, PyYAML and pydantic; no datasets, and no connection.

    python -m pip install --no-index --find-links wheels pydantic    # where it is not there, and wheels were packed
    export PYTHONPATH=$PWD
    python benchmarks/campaign.py unpack .
    python benchmarks/campaign.py teachers {file} --data . --work work --minutes 30 --jobs 4
    python benchmarks/campaign.py general  {file} --data . --work work --minutes 30
    python benchmarks/campaign.py tasks    {file} --data . --work work --minutes 30 --jobs 4

Exit code 75: the minutes were over before the work was; the same command goes on. To go on elsewhere bring back `work` (without
work/corpora and work/models, which this tree holds) and `benchmarks/results`.
"""


def pack(places: Places, rows: Sequence[str], out: Path, wheels: Path | None, states: bool, say: Say) -> int:
    """The tree for some rows of a campaign -> OUT; its bytes come back."""
    with complete_folder(out) as partial:
        _source(partial)
        file = f"benchmarks/campaigns/{places.campaign.name.replace(' ', '-')}.yaml"
        _campaign(places, partial / file)
        say("weights to float16")
        _weights(places, partial / "models" / places.campaign.model, say)
        _tables(places, partial)
        stages = {corpus_stage(places.campaign, row).model_dump_json(): row for row in rows}
        for row in stages.values():
            corpus = rows_of(places, corpus_stage(places.campaign, row), start_of(places.campaign, row).schedule, say)
            say(f"packing {corpus.tokens:,} tokens")
            _corpus(corpora(places), corpus.folder, partial / "corpora")
        if wheels is not None:
            shutil.copytree(wheels, partial / "wheels")
        if states:
            for name in STATES:
                if (places.home / name).is_dir():
                    ignore = shutil.ignore_patterns("*.training", "*.finetuning", "*.partial-*")
                    shutil.copytree(places.home / name, partial / "work" / places.home.name / name, ignore=ignore)
        told = README.format(version=tenfold.__version__, name=places.campaign.name, file=file)
        (partial / "README.txt").write_text(told, encoding="utf-8")
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def unpack(tree: Path, say: Say) -> None:
    """TREE/models and TREE/corpora -> TREE/work, where the other verbs look with `--data TREE --work TREE/work`."""
    if not (tree / "corpora").is_dir():
        raise TenfoldError(f"unpack takes a tree that pack made, got {tree} without corpora: check the path")
    to = tree / "work" / "corpora"
    to.mkdir(parents=True, exist_ok=True)
    for note in (tree / "corpora").glob("*.json"):
        folder = json.loads(note.read_text(encoding="utf-8"))["folder"]
        if not (to / folder).is_dir():
            say(f"unpacking {folder[:12]}")
            with complete_folder(to / folder) as partial:
                for packed in (tree / "corpora" / folder).iterdir():
                    _unpacked(packed, partial)
        shutil.copy(note, to / note.name)
    for model in (tree / "models").iterdir():
        if not (tree / "work" / "models" / model.name).is_dir():
            shutil.copytree(model, tree / "work" / "models" / model.name)


def _source(out: Path) -> None:
    """Without caches and results."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "results")
    shutil.copytree(Path(tenfold.__file__).parent, out / "tenfold", ignore=ignore)
    shutil.copytree(FOLDER.parent, out / "benchmarks", ignore=ignore)


def _campaign(places: Places, file: Path) -> None:
    """Also one that is not shipped, as it stands."""
    if not file.is_file():
        data = places.campaign.model_dump(mode="json", exclude_defaults=True)
        file.write_text(yaml.safe_dump({"version": 1, **data}, sort_keys=False), encoding="utf-8")


def _weights(places: Places, out: Path, say: Say) -> None:
    folder, header = places.original.folder, places.original.header
    assert folder is not None and header is not None
    out.mkdir(parents=True)
    for file in header.files:
        tensors = load_file(file)
        short = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
        if name := next((name for name, tensor in short.items() if not torch.isfinite(tensor).all()), None):
            raise OutputError(f"weights must fit float16 to be packed, got numbers too large in {name}: carry the model itself")
        save_file(short, out / file.name, metadata={"format": "pt"})
        lost = sum(float((short[name].double() - tensor.double()).square().sum()) for name, tensor in tensors.items())
        whole = sum(float(tensor.double().square().sum()) for tensor in tensors.values())
        say(f"{file.name}: float16 changes {(lost / whole) ** 0.5:.1e} of the norm of the weights")
    shutil.copy(folder / "config.json", out)
    copy_beside(places.original, out)
    if index := [*folder.glob("*.safetensors.index.json")]:
        shutil.copy(index[0], out)
    (out / HISTORY).unlink(missing_ok=True)


def _tables(places: Places, out: Path) -> None:
    for task in places.campaign.tasks:
        folder = glue()[task].folder
        for part in ("train", "dev"):
            for file in glue()[task].files[part].values():
                to = out / "glue" / folder / file
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(places.data / "glue" / folder / file, to)


def _corpus(home: Path, folder: Path, out: Path) -> None:
    """Each file by itself in xz, with the note that names the folder."""
    to = out / folder.name
    to.mkdir(parents=True)
    for file in folder.iterdir():
        with file.open("rb") as read, lzma.open(to / f"{file.name}.xz", "wb", preset=6) as write:
            shutil.copyfileobj(read, write, CHUNK)
    for note in _notes(home, folder):
        shutil.copy(note, out)


def _notes(home: Path, folder: Path) -> Iterator[Path]:
    return (note for note in home.glob("*.json") if json.loads(note.read_text(encoding="utf-8"))["folder"] == folder.name)


def _unpacked(packed: Path, to: Path) -> None:
    with lzma.open(packed, "rb") as read, (to / packed.stem).open("wb") as write:
        shutil.copyfileobj(read, write, CHUNK)
