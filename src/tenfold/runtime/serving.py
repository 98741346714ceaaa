"""A folder that is to be served: what optimize_ chooses for it, printed, and on request kept beside its weights.

runtime.json    {"version": 1, "command", "time", "versions", "machine", "batch", "length", "dtype", "device", "threads",
                 "choices": [{"kind", "roles", "count", "path", "why", "predicted", "measured"}]}

`optimize_` of a model that was loaded from the folder follows it: it takes its batch and length where none are given, and its
ways, without timing, on the device and in the precision that they were chosen for.
"""

from typing import Any

import torch

from tenfold.checkpoints import find, load
from tenfold.errors import CheckpointError, TenfoldError, nearest
from tenfold.records import stamp, write_json
from tenfold.runtime.optimizing import FILE, VERSION, Optimized, optimize_
from tenfold.runtime.ways import AUTO

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def optimize_folder(
    folder: str,
    batch: int | None = None,
    length: int | None = None,
    dtype: str | None = None,
    device: str | None = None,
    path: str = AUTO,
    save: bool = False,
) -> Optimized:
    """What a model loaded from FOLDER would compute with. `save` writes runtime.json into it; nothing else is left there."""
    source = find(folder, weights=True)
    if not source.compressed:
        raise CheckpointError(
            f"optimize needs a folder that tenfold compressed, got {folder}, which is dense: compress it first"
        )
    model: Any = load(source)
    model.to(**_place(dtype, device))
    found = optimize_(model, batch, length, path, saved=False)
    if save:
        assert source.folder is not None
        write_json(source.folder / FILE, {"version": VERSION, **stamp("optimize", **found.to_dict())})
    return found


def _place(dtype: str | None, device: str | None) -> dict[str, Any]:
    place: dict[str, Any] = {}
    if dtype is not None:
        if dtype not in DTYPES:
            raise TenfoldError(f'--dtype must be one of {", ".join(DTYPES)}, got "{dtype}": {nearest(dtype, DTYPES)}')
        place["dtype"] = DTYPES[dtype]
    try:
        place["device"] = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=place["device"])
    except Exception as error:  # whatever torch says of a device that is not there
        raise TenfoldError(f'--device must be one that torch can use, got "{device}": try cpu or cuda') from error
    return place
