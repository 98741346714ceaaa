"""What a folder's safetensors files hold, read from their headers: names and shapes in milliseconds, no weights."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

from tenfold.errors import CheckpointError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Header:
    """shapes: tensor name -> shape; files: the shards, all of them present and of their full length."""

    shapes: dict[str, tuple[int, ...]]
    files: tuple[Path, ...]


def read_header(folder: Path) -> Header:
    files = _files(folder)
    shapes: dict[str, tuple[int, ...]] = {}
    for file in files:
        shapes.update(read_shapes(file))
    return Header(shapes, files)


def _files(folder: Path) -> tuple[Path, ...]:
    index = folder / INDEX
    if index.is_file():
        shards = sorted(set(_json(index)["weight_map"].values()))
        missing = [shard for shard in shards if not (folder / shard).is_file()]
        if missing:
            raise CheckpointError(
                f"every shard of {index} must be there, got no {', '.join(missing)}: download or copy the folder again"
            )
        return tuple(folder / shard for shard in shards)
    if (folder / SINGLE).is_file():
        return (folder / SINGLE,)
    pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt") for p in folder.glob(pattern))
    if pickles:
        raise CheckpointError(
            f"weights must be safetensors (a pickle can run code), got {', '.join(pickles)} in {folder}: convert with "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW) where you trust the file"
        )
    raise CheckpointError(f"a model folder must hold {SINGLE} or {INDEX}, got neither in {folder}: name the folder of a model")


def _json(path: Path) -> dict[str, dict[str, str]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(shard, str) for shard in data["weight_map"].values()):
            raise TypeError("the name of a file is no text")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} must be JSON with a weight_map, got something else ({error}): copy the file again"
        ) from error
    return data


def read_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor of one file, which must be whole."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > file.stat().st_size:
                raise ValueError("its header is longer than the file")
            entries = json.loads(stream.read(length))
        entries.pop("__metadata__", None)
        shapes = {name: tuple(entry["shape"]) for name, entry in entries.items()}
        end = 8 + length + max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{file} must be a safetensors file, got one that cannot be read ({error}): copy it again"
        ) from error
    if (size := file.stat().st_size) != end:
        state = "cut off" if size < end else "damaged"
        raise CheckpointError(f"{file} must be {end} bytes long by its header, got {size}: it is {state}, copy it again")
    return shapes
