"""optimize_: the same model with the same outputs, faster; what it adds is never saved and goes when something is learnt."""

import copy
import io
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pico import PICO, inputs, pico
from torch import Tensor, nn
from transformers import AutoModel

import tenfold
from tenfold.errors import PlanError
from tenfold.modules import factored_layers
from tenfold.runtime import CHAIN, DENSE, FUSED, PATHS, PLAIN, optimize_, restore_

METHODS = ["II-4", "II-alpha-4", "III-8", "III-8x6", "IV-2-8", "ALBERT", "III-8+II-2", "ALBERT+II-2"]


def compressed(name: str, method: str = "IV-4-8", head: str | None = None, **changes: Any) -> Any:
    model = pico(name, head, **changes)
    tenfold.compress_(model, tenfold.plan(model, method), init="hosvd")
    return model


def output(model: Any, arguments: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        found = model(**arguments)[0]
    assert isinstance(found, Tensor)
    return found


def shortcuts(model: nn.Module) -> int:
    return sum(getattr(layer, "shortcut", None) is not None for layer in factored_layers(model).values())


def multiplied(model: Any, arguments: dict[str, Tensor]) -> list[tuple[int, ...]]:
    """The shapes of the right sides of all matrix products of a pass."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[tuple[int, ...]] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
                seen.append(tuple(args[-1].shape))
            return function(*args, **(kwargs or {}))

    with torch.no_grad(), Watch():  # type: ignore[no-untyped-call]
        model(**arguments)
    return seen


# The same outputs


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PICO)
def test_outputs_stay_in_every_family_on_every_path(name: str, method: str) -> None:
    model = compressed(name, method, dtype=torch.float64)
    arguments = inputs(model)
    before = output(model, arguments)
    for path in set(PATHS) - {FUSED}:
        optimize_(model, path=path, measure=False)
        assert shortcuts(model) == 0 if path == PLAIN else shortcuts(model) > 0 or path == "auto"
        found = output(model, arguments)
        # RMSNorm computes in single precision whatever the model's.
        assert (found - before).norm() <= (1e-6 if "RMSNorm" in repr(model) else 1e-10) * before.norm()


def test_single_precision_stays_within_its_rounding() -> None:
    model = compressed("bert", "III-8+II-2")
    before = output(model, inputs(model))
    optimize_(model, path=CHAIN)
    assert (output(model, inputs(model)) - before).norm() < 1e-5 * before.norm()


@pytest.mark.parametrize("name", ["bert", "llama_gqa", "modernbert"])
def test_factored_word_vectors_stay_as_they_are(name: str) -> None:
    model = pico(name, dtype=torch.float64)
    tenfold.compress_(model, tenfold.plan(model, "III-8", embeddings=4), init="hosvd")
    before = output(model, inputs(model))
    optimize_(model, path=CHAIN)
    torch.testing.assert_close(output(model, inputs(model)), before, rtol=1e-6, atol=1e-6)


def test_a_decoder_generates_the_same_with_its_cache() -> None:
    model = compressed("llama_gqa", "III-8", head="causal_lm")
    ids = inputs(model, batch=1)["input_ids"]
    settings: dict[str, Any] = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 5, "do_sample": False}
    before = model.generate(ids, **settings)
    optimize_(model, path=CHAIN)
    assert torch.equal(model.generate(ids, **settings), before)


# What is multiplied


def test_queries_keys_and_values_share_one_product_with_u() -> None:
    model = compressed("bert", "III-8")
    left = [shape for shape in multiplied(model, inputs(model)) if shape == (32, 8)]
    found = optimize_(model, path=CHAIN)
    assert [choice.roles for choice in found.choices] == ["attn.q k v", "attn.o", "ffn.in", "ffn.out"]
    # Two layers: U for the attention's readers, its output and the wide product; the tall one starts at 128.
    assert len(left) > 6
    assert [shape for shape in multiplied(model, inputs(model)) if shape == (32, 8)] == [(32, 8)] * 6


def test_a_bank_that_nobody_reads_is_not_mixed() -> None:
    model = compressed("bert", "IV-4-8")
    mixing = (4, 64)  # C flattened
    assert mixing in multiplied(model, inputs(model))
    optimize_(model, path=CHAIN)
    assert mixing not in multiplied(model, inputs(model))


def test_layers_that_run_twice_stay_alone() -> None:
    found = optimize_(compressed("deberta_v2", "III-8"), path=CHAIN)
    assert "attn.v" in " ".join(choice.roles for choice in found.choices)
    assert all("q k" not in choice.roles for choice in found.choices)


def test_a_model_that_wants_other_inputs_is_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    before = output(model, inputs(model))
    monkeypatch.setattr("tenfold.runtime.reading.probe", lambda _: {})
    with pytest.warns(UserWarning, match="smallest input did not run.*give inputs="):
        found = optimize_(model, path=CHAIN)
    assert found.choices[0].roles == "attn.q, attn.k, attn.v, attn.o"
    torch.testing.assert_close(output(model, inputs(model)), before, rtol=1e-10, atol=1e-10)
    assert optimize_(model, path=CHAIN, inputs=inputs(model)).choices[0].roles == "attn.q k v"


def test_an_x_that_is_written_to_between_readers_is_multiplied_again() -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    optimize_(model, path=CHAIN)
    attention = model.encoder.layer[0].attention.self
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            x = torch.randn(3, 32, dtype=torch.float64)
            first = attention.query(x)
            other = x.clone()
            assert torch.equal(attention.key(other), attention.key(x))
            torch.testing.assert_close(first, x @ attention.query.matrix() + attention.query.bias)
    with torch.no_grad():
        x = torch.randn(3, 32, dtype=torch.float64)
        attention.query(x)
        x.mul_(2)
        torch.testing.assert_close(attention.key(x), x @ attention.key.matrix() + attention.key.bias)


def test_threads_do_not_meet() -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    optimize_(model, path=CHAIN)
    given = [inputs(model, seed=seed) for seed in range(4)]
    expected, wrong = [output(model, each) for each in given], []

    def ask(number: int) -> None:
        for _ in range(10):
            if not torch.allclose(output(model, given[number]), expected[number], rtol=1e-9, atol=1e-9):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# An ordinary model


def pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


def torch_saved(model: Any) -> Any:
    stream = io.BytesIO()
    torch.save(model, stream)
    return torch.load(io.BytesIO(stream.getvalue()), weights_only=False)


@pytest.mark.parametrize("way", [copy.deepcopy, pickled, torch_saved])
def test_a_copy_is_equal_fast_and_its_own(way: Callable[[Any], Any]) -> None:
    model = compressed("bert", "III-8")
    optimize_(model, path=CHAIN)
    before = output(model, inputs(model))
    twin = way(model)
    assert shortcuts(twin) == shortcuts(model) == 12
    assert multiplied(twin, inputs(model)) == multiplied(model, inputs(model))
    assert torch.equal(output(twin, inputs(model)), before)
    with torch.no_grad():
        for name, buffer in twin.named_buffers():
            if "shortcut" in name:
                buffer.zero_()
    assert torch.equal(output(model, inputs(model)), before)
    assert (output(twin, inputs(model)) - before).norm() > 0.1


def test_what_is_saved_is_as_if_nothing_had_happened(tmp_path: Path) -> None:
    model = compressed("bert", "III-8")
    keys = model.state_dict().keys()
    model.save_pretrained(tmp_path / "before")
    optimize_(model, path=DENSE)
    assert model.state_dict().keys() == keys
    model.save_pretrained(tmp_path / "after")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "after" / name).read_bytes() == (tmp_path / "before" / name).read_bytes()
    loaded = AutoModel.from_pretrained(tmp_path / "after")
    assert shortcuts(loaded) == 0
    torch.testing.assert_close(output(loaded, inputs(model)), output(model, inputs(model)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("first", [False, True])
def test_precision_changes_before_and_after(dtype: torch.dtype, first: bool) -> None:
    model = compressed("bert", "III-8")
    before = output(model, inputs(model))
    if first:
        model.to(dtype)
    optimize_(model, path=CHAIN)
    model.to(dtype)
    assert {buffer.dtype for name, buffer in model.named_buffers() if "shortcut" in name} == {dtype}
    assert shortcuts(model) == 12 and model.factor_banks.all.folded
    assert (output(model, inputs(model)).float() - before).norm() < 0.03 * before.norm()


def test_autocast_computes_in_half() -> None:
    model = compressed("bert", "III-8")
    before = output(model, inputs(model))
    optimize_(model, path=CHAIN)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = output(model, inputs(model))
    assert 0 < (found - before).norm() < 0.03 * found.norm()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize(("name", "method"), [("bert", "IV-4-8"), ("llama_gqa", "III-8+II-alpha-2")])
def test_compiled_it_is_one_graph_with_the_same_outputs(name: str, method: str) -> None:
    model = compressed(name, method)
    arguments = inputs(model)
    before = output(model, arguments)
    optimize_(model, path=CHAIN)
    torch._dynamo.reset()
    faster: Any = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(output(faster, arguments), before, rtol=1e-5, atol=1e-5)
    torch._dynamo.reset()


# Undone


def test_training_mode_takes_the_constants_away() -> None:
    model = compressed("bert", "IV-4-8", dtype=torch.float64)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    arguments = inputs(model)
    model.train()(**arguments)[0].square().sum().backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    optimize_(model.eval(), path=CHAIN)
    model.train()
    assert shortcuts(model) == 0 and not any("shortcut" in name for name, _ in model.named_buffers())
    model(**arguments)[0].square().sum().backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_a_part_in_training_mode_is_enough() -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    before = output(model, inputs(model))
    optimize_(model, path=DENSE)
    model.encoder.layer[0].attention.self.query.train()
    with torch.no_grad():
        model.factor_banks.all.core.mul_(2)
    assert (output(model, inputs(model)) - before).norm() > 0.1 * before.norm()


def test_restore_brings_back_the_same_bits() -> None:
    model = compressed("bert", "III-8")
    before, text = output(model, inputs(model)), repr(model)
    optimize_(model, path=CHAIN)
    restore_(model)
    assert torch.equal(output(model, inputs(model)), before)
    assert repr(model) == text


def test_calls_with_gradients_take_the_factors_and_say_so() -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    plain = model(**inputs(model))[0]
    optimize_(model, path=CHAIN)
    with pytest.warns(UserWarning, match=r"without gradients only: use torch\.inference_mode"):
        found = model(**inputs(model))[0]
    assert torch.equal(found, plain)
    found.sum().backward()
    assert model.factor_banks.all.core.grad.norm() > 0


@pytest.mark.parametrize("change", ["step", "load"])
def test_changed_factors_are_seen(change: str) -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    other = compressed("bert", "III-8", dtype=torch.float64, seed=1)
    optimize_(model, path=CHAIN)
    if change == "step":
        with torch.no_grad():
            for name, value in other.state_dict().items():
                model.state_dict()[name].copy_(value)
    else:
        model.load_state_dict(other.state_dict())
    with pytest.warns(UserWarning, match="factors changed after optimize_"):
        found = output(model, inputs(model))
    torch.testing.assert_close(found, output(other, inputs(model)), rtol=1e-12, atol=1e-12)
    optimize_(model, path=CHAIN)
    torch.testing.assert_close(output(model, inputs(model)), found, rtol=1e-10, atol=1e-10)


# What is refused


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"path": "chains"}, 'path must be one of auto, dense, chain, plain, fused, got "chains": did you mean "chain"'),
        ({"batch": 0}, "batch must be 1 or more, got 0"),
        ({"length": -1}, "length must be 1 or more, got -1"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        optimize_(compressed("bert"), **settings)


def test_models_that_cannot_be_optimized_are_refused() -> None:
    with pytest.raises(PlanError, match="a model that tenfold compressed"):
        optimize_(pico("bert"))
    model = compressed("bert")
    with pytest.raises(PlanError, match=r"training mode: call model\.eval"):
        optimize_(model.train())
    with pytest.raises(PlanError, match="on the meta device"):
        optimize_(model.eval().to("meta"))
    with pytest.raises(PlanError, match="inputs must be arguments that the model runs with, got ones that fail"):
        optimize_(compressed("bert"), inputs={"nonsense": 1})
