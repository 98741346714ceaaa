"""measurement.json: what is written comes back, and what is something else is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from measuring import measurement

from tenfold.errors import CheckpointError, OutputError
from tenfold.measurement import from_dict, read_measurement, write_measurement
from tenfold.measurement.record import Flops, measurement_file
from tenfold.records import MEASUREMENT


def test_a_measurement_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_measurement(tmp_path) is None
    file = write_measurement(tmp_path, measurement())
    assert file == tmp_path / MEASUREMENT
    assert read_measurement(tmp_path) == measurement()
    assert json.loads(file.read_text())["version"] == 1


def test_a_record_finds_its_parts() -> None:
    found = measurement()
    assert (found.counts("original").name, found.counts("compressed").method) == ("o", "III-4")
    cell = found.cells[0]
    eager = cell.timing("compressed", "eager")
    assert eager is not None
    assert eager.median == 1e-3 / 0.75
    assert cell.timing("original", "compiled") is None
    for best in (True, False):
        ratio = cell.speedup("eager", best)
        assert ratio is not None
        assert ratio.estimate == 0.75
    assert cell.speedup("onnx", best=False) is None
    assert [each.agrees for each in found.flops] == [True, True]
    assert Flops("original", "eager", 8, 90, 100, 9).agrees is False


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 2}, "must have version 1, got 2: measure again"),
        ({"seconds": "long"}, "got Input should be a valid number, unable to parse string as a number at seconds"),
        ({"cells": None}, "at cells"),
    ],
)
def test_something_else_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(CheckpointError, match=MEASUREMENT) as error:
        from_dict(measurement().to_dict() | change)
    assert told in str(error.value)
    with pytest.raises(CheckpointError, match="must have version 1, got None"):
        from_dict([])


def test_a_measurement_goes_beside_the_model_or_where_it_is_told(tmp_path: Path) -> None:
    assert measurement_file(str(tmp_path), None) == tmp_path / MEASUREMENT
    with pytest.raises(OutputError, match=r"got some/name, which is no folder: give --out FILE.json"):
        measurement_file("some/name", None)
    assert measurement_file("some/name", tmp_path / "new" / "m.json") == tmp_path / "new" / "m.json"
    with pytest.raises(OutputError, match="--out must be a file, got the folder"):
        measurement_file("some/name", tmp_path)
    old = write_measurement(tmp_path, measurement())
    assert measurement_file("some/name", old) == old
    for text in ('{"mine": 1}', "no JSON"):
        (tmp_path / "mine.json").write_text(text)
        with pytest.raises(OutputError, match=r"--out replaces a measurement, got .*mine.json"):
            measurement_file("some/name", tmp_path / "mine.json")
