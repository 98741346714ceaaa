"""Every mistake is one line that says the rule, what was received and what to do; exit code 2; nothing is left behind."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ran, run
from pico import CORPUS, pico, save_folder
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, T5Config

Break = Callable[[Path], object]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to work in, with MODEL (a pico BERT) and TEXT in it."""
    save_folder(tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n".join(CORPUS), encoding="utf-8")
    return tmp_path


def refused(place: Path, *words: object, code: int = 2) -> str:
    """The one line of a command that must fail and leave everything as it was."""
    before = snapshot(place)
    done = run(*words)
    assert done.code == code, done.err
    assert done.out == ""
    assert re.fullmatch(r"tenfold: [^\n]+\n", done.err), done.err
    assert snapshot(place) == before
    return done.err


def snapshot(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() if path.is_file() else b"" for path in place.rglob("*")}


# What is asked for

ASKED: dict[str, tuple[list[str], str]] = {
    "a rank above the matrix": (["--method", "III-33"], "must lie between 1 and 32 .* got 33: choose a rank in that range"),
    "a private rank above the matrix": (["--method", "II-40"], "must lie between 1 and 32 .* got 40"),
    "a rank of zero": (["--method", "II-0"], "must lie between 1 and 32 .* got 0"),
    "a bank above the group": (["--method", "IV-25-8"], "bank of tucker must lie between 1 and 24 .* got 25"),
    "an output rank above the matrix": (["--method", "III-8x33"], "output rank .* between 1 and 32 .* got 33"),
    "a size that cannot be met": (["--to", "1/1000"], r"1/1000 of model .* cannot be met: the smallest that can is 0\.\d+"),
    "a size of more than all": (["--to", "1.5"], r"must lie between 0 and 1 .* got 1\.5"),
    "a size that is no number": (["--to", "tiny"], 'got "tiny": write 1/10, 0.1 or 10%'),
    "a size over zero": (["--to", "1/0"], 'got "1/0": write 1/10'),
    "an unknown method": (
        ["--method", "V-12"],
        r'must be one of the paper\'s names or a sum of two, got "V-12": did you mean "IV-',
    ),
    "a method without its rank": (["--method", "IV-36"], 'IV a bank size and a rank.* got "IV-36": for example'),
    "no method and no size": ([], "needs either a method or a size"),
    "both": (["--method", "II-4", "--to", "1/2"], "needs either a method or a size, got method II-4 and size 1/2"),
    "unknown sites": (
        ["--method", "II-4", "--sites", "heads"],
        "compress.sites is wrong: .*'attention' or 'ffn'.* got 'heads'",
    ),
    "an unknown grouping": (["--method", "II-4", "--group", "layers"], 'all, role, layers:K or none, got "layers"'),
    "a tile that does not divide": (
        ["--method", "II-4", "--tile", "20x20"],
        "tiles must divide .* got 20x20 for .*: try square",
    ),
    "a tile that is none": (["--method", "II-4", "--tile", "big"], 'square, whole or IxO, got "big"'),
    "an unknown family": (["--method", "II-4", "--family", "brt"], 'got "brt": did you mean "bert"'),
    "a family of another model": (["--method", "II-4", "--family", "gpt2"], 'family "gpt2" expects blocks at h, got none'),
    "too many word vectors": (["--method", "II-4", "--embeddings", "33"], "must lie between 1 and 32 .* got 33"),
    "an unknown recipe key": (["--set", "compress.metod=II-4"], r'got "compress\.metod": did you mean "method"\?'),
    "an unknown section": (["--set", "compres.method=II-4"], r'got "compres": did you mean "compress"\?'),
    "an assignment without a value": (["--set", "compress.method"], '--set takes key=value, got "compress.method"'),
    "a value of a wrong kind": (["--set", "compress.rounds=many"], r"compress\.rounds is wrong: .* got 'many'"),
    "a recipe that is not there": (["--recipe", "absent.yaml"], "must be a readable file, got absent.yaml: No such file"),
}


@pytest.mark.parametrize("verb", ["plan", "compress"])
@pytest.mark.parametrize("what", ASKED)
def test_what_cannot_be_had_is_refused(what: str, verb: str, place: Path) -> None:
    options, message = ASKED[what]
    target = [place / "out"] if verb == "compress" else []
    assert re.search(message, refused(place, verb, place / "model", *target, *options, *["--json"] * (verb == "plan")))


def test_the_smallest_size_that_can_be_met_can(place: Path) -> None:
    line = refused(place, "plan", place / "model", "--to", "1/1000", "--of", "matrices")
    smallest = re.search(r"the smallest that can is (\S+) ", line)
    assert smallest
    ran("plan", place / "model", "--to", float(smallest[1]) + 1e-4, "--of", "matrices")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("compress: [", r"a recipe must be YAML, got .*recipe\.yaml: "),
        ("- a", r"a recipe must be a YAML mapping, got list"),
        ("compress: {method: II-4, rank: 3}", r'got "compress\.rank": '),
        ("version: 9\ncompress: {method: II-4}", r"the recipe key version is wrong: .* got 9"),
    ],
)
def test_a_wrong_recipe_is_refused(content: str, message: str, place: Path) -> None:
    (place / "recipe.yaml").write_text(content)
    assert re.search(message, refused(place, "compress", place / "model", place / "out", "--recipe", place / "recipe.yaml"))


STARTS: dict[str, tuple[list[str], str]] = {
    "activation without text": (["--init", "activation"], "start activation needs text .* got none: give --text FILE"),
    "recollecting without text": (["--recollect"], "recollect needs text to run, got none: give --text FILE"),
    "an unknown start": (["--init", "svd"], "compress.init is wrong: .*'hosvd', 'hooi' or 'activation', got 'svd'"),
    "text that is not there": (
        ["--text", "absent.txt"],
        "must be a file, a folder, a glob or datasets:NAME, got absent.txt: there is",
    ),
    "rows longer than the model": (["--text", "TEXT"], "must fit the model's tables of words and positions, .* in rows of 128"),
    "too little text": (["--text", "TEXT", "--set", "compress.length=20000"], "at least one row of 20000 tokens, got less"),
}


@pytest.mark.parametrize("what", STARTS)
def test_a_start_that_cannot_be_made_is_refused(what: str, place: Path) -> None:
    options, message = STARTS[what]
    words = [str(place / "text.txt") if word == "TEXT" else word for word in options]
    assert re.search(message, refused(place, "compress", place / "model", place / "out", "--method", "II-4", *words))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "at least one line of text, got an empty one"), (b"a\0b", "zero bytes"), (b"\xff\xfe\xff", "must be UTF-8")],
)
def test_text_that_is_none_is_refused(content: bytes, message: str, place: Path) -> None:
    (place / "text.txt").write_bytes(content)
    line = refused(place, "compress", place / "model", place / "out", "--method", "II-4", "--text", place / "text.txt")
    assert message in line


def test_text_for_a_model_of_pictures_is_refused(place: Path) -> None:
    folder = save_folder(place / "vit", "vit")
    line = refused(place, "compress", folder, place / "out", "--method", "II-4", "--text", place / "text.txt")
    assert re.search(r"--text is for models that read tokens, got \S+, which reads pixel_values: leave it out", line)


def test_text_without_a_tokenizer_is_refused(place: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (place / "model" / name).unlink()
    line = refused(place, "compress", place / "model", place / "out", "--method", "II-4", "--text", place / "text.txt")
    assert re.search(r"text needs a tokenizer in .*model, got none that loads \(.*\): add it, or take --init hosvd", line)


def test_a_tokenizer_with_more_words_than_the_model_is_refused(place: Path) -> None:
    shutil.rmtree(place / "model")
    pico("bert", vocab_size=30).save_pretrained(place / "model")
    other = save_folder(place / "other")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(other / name, place / "model")
    line = refused(
        place, "compress", place / "model", place / "out", "--method", "II-4", "--text", place / "text.txt",
        "--set", "compress.length=32",
    )  # fmt: skip
    assert re.search(r"got token numbers up to \d+ in rows of 32: take the model's own tokenizer", line)


# The model


def edit(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def write(name: str, content: str | bytes) -> Break:
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def cut(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def lengthen(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as stream:
        stream.write(b"more")


def pickle_only(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def header_of(entries: object, tail: bytes = b"") -> Break:
    text = json.dumps(entries).encode()
    return write("model.safetensors", struct.pack("<Q", len(text)) + text + tail)


def shards(folder: Path) -> list[Path]:
    pico("bert").save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink()
    return sorted(folder.glob("*.safetensors"))


def cut_shard(folder: Path) -> None:
    shard = shards(folder)[1]
    shard.write_bytes(shard.read_bytes()[:-1])


def index_of(weight_map: object) -> Break:
    return lambda folder: (folder / "model.safetensors.index.json").write_text(json.dumps(weight_map))


def set_weight(name: str, value: float | None) -> Break:
    """To one number all over, or to nothing."""

    def change(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        weight = weights.pop(name)
        if value is not None:
            weights[name] = torch.full_like(weight, value)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})

    return change


MATRIX, NORM = "encoder.layer.1.attention.self.key.weight", "embeddings.LayerNorm.weight"
BROKEN: dict[str, tuple[Break, str]] = {
    "a file that is cut off": (cut, r"model\.safetensors must be \d+ bytes long by its header, got \d+: it is cut off"),
    "a file that is too long": (lengthen, r"must be \d+ bytes long by its header, got \d+: it is damaged, copy it again"),
    "an empty file": (write("model.safetensors", b""), "must be a safetensors file, got one that cannot be read"),
    "a file that is none": (write("model.safetensors", b"\xff" * 100), "its header is longer than the file"),
    "a header that is no JSON": (write("model.safetensors", struct.pack("<Q", 4) + b"{{{{"), "one that cannot be read"),
    "a header that is a list": (header_of([1, 2]), "must be a safetensors file, got one that cannot be read"),
    "a header of something else": (header_of({"a": 1}), "must be a safetensors file, got one that cannot be read"),
    "a header without shapes": (header_of({"a": {"dtype": "F32"}}), "must be a safetensors file, got one that cannot be read"),
    "a missing shard": (lambda f: shards(f)[1].unlink(), r"every shard of .*index\.json must be there, got no model-00002-of"),
    "a cut shard": (cut_shard, r"model-00002-of-\d+\.safetensors must be \d+ bytes long by its header"),
    "an index that is no JSON": (write("model.safetensors.index.json", b"{"), "must be JSON with a weight_map"),
    "an index without a map": (index_of({}), "must be JSON with a weight_map"),
    "an index of numbers": (index_of({"weight_map": {"a": 1}}), "must be JSON with a weight_map"),
    "an index that is a list": (index_of([]), "must be JSON with a weight_map"),
    "only a pickle": (
        pickle_only,
        r"must be safetensors \(a pickle can run code\), got pytorch_model\.bin in .*: convert with",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), r"must hold model\.safetensors or .*, got neither in"),
    "no config": (lambda f: (f / "config.json").unlink(), r"must hold a config\.json, got none in"),
    "a config that is no JSON": (write("config.json", "{"), r"MODEL must be a folder, .*not a valid JSON"),
    "a config that is a list": (write("config.json", "[]"), "MODEL must be a folder, a config.json or a hub name"),
    "a config of nothing": (write("config.json", "{}"), "MODEL must be a folder, a config.json or a hub name"),
    "a config with a field that does not fit": (lambda f: edit(f, model_type="t5"), "Validation error for field .*: TypeError"),
    "an unknown model type": (lambda f: edit(f, model_type="brt"), "MODEL must be a folder, a config.json or a hub name"),
    "a type that AutoModel lacks": (lambda f: edit(f, model_type="encoder-decoder"), "MODEL must be"),
    "a width that is a word": (lambda f: edit(f, hidden_size="wide"), "MODEL must be a folder, a config.json or a hub name"),
    "a width below zero": (lambda f: edit(f, hidden_size=-32), "config.json must describe a model that can be built"),
    "heads that do not divide": (lambda f: edit(f, num_attention_heads=5), "config.json must describe a model that can be"),
    "another width": (
        lambda f: edit(f, hidden_size=64),
        r"got \(32,\) instead of \(64,\) for \S+ and \d+ more: take the config",
    ),
    "a missing weight": (set_weight(MATRIX, None), f"got none for {MATRIX}: name a whole checkpoint"),
    "more layers than weights": (lambda f: edit(f, num_hidden_layers=3), r"got none for encoder\.layer\.2\.\S+ and 15 more"),
    "NaN": (set_weight(MATRIX, float("nan")), f"finite, got NaN or infinity in {MATRIX}: use a sound checkpoint"),
    "infinity in a norm": (set_weight(NORM, float("inf")), f"finite, got NaN or infinity in {NORM}: use"),
    "weights packed by another library": (
        lambda f: edit(f, quantization_config={"quant_method": "gptq", "bits": 4}),
        "starts from dense weights, got .* which holds gptq weights: make it dense with its own library first",
    ),
    "blocks without a matrix": (lambda f: edit(f, num_hidden_layers=0), 'family "bert"'),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_model_is_refused(what: str, place: Path) -> None:
    break_, message = BROKEN[what]
    break_(place / "model")
    assert re.search(message, refused(place, "compress", place / "model", place / "out", "--method", "II-4"))


@pytest.mark.parametrize("verb", ["plan", "compress", "export"])
@pytest.mark.parametrize("name", ["nowhere/at/all", "./nowhere", "/nowhere", "no-such-model-of-anybody", "text.txt", "."])
def test_a_model_that_is_not_there_is_refused(name: str, verb: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    words = {"plan": [name, "--method", "II-4"], "compress": [name, "out", "--method", "II-4"], "export": [name, "out"]}[verb]
    line = refused(place, verb, *words)
    assert name in line
    assert re.search(r"must be|must hold|needs weights", line)


def test_plan_refuses_what_compress_would_see_in_the_headers(place: Path) -> None:
    for break_, message in (BROKEN["a file that is cut off"], BROKEN["a missing shard"], BROKEN["heads that do not divide"]):
        shutil.rmtree(place / "model")
        save_folder(place / "model")
        break_(place / "model")
        assert re.search(message, refused(place, "plan", place / "model", "--method", "II-4"))


def test_a_family_that_has_no_file_is_refused(place: Path) -> None:
    T5Config(d_model=32, num_layers=2, num_decoder_layers=2, vocab_size=50).save_pretrained(place / "t5")
    line = refused(place, "plan", place / "t5", "--method", "II-4")
    assert re.search(r'must have a family file, got "t5" \(known: bert, .*\): pass --family auto', line)


def test_a_compressed_model_is_compressed_through_its_dense_export(place: Path) -> None:
    ran("compress", place / "model", place / "small", "--method", "III-8")
    for words in (["compress", place / "small", place / "out"], ["plan", place / "small"]):
        line = refused(place, *words, "--method", "II-4")
        assert re.search(
            r"starts from dense weights, got .*small, which holds tenfold weights: .*tenfold export --to dense", line
        )
    assert "is dense already" in refused(place, "export", place / "model", place / "out")
    ran("export", place / "small", place / "dense", "--to", "dense")
    ran("compress", place / "dense", place / "out", "--method", "II-4")


def test_an_export_to_something_unknown_is_refused(place: Path) -> None:
    ran("compress", place / "model", place / "small", "--method", "III-8")
    assert re.search(
        'must be onnx or dense, got "onyx"', refused(place, "export", place / "small", place / "out", "--to", "onyx")
    )


# OUT


@pytest.mark.parametrize("verb", ["compress", "export"])
def test_an_output_that_exists_is_refused(verb: str, place: Path) -> None:
    ran("compress", place / "model", place / "small", "--method", "III-8")
    words = ["compress", place / "model", "--method", "II-4"] if verb == "compress" else ["export", place / "small"]
    (place / "empty").mkdir()
    for out in ("small", "empty", "text.txt"):
        line = refused(place, *words[:2], place / out, *words[2:])
        assert re.search(f"must not exist, got .*{out}: choose another name, or pass --force to replace it", line)
    (place / "thesis").mkdir()
    (place / "thesis" / "thesis.tex").write_text("years of work")
    for out in ("thesis", "text.txt", "."):
        line = refused(place, *words[:2], place / out, *words[2:], "--force")
        assert re.search(r"--force replaces a model folder, got .*, which holds no config\.json: choose another name", line)


def test_an_output_that_cannot_be_written_is_refused(place: Path) -> None:
    line = refused(place, "compress", place / "model", place / "text.txt" / "out", "--method", "II-4")
    assert "the output folder must be writable" in line


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_leaves_nothing(error: Exception, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--force keeps the old OUT too."""
    ran("compress", place / "model", place / "small", "--method", "III-8")
    save = PreTrainedModel.save_pretrained

    def save_and_fail(model: PreTrainedModel, folder: Path) -> None:
        save(model, folder)
        raise error

    monkeypatch.setattr(PreTrainedModel, "save_pretrained", save_and_fail)
    for words in (
        ["compress", place / "model", place / "out", "--method", "II-4"],
        ["compress", place / "model", place / "small", "--method", "II-4", "--force"],
        ["export", place / "small", place / "out"],
    ):
        assert re.search(r"needs more disk space than there is \(.*\): free some, nothing was kept", refused(place, *words))


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small file system")
def test_a_disk_that_is_really_full_leaves_nothing(place: Path) -> None:
    disk = place / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode:
        pytest.skip("no right to mount")
    try:
        line = refused(place, "compress", place / "model", disk / "out", "--method", "II-4")
        assert re.search(r"writing .*out needs more disk space than there is \(.*\): free some, nothing was kept", line)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# A process of its own: no traceback, no warning, no progress bar around the line


@pytest.mark.parametrize("what", ["NaN", "a missing weight", "another width"])
def test_a_process_prints_the_line_and_nothing_else(what: str, place: Path) -> None:
    break_, message = BROKEN[what]
    break_(place / "model")
    words = ["compress", str(place / "model"), str(place / "out"), "--method", "II-4"]
    done = subprocess.run([sys.executable, "-m", "tenfold", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"tenfold: .*{message}.*\n", done.stderr), done.stderr
