"""Moments are those of the inputs of every site on real tokens, however the text is cut into batches."""

import lzma
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import CORPUS, PICO, POSITIONS, SPECIAL, inputs, pico, tokenizer
from torch import Tensor
from transformers import PreTrainedModel

import tenfold
from tenfold.calibration import Calibration, batches_of, calibrate, text_batches
from tenfold.errors import TenfoldError
from tenfold.planning import Plan, Site

Batches = list[dict[str, Tensor]]


def recorded(model: PreTrainedModel, plan: Plan, batches: Batches) -> dict[str, list[list[Tensor]]]:
    """What each site read, by batch and call, real rows only; positions (DeBERTa's) whole."""
    seen: dict[str, list[list[Tensor]]] = {site.path: [] for site in plan.factored}

    def hook(path: str) -> Any:
        def collect(_module: Any, arguments: tuple[Tensor, ...]) -> None:
            rows = arguments[0].flatten(0, -2)  # OPT flattens them itself
            seen[path][-1].append(rows[mask.bool().flatten()] if mask is not None and len(rows) == mask.numel() else rows)

        return collect

    handles = [model.get_submodule(path).register_forward_pre_hook(hook(path)) for path in seen]
    for batch in batches:
        mask = batch.get("attention_mask")
        for calls in seen.values():
            calls.append([])
        with torch.no_grad():
            model(**batch)
    for handle in handles:
        handle.remove()
    return seen


def moments(calibration: Calibration, site: Site) -> tuple[Tensor, Tensor]:
    found = calibration[site]
    return found.mean, torch.stack([found.moment(row, centred=False) for row in range(len(found.square))])


@pytest.mark.parametrize("name", PICO)
def test_moments_are_those_of_the_real_rows(name: str) -> None:
    model = pico(name, dtype=torch.float64)
    plan = tenfold.plan(model, "II-4")
    batches = [inputs(model, seed=seed) for seed in range(3)]
    calibration, seen = calibrate(model, plan, batches), recorded(model, plan, batches)
    for group in plan.groups:
        for site in group.sites:
            # Every call is worth as many tokens as the first: only DeBERTa calls a site twice, the second time on positions.
            calls = [torch.cat(rows) for rows in zip(*seen[site.path], strict=True)]
            assert len(calls) == (2 if name == "deberta_v2" and site.role in ("attn.q", "attn.k") else 1)
            mean = torch.stack([x.mean(0) for x in calls]).mean(0)
            blocks = [x.unflatten(1, (-1, group.i)) for x in calls]
            square = torch.stack([torch.einsum("tri,trj->rij", x, x) / len(x) for x in blocks]).mean(0)
            found = moments(calibration, site)
            assert found[1].shape == (site.i // group.i, group.i, group.i)
            torch.testing.assert_close(found, (mean, square), rtol=1e-12, atol=1e-12)
            centred = calibration[site].moment(0, centred=True)
            torch.testing.assert_close(
                centred, square[0] - torch.outer(mean[: group.i], mean[: group.i]), rtol=1e-12, atol=1e-12
            )


@pytest.mark.parametrize("name", PICO)
def test_the_cut_into_batches_does_not_matter(name: str) -> None:
    model = pico(name, dtype=torch.float64)
    plan = tenfold.plan(model, "II-4")
    batches = [inputs(model, seed=seed) for seed in range(2)]
    single = [{key: value[row : row + 1] for key, value in batch.items()} for batch in batches for row in range(3)]
    joined = {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}
    calibration = calibrate(model, plan, batches)
    for other in (calibrate(model, plan, single), calibrate(model, plan, single[::-1]), calibrate(model, plan, [joined])):
        for site in plan.factored:
            torch.testing.assert_close(moments(other, site), moments(calibration, site), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "opt"])
def test_padding_does_not_count(name: str) -> None:
    model = pico(name, dtype=torch.float64)
    plan = tenfold.plan(model, "II-4")
    batch = inputs(model, batch=1, length=7)
    padded = {key: torch.nn.functional.pad(value, (0, 4)) for key, value in batch.items()}
    one, other = calibrate(model, plan, [batch]), calibrate(model, plan, [padded])
    for site in plan.factored:
        assert one[site].tokens == other[site].tokens == 7
        torch.testing.assert_close(moments(one, site), moments(other, site), rtol=1e-11, atol=1e-11)


def test_no_mask_means_that_all_tokens_are_real() -> None:
    for name in ("bert", "deberta_v2"):
        model = pico(name, dtype=torch.float64)
        plan = tenfold.plan(model, "II-4")
        ids = inputs(model)["input_ids"].clamp_min(len(SPECIAL))
        one = calibrate(model, plan, [{"input_ids": ids}])
        other = calibrate(model, plan, [{"input_ids": ids, "attention_mask": torch.ones_like(ids)}])
        for site in plan.factored:
            torch.testing.assert_close(moments(one, site), moments(other, site), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("bert", {"attn.q": {"attn.q", "attn.k", "attn.v"}}),
        ("llama", {"attn.q": {"attn.q", "attn.k", "attn.v"}, "ffn.gate": {"ffn.gate", "ffn.up"}}),
        # Q and K read the positions too, V does not.
        ("deberta_v2", {"attn.q": {"attn.q", "attn.k"}, "attn.v": {"attn.v"}}),
        ("deberta_v2_split", {"attn.q": {"attn.q", "attn.k", "attn.v"}, "attn.pos_k": {"attn.pos_k", "attn.pos_q"}}),
    ],
)
def test_sites_that_read_the_same_hold_it_once(name: str, shared: dict[str, set[str]]) -> None:
    model = pico(name)
    plan = tenfold.plan(model, "II-4")
    calibration = calibrate(model, plan, [inputs(model, seed=seed) for seed in range(2)])
    sites = {(site.layer, site.role): site for site in plan.factored}
    readers = sum(len(roles) for roles in shared.values())
    layers = 2
    assert len(calibration.inputs) == layers * (len(sites) // layers - readers + len(shared))
    for layer in range(layers):
        for owner, roles in shared.items():
            assert all(calibration[sites[layer, role]] is calibration[sites[layer, owner]] for role in roles)
    for group in plan.groups:
        found = calibration.moments(group)
        assert len(found) == group.n
        for site, grid in group.grids():
            for row, tiles in enumerate(grid):
                expected = calibration[site].moment(row, centred=site.bias)
                assert all(torch.equal(found[g], expected) for g in tiles)


def test_one_layer_of_a_model_as_it_is() -> None:
    """What recollecting asks for: the rest of the model is not run, and the factors are in place."""
    model = pico("bert", dtype=torch.float64)
    plan = tenfold.plan(model, "II-4")
    batches = [inputs(model)]
    whole = calibrate(model, plan, batches)
    part = calibrate(model, plan, batches, layer=1)
    assert {site.path for site in plan.factored if site.layer == 1} == set(part.same)
    for site in plan.factored:
        if site.layer == 1:
            torch.testing.assert_close(moments(part, site), moments(whole, site), rtol=0, atol=0)

    ran = []
    model.encoder.layer[1].register_forward_pre_hook(lambda *_: ran.append(1))
    calibrate(model, plan, batches, layer=0)
    assert not ran

    tenfold.compress_(model, plan, init="hosvd")
    now = calibrate(model, plan, batches, layer=1)
    for site in plan.factored:
        if site.layer == 1:
            assert (moments(now, site)[1] - moments(whole, site)[1]).norm() > 0.01


def test_the_model_is_left_as_it_was() -> None:
    model = pico("bert", hidden_dropout_prob=0.5).train()
    plan = tenfold.plan(model, "II-4")
    one, other = (calibrate(model, plan, [inputs(model)]) for _ in range(2))
    assert all(torch.equal(x.square, other.inputs[path].square) for path, x in one.inputs.items()), "dropout was on"
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_half_precision_is_summed_in_full() -> None:
    model = pico("bert", dtype=torch.bfloat16)
    found = calibrate(model, tenfold.plan(model, "II-4"), [inputs(model)])
    assert {x.square.dtype for x in found.inputs.values()} == {torch.float32}


# Text


def test_text_is_packed_into_full_rows_with_the_special_tokens() -> None:
    words = tokenizer()
    batches = batches_of(words, CORPUS, tokens=20 * 32, length=32, rows=8)
    assert [tuple(batch["input_ids"].shape) for batch in batches] == [(8, 32), (8, 32), (4, 32)]
    assert all(batch["attention_mask"].all() for batch in batches)
    rows = torch.cat([batch["input_ids"] for batch in batches])
    assert (rows[:, 0] == words.cls_token_id).all() and (rows[:, -1] == words.sep_token_id).all()
    stream = [token for text in CORPUS for token in words(text, add_special_tokens=False)["input_ids"]]
    assert rows[:, 1:-1].flatten().tolist() == stream[: 20 * 30]


def test_a_text_file_may_be_compressed(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.xz"
    plain.write_text("\n".join(CORPUS), encoding="utf-8")
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    [one], [other] = (text_batches(tokenizer(), path, tokens=256, length=16, rows=16) for path in (plain, packed))
    assert one["input_ids"].shape == (16, 16)
    assert torch.equal(one["input_ids"], other["input_ids"])


def test_too_little_text_is_refused() -> None:
    with pytest.raises(TenfoldError, match="at least one row of 32 tokens, got less: give more text"):
        batches_of(tokenizer(), CORPUS[:1], tokens=1024, length=32)
    model = pico("bert")
    plan = tenfold.plan(model, "II-4")
    with pytest.raises(TenfoldError, match="at least one token through every matrix, got none"):
        calibrate(model, plan, [])
    padding = torch.zeros(1, 4, dtype=torch.long)
    with pytest.raises(TenfoldError, match="at least one token through every matrix, got none"):
        calibrate(model, plan, [{"input_ids": padding, "attention_mask": padding}])


@pytest.mark.parametrize(("ids", "length"), [(500, 8), (7, POSITIONS + 1)])
def test_text_that_does_not_fit_the_model_is_refused(ids: int, length: int) -> None:
    model = pico("bert")
    with pytest.raises(TenfoldError, match=f"token numbers up to {ids} in rows of {length}: take the model's own tokenizer"):
        calibrate(model, tenfold.plan(model, "II-4"), [{"input_ids": torch.full((1, length), ids)}])
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_matrix_that_is_never_used_is_named() -> None:
    model = pico("bert")
    plan = tenfold.plan(model, "II-4")
    model.encoder.layer[1].output.forward = lambda _, residual: residual
    with pytest.raises(TenfoldError, match=r"got none for encoder\.layer\.1\.output\.dense"):
        calibrate(model, plan, [inputs(model)])
