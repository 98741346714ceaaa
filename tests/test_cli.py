"""What the verbs print and write; what is wrong with their input is in test_bad_input.py."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from command import ran, run
from pico import CORPUS, inputs, pico, pico_config, save_folder
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import tenfold
from tenfold.cli import app
from tenfold.reporting.paper import TABLES

VERBS = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_folder(tmp_path / "model")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(CORPUS), encoding="utf-8")
    return path


def output(model: Any, arguments: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        found = model(**arguments)[0]
    assert isinstance(found, Tensor)
    return found


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "tenfold", *map(str, words)]


# Help


def test_help_lists_the_verbs_without_importing_torch() -> None:
    assert {"plan", "compress", "export"} <= set(VERBS)
    code = "import sys; from tenfold.cli import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    help_, modules = done.stdout.rstrip().rsplit("\n", 1)
    assert all(verb in help_ for verb in VERBS)
    assert not {"torch", "transformers", "numpy", "pydantic"} & set(modules.split())


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_shows_a_command_that_exists(verb: str) -> None:
    done = ran(verb, "--help")
    example = re.search(r"Example: tenfold (.*)", done.out)
    assert example
    words = example[1].split()
    found = typer.main.get_command(app).commands[words[0]]  # type: ignore[attr-defined]
    known = {name for parameter in found.params for name in parameter.opts}
    assert words[0] == verb
    assert {word for word in words if word.startswith("--")} <= known
    assert {"--json", "--seed"} <= known


def test_no_verb_is_help_and_a_wrong_one_is_exit_2() -> None:
    assert "Usage: tenfold" in run().out + run().err
    assert run("plam").code == 2
    assert run("plan", "--no-such-option").code == 2


# plan


def test_plan_prints_the_counts(folder: Path) -> None:
    data = ran("plan", folder, "--method", "III-8", "--json").data
    plan = tenfold.plan(folder, "III-8")
    assert data["method"] == "III-8"
    for scope in ("matrices", "paper", "model"):
        counts = data["parameters"][scope]
        assert counts["after"] == plan.kept(scope) < counts["before"]
        assert counts["ratio"] == pytest.approx(counts["after"] / counts["before"])
    assert data["parameters"]["model"]["before"] == sum(p.numel() for p in pico("bert").parameters())
    assert (data["flops"]["before"], data["flops"]["after"]) == plan.flops(1, 128)
    assert [group["form"] for group in data["groups"]] == [{"kind": "tensor_train", "p": 8, "q": 8}]
    shown = ran("plan", folder, "--method", "III-8").out
    assert f"{data['parameters']['model']['after']:,}" in shown
    assert "24 of 32 x 32" in shown


def test_plan_finds_the_largest_method_within_a_size(folder: Path) -> None:
    data = ran("plan", folder, "--to", "1/4", "--of", "matrices", "--json").data
    assert data["method"] == data["candidates"][0]["method"]
    assert len(data["candidates"]) > 2
    for candidate in data["candidates"]:
        assert 0.1 < candidate["parameters"]["matrices"]["ratio"] <= 0.25
    shown = ran("plan", folder, "--to", "25%", "--of", "matrices").out
    assert data["why"] in " ".join(shown.split())


def test_plan_does_not_read_weights(folder: Path) -> None:
    expected = ran("plan", folder, "--method", "IV-4-8", "--json").data
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    weights.write_bytes(content[:start] + b"\xff" * (len(content) - start))
    assert ran("plan", folder, "--method", "IV-4-8", "--json").data == expected


def test_plan_takes_a_bare_config(tmp_path: Path) -> None:
    pico_config("llama_gqa").save_pretrained(tmp_path)
    for model in (tmp_path, tmp_path / "config.json"):
        data = ran("plan", model, "--method", "II-4", "--json").data
        assert data["parameters"]["model"]["before"] == sum(p.numel() for p in pico("llama_gqa").parameters())


# compress


def test_compress_writes_a_folder_that_loads(folder: Path, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    data = ran(
        "compress", folder, out, "--method", "III-8", "--text", text, "--tokens", 2048, "--set", "compress.length=32", "--json"
    ).data
    assert data["out"] == str(out)
    assert data["bytes"] == (out / "model.safetensors").stat().st_size
    assert data["seconds"] > 0
    [fit] = data["fits"]
    assert (fit["group"], fit["init"]) == ("all", "activation")
    assert 0 < fit["output_error"] < fit["weight_error"] < 1
    loaded = AutoModel.from_pretrained(out)
    assert sum(p.numel() for p in loaded.parameters()) == data["parameters"]["model"]["after"]
    assert (output(loaded, inputs(loaded)) - output(pico("bert"), inputs(loaded))).norm() > 0.1
    assert AutoTokenizer.from_pretrained(out)(CORPUS[0]) == AutoTokenizer.from_pretrained(folder)(CORPUS[0])
    assert [path.name for path in out.parent.iterdir()] == ["out"]

    [entry] = json.loads((out / "history.json").read_text())
    assert {**data, "out": "out", "seconds": 0}.items() <= (entry | {"seconds": 0}).items()
    assert entry["command"][:3] == ["tenfold", "compress", str(folder)]
    assert (entry["verb"], entry["model"], entry["settings"]["init"]) == ("compress", str(folder), "auto")
    assert entry["versions"]["torch"] == torch.__version__


def test_the_recipe_in_the_folder_makes_the_same_bytes_again(folder: Path, text: Path, tmp_path: Path) -> None:
    """Options win over --set, --set over the file; what came of it is in OUT/recipe.yaml."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("version: 1\ncompress:\n  method: II-2\n  init: hosvd\n  rounds: 2\n  length: 32\n  tokens: 512\n")
    out, again = tmp_path / "out", tmp_path / "again"
    ran(
        "compress", folder, out, "--recipe", recipe, "--set", "compress.method=II-3", "--set", "compress.init=activation",
        "--set", "compress.rounds=1", "--method", "IV-4-8", "--text", text,
    )  # fmt: skip
    assert tenfold.plan_of(AutoModel.from_pretrained(out)).method == "IV-4-8"
    written = (out / "recipe.yaml").read_text()
    for line in ("method: IV-4-8", "init: activation", "rounds: 1", "length: 32", "tokens: 512", f"model: {folder}"):
        assert line in written
    ran("compress", folder, again, "--recipe", out / "recipe.yaml")
    assert (again / "recipe.yaml").read_text() == written
    for name in ("model.safetensors", "config.json"):
        assert (again / name).read_bytes() == (out / name).read_bytes()
    ran(
        "compress",
        folder,
        tmp_path / "other",
        "--recipe",
        out / "recipe.yaml",
        "--init",
        "hosvd",
        "--set",
        "compress.text=null",
    )
    assert (tmp_path / "other" / "model.safetensors").read_bytes() != (out / "model.safetensors").read_bytes()


def test_a_size_replaces_the_method_of_a_recipe_and_a_method_its_size(folder: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("compress:\n  to: 1/2\n  of: matrices\n")
    assert ran("plan", folder, "--recipe", recipe, "--method", "II-2", "--json").data["method"] == "II-2"
    recipe.write_text("compress:\n  method: II-2\n  of: matrices\n")
    assert ran("plan", folder, "--recipe", recipe, "--json").data["method"] == "II-2"
    assert ran("plan", folder, "--recipe", recipe, "--to", "1/2", "--json").data["parameters"]["matrices"]["ratio"] > 0.3


def test_random_starts_follow_the_seed(folder: Path, tmp_path: Path) -> None:
    def weights(name: str, seed: int) -> bytes:
        ran("compress", folder, tmp_path / name, "--method", "III-8", "--init", "random", "--seed", seed)
        return (tmp_path / name / "model.safetensors").read_bytes()

    first = weights("a", 1)
    assert weights("b", 1) == first
    assert weights("c", 2) != first


def test_what_has_no_effect_and_too_little_text_are_told(folder: Path, text: Path, tmp_path: Path) -> None:
    assert (
        ran("plan", folder, "--method", "II-2", "--of", "paper", "--json").data["notes"][0].startswith("without effect: of is")
    )
    words = ["compress", folder, tmp_path / "out", "--method", "II-2", "--force", "--text", text, "--set", "compress.length=32"]
    assert "note: without effect: text is not read: the start hosvd" in ran(*words, "--init", "hosvd").out
    [note] = ran(*words, "--json").data["notes"]
    assert re.fullmatch(r"the text fills [\d,]+ tokens, fewer than the 16,384 asked for", note)
    assert ran(*words, "--tokens", 1024, "--json").data["notes"] == []


def test_force_replaces(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran("compress", folder, out, "--method", "II-2")
    first = (out / "model.safetensors").read_bytes()
    (out / "note").write_text("of the old one")
    assert run("compress", folder, out, "--method", "III-8").code == 2
    assert (out / "model.safetensors").read_bytes() == first
    ran("compress", folder, out, "--method", "III-8", "--force")
    assert tenfold.plan_of(AutoModel.from_pretrained(out)).method == "III-8"
    assert not (out / "note").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_what_lies_beside_the_weights_comes_along(folder: Path, tmp_path: Path) -> None:
    """Not other weights, other models (checkpoints, an older OUT inside of MODEL), hidden files or the index of shards."""
    pico("bert").save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink()
    kept = ["1_Pooling/config.json", "2_Dense/model.safetensors", "vocab.txt", "modules.json"]
    left = [
        "pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "onnx/model.onnx", "checkpoint-5/optimizer.pt",
        ".git/config", ".hidden",
    ]  # fmt: skip
    for name in kept + left:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "checkpoint-5" / "config.json").write_text((folder / "config.json").read_text())
    for out in (folder / "small", folder / "smaller", tmp_path / "out"):
        ran("compress", folder, out, "--method", "II-4")
        found = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
        made = {"config.json", "model.safetensors", "recipe.yaml", "history.json"}
        assert found == {*kept, *made, "tokenizer.json", "tokenizer_config.json"}


@pytest.mark.parametrize(
    ("name", "head"), [("bert", "sequence_classification"), ("gpt2", "causal_lm"), ("llama_gqa", "causal_lm"), ("vit", None)]
)
def test_a_head_and_its_settings_survive_compression_and_export(name: str, head: str, tmp_path: Path) -> None:
    folder = save_folder(tmp_path / "model", name, head)
    if head == "causal_lm":
        (folder / "generation_config.json").write_text('{"max_new_tokens": 7, "eos_token_id": 3}')
    before = (folder / "config.json").read_text()
    ran("compress", folder, tmp_path / "out", "--method", "III-8")
    data = ran("export", tmp_path / "out", tmp_path / "dense", "--to", "dense", "--json").data
    assert data == {
        "out": str(tmp_path / "dense"), "to": "dense", "bytes": (tmp_path / "dense" / "model.safetensors").stat().st_size
    }  # fmt: skip
    assert (tmp_path / "dense" / "config.json").read_text() == before
    cls = type(pico(name, head))
    small, dense = cls.from_pretrained(tmp_path / "out"), cls.from_pretrained(tmp_path / "dense")
    torch.testing.assert_close(output(dense, inputs(dense)), output(small, inputs(small)), rtol=1e-5, atol=1e-5)
    if head == "causal_lm":
        assert small.generation_config.max_new_tokens == dense.generation_config.max_new_tokens == 7


def test_export_copies_what_lies_beside_and_is_compressed_again(folder: Path, tmp_path: Path) -> None:
    ran("compress", folder, tmp_path / "out", "--method", "III-8")
    shown = ran("export", tmp_path / "out", tmp_path / "dense").out
    assert "MB of weights" in shown
    names = {path.name for path in (tmp_path / "dense").iterdir()}
    assert names == {path.name for path in folder.iterdir()} | {"history.json"}
    dense, original = (load_file(path / "model.safetensors") for path in (tmp_path / "dense", folder))
    assert {key: value.shape for key, value in dense.items()} == {key: value.shape for key, value in original.items()}
    ran("compress", tmp_path / "dense", tmp_path / "again", "--method", "III-8")
    one, other = (AutoModel.from_pretrained(tmp_path / name) for name in ("out", "again"))
    torch.testing.assert_close(output(one, inputs(one)), output(other, inputs(one)), rtol=1e-4, atol=1e-4)


# tables


def test_tables_prints_each_and_every_number_as_json() -> None:
    data = ran("tables", "--json").data
    assert [each["name"] for each in data["tables"]] == [*TABLES]
    glue = next(each for each in data["tables"] if each["name"] == "glue")
    assert {row[0]: row[2] for row in glue["rows"]}["BERT-III-64"] == 1_794_816
    shown = ran("tables").out
    assert all(f"{name}: " in shown for name in TABLES)
    assert "BERT-III-64" in ran("tables", "glue").out


def test_tables_check_lists_what_differs_and_tells_each_reason_once() -> None:
    data = ran("tables", "--check", "--json").data["check"]
    shown = ran("tables", "--check").out
    differ = [each for each in data if not each["agrees"]]
    assert f"{len(data) - len(differ)} of {len(data)} printed values agree." in shown
    words = " ".join(shown.split())
    for why in {each["why"] for each in differ}:
        assert words.count(why) == 1
    one = ran("tables", "larger", "--check").out
    assert one == "80 of 80 printed values agree.\n"


def test_the_orders_of_multiplication_are_counted_at_the_sizes_that_are_given() -> None:
    data = ran("tables", "orders", "--at", "b=2, n=8,D=64,d=16,l=4", "--json").data["tables"][0]
    assert data["sizes"] == {"b": 2, "n": 8, "D": 64, "d": 16, "l": 4}
    assert {row[0]: row[2] for row in data["rows"]}["IV-2"] == 2 * 2 * 8 * 64 * 16 + 2 * 8 * 16**2 + 4 * 16**2
    assert ran("tables", "orders", "--at", "d=64", "--check").out == "3 of 3 printed values agree.\n"
    for words, message in {
        ("glue", "--at", "d=4"): "the sizes of the table glue are fixed, got d: leave it out",
        ("orders", "--at", "x=4"): "the sizes of the table orders are b, n, D, d, l, got x",
        ("orders", "--at", "d=0"): "a size must be 1 or more, got d=0",
        ("orders", "--at", "d=many"): 'takes letters with numbers, got "d=many"',
        ("--at", "d=4"): "--at is for one table, got d=4 for all",
        ("gleu",): 'got "gleu": did you mean "glue"',
    }.items():
        done = run("tables", *words)
        assert (done.code, done.out) == (2, "")
        assert message in done.err


# Processes


def test_a_process_prints_one_json_object_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        command("compress", folder, tmp_path / "out", "--method", "III-8", "--json"), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["out"] == str(tmp_path / "out")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills with SIGKILL")
def test_a_killed_run_leaves_no_output_and_the_next_one_clears_up(tmp_path: Path) -> None:
    folder, out = save_folder(tmp_path / "model", layers=40), tmp_path / "out"
    process = subprocess.Popen(
        command("compress", folder, out, "--method", "IV-400-32", "--set", "compress.rounds=100", "--init", "hooi"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    stale = out.with_name(f"out.partial-{process.pid}")
    while not stale.exists() and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert stale.is_dir()
    assert not out.exists()
    ran("compress", folder, out, "--method", "II-2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]
    AutoModel.from_pretrained(out)


@pytest.mark.skipif(os.name != "posix", reason="limits the size of a file as POSIX systems can")
def test_a_write_that_fails_half_way_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); from tenfold.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, "compress", str(folder), str(tmp_path / "out"), "--method", "III-8"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert re.fullmatch(r"tenfold: .*out must be written whole, got .*File too large.*: nothing was kept\n", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
