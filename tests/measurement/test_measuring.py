"""Folders against folders, and the verb."""

import json
import sys
from pathlib import Path

import pytest
from command import ran, run
from measuring import work
from pico import CORPUS, pico, save_folder, tokenizer

import tenfold
from tenfold.errors import TenfoldError
from tenfold.measurement import Measurement, Settings, from_dict, measure_folders, read_measurement
from tenfold.measurement.record import Cell
from tenfold.planning import SCOPES
from tenfold.records import MEASUREMENT

QUICK = Settings(batches=(1, 2), lengths=(8,), repeats=6)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_folder(tmp_path_factory.mktemp("models") / "original"))


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "compressed"
    model = pico("bert")
    tenfold.compress_(model, tenfold.plan(model, "IV-4-8"), init="random")
    model.save_pretrained(folder)
    tokenizer(token_types=True).save_pretrained(folder)
    return str(folder)


def work_of(found: Measurement, path: str = "eager") -> list[tuple[float, float]]:
    """(original, compressed) in each cell."""

    def seconds(cell: Cell, model: str) -> float:
        timing = cell.timing(model, path)  # type: ignore[arg-type]
        assert timing is not None and timing.median is not None
        return timing.median

    return [(seconds(cell, "original"), seconds(cell, "compressed")) for cell in found.cells]


def test_a_model_against_itself_does_the_same_work(monkeypatch: pytest.MonkeyPatch, original: str) -> None:
    """On a clock that ticks once an operation of torch the ratio is 1, and the interval has no width."""
    monkeypatch.setattr("tenfold.measurement.measuring.clock_of", lambda _: work)
    found = measure_folders(original, original, QUICK)
    assert all(a == b > 50 for a, b in work_of(found))
    for cell in found.cells:
        (ratio,) = cell.speedups
        assert (ratio.estimate, ratio.low, ratio.high, ratio.best, ratio.verdict) == (1, 1, 1, True, "no difference shown")
    assert found.crossovers == ()
    assert found.original == found.compressed


def test_a_compressed_model_does_other_work(monkeypatch: pytest.MonkeyPatch, original: str, compressed: str) -> None:
    """More and smaller operations than the original: on this clock it is slower, everywhere, and that is said."""
    monkeypatch.setattr("tenfold.measurement.measuring.clock_of", lambda _: work)
    found = measure_folders(compressed, original, QUICK)
    assert all(a < b for a, b in work_of(found))
    assert [cell.speedups[0].estimate for cell in found.cells] == pytest.approx([a / b for a, b in work_of(found)])
    assert found.crossovers == ("eager, float32: slower than the original (eager) at every batch measured at length 8",)


def test_everything_is_counted(original: str, compressed: str) -> None:
    steps: list[str] = []
    found = measure_folders(
        compressed, original, Settings(batches=(2,), dtypes=("float32", "bfloat16"), repeats=6), steps.append
    )
    before, after = found.original, found.compressed
    assert before.parameters.keys() == after.parameters.keys() == SCOPES.keys()
    assert (before.method, after.method, before.cls, after.cls) == (None, "IV-4-8", "BertModel", "BertModel")
    for counts in (before, after):
        assert counts.memory_bytes.keys() == {"float32", "bfloat16"}
        assert counts.memory_bytes["bfloat16"] < counts.memory_bytes["float32"]
        assert counts.disk_bytes == (Path(counts.name) / "model.safetensors").stat().st_size
    assert [(each.model, each.path, each.length, each.agrees) for each in found.flops] == [
        ("original", "eager", 32, True),
        ("compressed", "eager", 32, True),
    ]
    assert [(cell.batch, cell.label, cell.dtype) for cell in found.cells] == [(2, "32", "float32"), (2, "32", "bfloat16")]
    assert [(each.model, each.dtype) for each in found.throughput] == [
        (model, dtype) for dtype in ("float32", "bfloat16") for model in ("original", "compressed")
    ]
    assert found.machine["device"] == "cpu"
    assert found.machine["peak_rss_bytes"] > 10**8
    assert "batch 2, length 32: timing" in steps
    assert from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_peak_memory_is_the_weights_and_what_a_call_holds(original: str, compressed: str) -> None:
    found = measure_folders(compressed, original, Settings(batches=(1, 16), lengths=(32,), repeats=6))
    for role in ("original", "compressed"):
        weights = found.counts(role).memory_bytes["float32"]
        one, many = (cell.timing(role, "eager") for cell in found.cells)
        assert one is not None and many is not None and one.peak_bytes is not None and many.peak_bytes is not None
        assert weights < one.peak_bytes < weights + 60_000
        assert many.peak_bytes - weights == pytest.approx(16 * (one.peak_bytes - weights), rel=0.2)


def test_heads_that_differ_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compressed: str) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    headed = save_folder(tmp_path / "headed", head="masked_lm")
    found = measure_folders(compressed, str(headed), Settings(batches=(1,), lengths=(8,), repeats=6, paths=("eager", "onnx")))
    assert found.original.cls == found.compressed.cls == "BertModel"
    assert found.original.parameters["matrices"] == 24_576
    assert found.notes[0] == "the heads differ, so the base models were measured: BertModel against BertModel"
    onnx = found.cells[0].timing("original", "onnx")
    assert onnx is not None
    assert (onnx.state, onnx.why) == ("absent", "the ONNX file would hold the head that is left out here")


def test_models_of_other_sizes_are_told(tmp_path: Path, compressed: str) -> None:
    deeper = save_folder(tmp_path / "deeper", layers=3)
    found = measure_folders(compressed, str(deeper), Settings(batches=(1,), lengths=(8,), repeats=6))
    assert found.notes == (
        "the two were not made from one model: the matrices of one had 36,864 parameters, of the other 24,576",
    )


def test_pictures_are_measured_too(tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "vit", "vit")
    found = measure_folders(str(folder), str(folder), Settings(batches=(2,), repeats=6))
    assert [(cell.label, cell.tokens) for cell in found.cells] == [("picture", 20)]
    assert all(each.agrees for each in found.flops)


def test_too_few_rounds_are_said(original: str) -> None:
    found = measure_folders(original, original, Settings(batches=(1,), lengths=(8,), max_seconds=1e-9))
    assert found.notes == (
        "batch 1, length 8, float32: 1 rounds are too few for an interval; give --max-seconds more, or --repeats",
    )
    (ratio,) = found.cells[0].speedups
    assert (ratio.low, ratio.high, ratio.verdict) == (None, None, "no difference shown")


def test_where_nothing_runs_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, original: str) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(
        TenfoldError, match=r"at least one path must run, got none: original, onnx: .*pip install 'tenfold\[onnx\]'"
    ):
        measure_folders(original, original, Settings(batches=(1,), lengths=(8,), paths=("onnx",), repeats=6))


@pytest.mark.parametrize("device", ["gpu", "mps", "cuda", "cuda:1"])
def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, original: str, device: str) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(TenfoldError, match=f'--device must be cpu.*got "{device}"'):
        measure_folders(original, original, Settings(device=device))


def test_the_verb_writes_beside_the_model_and_draws(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, original: str, compressed: str
) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path / "cache"))
    done = ran(
        "measure", compressed, "--against", original, "--batch", "1,2", "--length", "8", "--paths", "eager,fused",
        "--repeats", 6, "--figure", tmp_path / "figures" / "times.png",
    )  # fmt: skip
    for words in (
        "parameters, model",
        "GFLOP a sequence of 8, eager",
        "most sequences a second",
        "original, fused: dense blocks (at 1 x 8, 2 x 8)",
        "compressed, fused: ",
    ):
        assert words in done.out
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"times.png", "times.svg", "times.csv"}
    found = read_measurement(Path(compressed))
    assert found is not None
    assert found.command[:3] == ["tenfold", "measure", compressed]


def test_the_verb_prints_what_it_writes(tmp_path: Path, original: str, compressed: str) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(CORPUS), encoding="utf-8")
    words = ("--batch", 4, "--lengths-from", text, "--paths", "eager", "--repeats", 6, "--memory-limit", "1GB", "--seed", 3)
    done = ran("measure", compressed, "--against", original, *words, "--out", tmp_path / "m.json", "--json")
    assert done.data == json.loads((tmp_path / "m.json").read_text())
    found = from_dict(done.data)
    assert found.cells[0].tokens < 4 * found.cells[0].length
    assert (found.settings["seed"], found.settings["memory_limit"]) == (3, 10**9)
    assert found.settings["lengths_from"] == str(text)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--paths", "quick"), 'a path must be one of eager, compiled, fused, onnx, got "quick"'),
        (("--batch", "one"), '--batch must be whole numbers with commas between, got "one"'),
        (("--length", "1000"), "a length must be at most 64, the positions that the models have, got 1000"),
        (("--figure", "times.pdf"), "--figure must be a name that ends in .png"),
        (("--lengths-from", "nowhere.txt"), "nowhere.txt"),
    ],
)
def test_a_mistake_costs_one_line_and_writes_nothing(original: str, words: tuple[str, ...], told: str) -> None:
    done = run("measure", original, "--against", original, *words)
    assert done.code == 2
    assert done.err.startswith("tenfold: ")
    assert done.err.count("\n") == 1
    assert told in done.err
    assert not (Path(original) / MEASUREMENT).exists()
