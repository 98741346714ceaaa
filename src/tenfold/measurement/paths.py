"""The ways to run a model: as it is, compiled, with its constants folded, and in another runtime."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from tenfold.checkpoints import Source, first_line
from tenfold.measurement.record import Role
from tenfold.measurement.shapes import Inputs, Shape

EAGER, COMPILED, FUSED, ONNX = "eager", "compiled", "fused", "onnx"
BACKEND = "inductor"
SEGMENTS = "token_type_ids"


class Absent(Exception):
    """A path that this model does not have here, and why."""


@dataclass(frozen=True)
class Subject:
    """A model as it is measured: in one precision, on its device, in eval mode.

    whole     it is not the base model alone of what its folder holds
    work      a folder for what paths need on disk
    sessions  what is made once for all shapes
    """

    role: Role
    source: Source
    model: Any
    whole: bool
    work: Path
    sessions: dict[str, Any] = field(default_factory=dict)

    @property
    def compressed(self) -> bool:
        return self.source.compressed


@dataclass(frozen=True)
class Ready:
    """`run(inputs)` gives what the model gives. `model` holds the weights that it reads; None: another runtime has them.

    how     what was chosen for the fused path
    """

    run: Callable[[Inputs], Any]
    model: nn.Module | None
    seconds: float
    how: str


def prepare(path: str, subject: Subject, shape: Shape) -> Ready:
    """For one shape. Raises Absent where there is no such path, whatever the reason."""
    start = perf_counter()
    try:
        run, model, *how = PATHS[path](subject, shape)
    except Absent:
        raise
    except Exception as error:  # whatever a compiler, an exporter or a runtime makes of a model
        raise Absent(first_line(error)) from error
    return Ready(run, model, perf_counter() - start, "".join(how))


def output(found: Any) -> Tensor:
    """The first thing that a model gives: its last hidden states or its logits."""
    return torch.as_tensor(found[0])


Prepared = tuple[Callable[[Inputs], Any], nn.Module | None] | tuple[Callable[[Inputs], Any], nn.Module | None, str]


def _call(model: Any, inputs: Inputs) -> Any:
    with torch.inference_mode():
        return model(**inputs)


def _eager(subject: Subject, shape: Shape) -> Prepared:  # noqa: ARG001 - one signature for all
    return partial(_call, subject.model), subject.model


def _compiled(subject: Subject, shape: Shape) -> Prepared:  # noqa: ARG001
    """For this shape alone: the fastest code that the compiler has, for the original as for the compressed model."""
    return partial(_call, torch.compile(subject.model, dynamic=False, backend=BACKEND)), subject.model


def _fused(subject: Subject, shape: Shape) -> Prepared:
    """A compressed model as optimize_ chooses; an original as the chain of its whole matrices, the strongest exact way."""
    from tenfold.runtime import NoBlocks, dense_blocks_, optimize_

    model = copy.deepcopy(subject.model)
    if subject.compressed:
        how = optimize_(model, batch=shape.batch, length=shape.length).summary
    else:
        try:
            how = dense_blocks_(model)
        except NoBlocks as why:
            raise Absent(f"an original is fused where its encoder is one of BERT's blocks, and {why}") from why
    return partial(_call, model), model, how


def _onnx(subject: Subject, shape: Shape) -> Prepared:  # noqa: ARG001
    if subject.model.dtype != torch.float32 or subject.model.device.type != "cpu":
        raise Absent("the ONNX file is measured in float32 on the CPU")
    if not subject.whole:
        raise Absent("the ONNX file would hold the head that is left out here")
    if ONNX not in subject.sessions:
        subject.sessions[ONNX] = _load_onnx(subject)
    session = subject.sessions[ONNX]
    return partial(_session, session, {each.name for each in session.get_inputs()}), None


def _load_onnx(subject: Subject) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise Absent("it needs onnxruntime: pip install 'tenfold[onnx]'") from error
    from tenfold.exporters.onnx import export_onnx  # type: ignore[import-not-found, unused-ignore]

    out = subject.work / f"{subject.role}.{ONNX}"
    export_onnx(subject.source.name, out)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    file = next(out.rglob("*.onnx")) if out.is_dir() else out
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _session(session: Any, names: set[str], inputs: Inputs) -> Any:
    """One segment, as the model takes it where it is told of none."""
    given = inputs | {SEGMENTS: torch.zeros_like(inputs["input_ids"])} if SEGMENTS in names else inputs
    return session.run(None, {name: value.numpy() for name, value in given.items() if name in names})


PATHS: dict[str, Callable[[Subject, Shape], Prepared]] = {EAGER: _eager, COMPILED: _compiled, FUSED: _fused, ONNX: _onnx}
