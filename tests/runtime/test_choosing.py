"""The planner on synthetic costs and times; what it remembers; what the verb leaves behind."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ran, run
from pico import pico, save_folder
from transformers import AutoModel

import tenfold
from tenfold.errors import CheckpointError
from tenfold.forms import TensorTrain, Tucker
from tenfold.nn import FactorBank, FactoredLinear
from tenfold.runtime import AUTO, CHAIN, DENSE, PLAIN, choosing, encoding, optimize_
from tenfold.runtime.choosing import NOISE, Situation, choose, pick
from tenfold.runtime.cost import Machine, Work, predict
from tenfold.runtime.encoding import pick_whole
from tenfold.runtime.timing import interleaved
from tenfold.runtime.ways import BLOCKS, DENSE_BLOCKS, KERNELS, LAYERS, Readers, works

WORKS = {DENSE: Work(100, 100, 1), CHAIN: Work(40, 60, 2), PLAIN: Work(50, 50, 4)}
HERE = Situation(1, 128, "float32", "cpu test", 1)


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({DENSE: 1.0, CHAIN: 0.5, PLAIN: 0.8}, CHAIN),
        ({DENSE: 0.5, CHAIN: 1.0, PLAIN: 0.8}, DENSE),
        ({DENSE: 1.0, CHAIN: 0.99}, CHAIN),
        ({DENSE: 1.0, CHAIN: 1.02}, CHAIN),  # within the noise: fewer constants
        ({DENSE: 1.0, CHAIN: 1.04}, DENSE),
        ({DENSE: 1.0, CHAIN: 0.5, PLAIN: 0.51}, PLAIN),
        ({DENSE: 1.0}, DENSE),
    ],
)
def test_the_fastest_is_picked_and_of_equals_the_smallest(times: dict[str, float], chosen: str) -> None:
    assert pick(times, WORKS) == chosen
    assert times[chosen] <= times[DENSE] * 1.03


@pytest.mark.parametrize(
    ("work", "tokens", "expected"),
    [
        (Work(1000, 10, 2), 50, 2 * 0.5 + 2 * 1000 * 50 / 1e4),  # bound by the rate
        (Work(10, 10_000, 1), 1, 0.5 + 10_000 * 4 / 1e3),  # by the bandwidth
        (Work(10, 10, 3, once=10_000), 1, 3 * 0.5 + 2 * 10_010 / 1e4),  # by what a forward pays once
    ],
)
def test_costs_are_what_the_formula_says(work: Work, tokens: int, expected: float) -> None:
    assert predict(work, tokens, 4, Machine(1e4, 1e3, 0.5)) == pytest.approx(expected)


def readers(form: Any, side: int = 32, n: int = 6, layers: int = 3) -> Readers:
    bank = FactorBank(form, n, side, side)
    for factor in bank.parameters():
        torch.nn.init.normal_(factor, std=0.1)
    made = tuple(FactoredLinear(bank, [[g]], bias=False) for g in range(layers))
    return Readers(tuple(f"layer.{g}" for g in range(layers)), made)


def test_work_is_counted_from_shapes() -> None:
    found = works(readers(TensorTrain(8, 8), side=768))
    assert found[DENSE] == Work(3 * 768**2, 3 * 768**2, 3)
    assert found[CHAIN] == Work(4 * 768 * 8, 4 * 768 * 8, 4)
    assert found[PLAIN].macs == 3 * (2 * 768 * 8 + 64) and found[PLAIN].products == 9
    assert works(readers(Tucker(2, 8, 8)))[PLAIN].once == 6 * 2 * 64


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({LAYERS: 1.0, KERNELS: 0.3, BLOCKS: 0.5, DENSE_BLOCKS: 0.8}, KERNELS),
        ({LAYERS: 1.0, KERNELS: 0.9, BLOCKS: 0.5, DENSE_BLOCKS: 0.8}, BLOCKS),
        ({LAYERS: 1.0, BLOCKS: 0.9, DENSE_BLOCKS: 0.8}, DENSE_BLOCKS),  # where factors do not pay, what the original could do
        ({LAYERS: 1.0, BLOCKS: 0.98}, LAYERS),  # within the noise: nothing more to keep
        ({LAYERS: 1.0, BLOCKS: 1.2, DENSE_BLOCKS: 1.5}, LAYERS),
        ({}, LAYERS),
    ],
)
def test_the_fastest_way_of_the_encoder_is_picked(times: dict[str, float], chosen: str) -> None:
    assert pick_whole(times) == chosen
    assert not times or times[chosen] <= times.get(DENSE_BLOCKS, times[LAYERS]) * (1 + NOISE)


def test_the_encoder_is_timed_once_and_computes_as_was_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    monkeypatch.setattr(choosing, "_remembered", {})
    times = {LAYERS: 3.0, BLOCKS: 2.0, DENSE_BLOCKS: 2.5}

    def find(calls: dict[str, Any], *_: Any) -> dict[str, float]:
        for call in calls.values():
            call()
        return {way: times[way] for way in calls}

    monkeypatch.setattr(encoding, "interleaved", find)
    model: Any = pico("bert")
    tenfold.compress_(model, tenfold.plan(model, "III-8"), init="hosvd")
    found = optimize_(model)
    assert found.whole.path == BLOCKS and found.whole.why == "measured: 1.50x as fast as the layers"
    assert found.whole.without == "kernels want a CUDA device, got cpu" and hasattr(model.encoder, "whole")
    monkeypatch.setattr(encoding, "interleaved", lambda *_: pytest.fail("it is known"))
    assert optimize_(model) == found
    monkeypatch.setattr(choosing, "_remembered", {})
    monkeypatch.setattr(encoding, "interleaved", lambda calls, *_: dict.fromkeys(calls, 1.0))
    assert optimize_(model, batch=2).whole.why.startswith("measured: blocks take 1.00x the layers' time")
    assert not hasattr(model.encoder, "whole")
    assert optimize_(model, measure=False).whole.why == "not measured"


def test_a_way_that_does_not_run_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    monkeypatch.setattr(choosing, "_remembered", {})

    def fail(*_: Any) -> Any:
        raise RuntimeError("no such thing\nand more")

    monkeypatch.setattr("tenfold.runtime.blocks.attend", fail)
    model: Any = pico("bert")
    tenfold.compress_(model, tenfold.plan(model, "III-8"), init="hosvd")
    with pytest.warns(UserWarning, match=r"blocks do not run here \(no such thing\): they are left out"):
        found = optimize_(model)
    assert found.whole.path == LAYERS and set(found.whole.measured) == {LAYERS}


ROLES = {f"layer.{g}": f"attn.{name}" for g, name in enumerate("qkv")}


@pytest.mark.parametrize(
    ("side", "rank", "tokens", "expected"),
    [
        (768, 64, 128, CHAIN),
        (768, 256, 128, CHAIN),
        (768, 700, 4096, DENSE),  # more multiply-adds than the matrices have
        (64, 8, 1, DENSE),  # starting products costs more than multiplying
    ],
)
def test_the_cost_model_chooses(side: int, rank: int, tokens: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "machine", lambda *_: Machine(100e9, 20e9, 8e-6))
    choice = choose([readers(Tucker(2, rank, rank), side)], ROLES, Situation(1, tokens, "float32", "x", 1), AUTO, measure=False)
    assert (choice.path, choice.roles, choice.measured) == (expected, "attn.q k v", {})
    assert choice.why.startswith("predicted: ") and PLAIN not in choice.predicted


def timed(monkeypatch: pytest.MonkeyPatch, times: dict[str, float]) -> list[set[str]]:
    """Let a timing find these times; what was asked for is noted."""
    asked: list[set[str]] = []

    def find(calls: dict[str, Any], _: torch.device) -> dict[str, float]:
        asked.append(set(calls))
        for call in calls.values():
            call()
        return {way: times[way] for way in calls}

    monkeypatch.setattr(choosing, "interleaved", find)
    monkeypatch.setattr(choosing, "_remembered", {})
    return asked


def test_a_timing_overrules_the_cost_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    timed(monkeypatch, {DENSE: 1.0, CHAIN: 1.5, PLAIN: 2.0})
    choice = choose([readers(TensorTrain(24, 24))] * 2, ROLES, HERE, AUTO, measure=True)
    assert (choice.path, choice.why, choice.count) == (DENSE, "measured: factors take 1.50x its time", 2)
    assert choice.measured[DENSE] == pytest.approx(1.0), "of two layers in a round of two"


def test_a_timing_is_remembered_here_and_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    asked = timed(monkeypatch, {DENSE: 1.0, CHAIN: 0.5, PLAIN: 2.0})
    given = [readers(TensorTrain(8, 8))]
    first = choose(given, ROLES, HERE, AUTO, measure=True)
    assert choose(given, ROLES, HERE, AUTO, measure=True) == first and len(asked) == 1
    monkeypatch.setattr(choosing, "_remembered", {})
    assert choose(given, ROLES, HERE, AUTO, measure=True) == first and len(asked) == 1
    (file,) = (tmp_path / "runtime").iterdir()
    for damage in ("{", "[]", '{"dense": 1}'):
        file.write_text(damage, encoding="utf-8")
        monkeypatch.setattr(choosing, "_remembered", {})
        assert choose(given, ROLES, HERE, AUTO, measure=True) == first
    assert len(asked) == 4
    for other in (Situation(2, 128, "float32", "cpu test", 1), Situation(1, 128, "float32", "cpu test", 2)):
        choose(given, ROLES, other, AUTO, measure=True)
    assert len(asked) == 6


def test_what_is_far_behind_is_not_timed_but_dense_always_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    asked = timed(monkeypatch, {DENSE: 1.0, CHAIN: 0.5, PLAIN: 0.7})
    monkeypatch.setattr(choosing, "predict", lambda work, *_: 1.0 if work.products == 4 else 3.0)
    assert choose([readers(TensorTrain(8, 8))], ROLES, HERE, AUTO, measure=True).path == CHAIN
    assert asked == [{DENSE, CHAIN}]


def test_a_home_that_cannot_be_written_to_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path / "file"))
    timed(monkeypatch, {DENSE: 1.0, CHAIN: 0.5, PLAIN: 2.0})
    assert choose([readers(TensorTrain(8, 8))], ROLES, HERE, AUTO, measure=True).path == CHAIN


def test_timings_are_interleaved_and_the_least() -> None:
    order: list[str] = []
    found = interleaved({name: partial(order.append, name) for name in "ab"}, torch.device("cpu"))
    assert "".join(order) == "ab" * 10 and set(found) == {"a", "b"} and min(found.values()) > 0


# The verb


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("optimize")
    model: Any = pico("bert")
    tenfold.compress_(model, tenfold.plan(model, "III-8"), init="hosvd")
    model.save_pretrained(place / "small")
    save_folder(place / "dense")
    return place / "small"


def test_the_verb_says_what_is_fastest_and_leaves_nothing(folder: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    before = sorted(path.name for path in folder.iterdir())
    shown = ran("optimize", folder, "--batch", 2, "--length", 16).out
    assert (
        "batch 2, length 16, float32, cpu" in shown
        and "attn.q k v" in shown
        and "encoder: " in shown
        and "nothing was written" in shown
    )
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_saved_choice_is_followed_where_it_was_made_for(folder: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("TENFOLD_CACHE", str(tmp_path))
    data = ran("optimize", folder, "--path", "chain", "--batch", 3, "--length", 5, "--save", "--json").data
    kept = json.loads((folder / "runtime.json").read_text(encoding="utf-8"))
    assert kept["choices"] == data["choices"] and kept["verb"] == "optimize"
    monkeypatch.setattr(choosing, "interleaved", lambda *_: pytest.fail("nothing needs to be timed"))
    model: Any = AutoModel.from_pretrained(folder)
    found = optimize_(model)
    assert (found.where.batch, found.where.length) == (3, 5)
    assert {(choice.path, choice.why) for choice in found.choices} == {(CHAIN, "asked for")}
    other = optimize_(model, batch=7, measure=False)
    assert other.where.batch == 7 and all(choice.why.startswith("predicted") for choice in other.choices)
    assert {choice.path for choice in optimize_(model, path=DENSE).choices} == {DENSE}
    ran("optimize", folder, "--path", "fused", "--batch", 3, "--length", 5, "--save")
    kept_whole = optimize_(model)
    assert (kept_whole.whole.path, kept_whole.whole.why) == (BLOCKS, "asked for") and hasattr(model.encoder, "whole")
    (folder / "runtime.json").write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"runtime\.json must have version 1"):
        optimize_(model)
    (folder / "runtime.json").unlink()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--batch", "0"], "the batch must be 1 or more, got 0"),
        (["--path", "fast"], 'the path must be one of auto, dense, chain, plain, fused, got "fast"'),
        (["--dtype", "float31"], '--dtype must be one of .* got "float31": did you mean "float32"'),
        (["--device", "abacus"], '--device must be one that torch can use, got "abacus"'),
    ],
)
def test_bad_words_are_refused(words: list[str], says: str, folder: Path) -> None:
    done = run("optimize", folder, *words)
    assert done.code == 2 and done.err.count("\n") == 1
    assert re.search(says, done.err)


def test_a_dense_folder_is_refused(folder: Path) -> None:
    assert "needs a folder that tenfold compressed" in run("optimize", folder.parent / "dense").err
