"""The path of another runtime, through the real export."""

from pathlib import Path

import pytest
from pico import save_folder

from tenfold.checkpoints import find, load
from tenfold.measurement.paths import Absent, Subject, output, prepare
from tenfold.measurement.rounds import difference
from tenfold.measurement.shapes import spread


def test_the_onnx_file_is_made_once_and_gives_what_the_model_gives(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    source = find(str(save_folder(tmp_path / "model", layers=1)), weights=True)
    work = tmp_path / "work"
    work.mkdir()
    subject = Subject("original", source, load(source), True, work)
    shape = spread([[7] * length for length in (4, 6, 9)], 3, pad=0)
    ready, eager = (prepare(path, subject, shape) for path in ("onnx", "eager"))
    assert difference(output(ready.run(shape.inputs)), output(eager.run(shape.inputs)), shape) < 1e-5
    session = subject.sessions["onnx"]
    prepare("onnx", subject, shape)
    assert subject.sessions["onnx"] is session
    half = Subject("original", source, load(source).bfloat16(), True, work)
    with pytest.raises(Absent, match="the ONNX file is measured in float32 on the CPU"):
        prepare("onnx", half, shape)
