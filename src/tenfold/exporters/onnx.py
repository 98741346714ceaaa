"""A model folder as an ONNX file that onnxruntime serves, each factor in it once.

OUT/onnx/model.onnx with the tokenizer and config.json beside: where sentence-transformers and optimum look for it.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tenfold.checkpoints import Source, find, first_line, load
from tenfold.errors import CheckpointError, TenfoldError
from tenfold.exporters.quantizing import quantize_
from tenfold.exporters.serving import hushed, session
from tenfold.exporters.tracing import Positional, axes, example, folding_in_the_graph, output_names
from tenfold.folders import complete_folder, refuse_existing
from tenfold.pipeline import copy_beside
from tenfold.records import history, stamp, write_history

Progress = Callable[[str], None]

FILE = Path("onnx") / "model.onnx"
NEAR = 1e-4
"""How far the file's outputs may be from the model's, beside the largest of them."""
COARSE = 0.5
"""And in 8 bits: what only a broken file exceeds. The difference is reported."""
SHAPES = ((1, 1), (2, 5), (4, 16))
"""Batches and lengths that the file is checked with, beside the traced one."""
INSTALL = "pip install 'tenfold[onnx]'"
LARGE = 1_900_000_000
"""Bytes from which weights go into a file of their own: a protobuf holds 2 GB."""


@dataclass(frozen=True)
class Exported:
    """`difference`: of the outputs to the model's, beside the largest of them; `bytes` of file and weights."""

    out: str
    file: str
    bytes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    difference: float
    int8: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def export_onnx(
    folder: str, out: Path, int8: bool = False, force: bool = False, progress: Progress = lambda _: None
) -> Exported:
    """FOLDER, compressed or dense, -> OUT. In single precision: onnxruntime's CPU kernels know little else.

    int8    word tables always, products where a timing shows that it is faster (thin factors seldom are)
    """
    require()
    refuse_existing(out, force)
    source = find(folder, weights=True)
    progress("loading the model")
    model: Any = load(source).float()
    with complete_folder(out, force) as partial:
        file = partial / FILE
        file.parent.mkdir()
        names, inputs = write(model, file, progress)
        quantized: tuple[str, ...] = ()
        progress("comparing with the model")
        difference = check(model, file, names)
        if int8:
            progress("choosing what to write in 8 bits")
            quantized = quantize_(file)
            difference = check(model, file, names, near=COARSE)
        _beside(source, model, partial)
        size = sum(part.stat().st_size for part in file.parent.iterdir())
        made = Exported(str(out), str(FILE), size, inputs, names, difference, quantized)
        assert source.folder is not None
        facts = {**made.to_dict(), "to": "onnx", "model": folder, "out": out.name}
        write_history(partial, history(source.folder), stamp("export", **facts))
    return made


def write(model: Any, file: Path, progress: Progress = lambda _: None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The graph of a model in memory at `file`; the names of its outputs and of its inputs."""
    require()
    inputs = example(model)
    caches, model.config.use_cache = getattr(model.config, "use_cache", None), False
    try:
        names = output_names(model, inputs)
        progress("tracing the graph")
        with torch.no_grad(), folding_in_the_graph(model), hushed():
            program = torch.onnx.export(
                Positional(model, tuple(inputs), names).eval(), tuple(inputs.values()), dynamo=True, optimize=False,
                dynamic_shapes=(tuple(axes(name) for name in inputs),), input_names=list(inputs), output_names=list(names),
                verbose=False,
            )  # fmt: skip
            assert program is not None
            _tidy(program)
            program.save(str(file), external_data=_bytes(model) > LARGE)
    except TenfoldError:
        raise
    except Exception as error:  # whatever torch's exporter makes of a model
        raise CheckpointError(f"torch must be able to trace {type(model).__name__}, got: {first_line(error)}") from error
    finally:
        if caches is not None:
            model.config.use_cache = caches
    return names, tuple(inputs)


def check(model: Any, file: Path, names: tuple[str, ...], near: float = NEAR) -> float:
    """The largest difference between the file's outputs and the model's, of several batches and lengths with padding."""
    run, worst = session(file), 0.0
    for seed, (batch, length) in enumerate(((3, 7), *SHAPES)):
        inputs = example(model, batch, length, seed)
        found = run.run(list(names), {name: value.numpy() for name, value in inputs.items()})
        with torch.no_grad():
            expected = model(**inputs)
        for name, value in zip(names, found, strict=True):
            worst = max(worst, _difference(torch.from_numpy(value), expected[name], inputs.get("attention_mask")))
    if not worst <= near:
        raise CheckpointError(
            f"the ONNX file must answer as the model does (to {near:g}), got a difference of {worst:.2g}: use torch"
        )
    return worst


def _difference(found: Tensor, expected: Tensor, mask: Tensor | None) -> float:
    """Over real tokens: what stands at padding means nothing, and a row that may look at nothing is anybody's."""
    if found.shape != expected.shape:
        raise CheckpointError(f"the ONNX file must give shapes {tuple(expected.shape)}, got {tuple(found.shape)}")
    if mask is not None and found.ndim > 1 and found.shape[:2] == mask.shape:
        found, expected = found[mask.bool()], expected[mask.bool()]
    return ((found - expected).abs().max() / expected.abs().max().clamp_min(1)).item()


def _tidy(program: Any) -> None:
    """Small constants worked out, nothing large: a fold of factors stays a fold. No word of the code that was traced."""
    from onnxscript import optimizer

    optimizer.optimize_ir(program.model, input_size_limit=1024, output_size_limit=1024)
    program.model.metadata_props.clear()
    program.model.graph.metadata_props.clear()
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()


def _beside(source: Source, model: Any, out: Path) -> None:
    """Tokenizer, pooling and a config.json that names no tenfold: the file needs none."""
    copy_beside(source, out)
    config = deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.save_pretrained(out)


def _bytes(model: Any) -> int:
    return sum(p.numel() * p.itemsize for p in model.parameters())


def require() -> None:
    for name in ("onnx", "onnxruntime", "onnxscript"):
        try:
            import_module(name)
        except ImportError as error:
            raise TenfoldError(f"ONNX needs onnx, onnxscript and onnxruntime, got no {name}: {INSTALL}") from error
