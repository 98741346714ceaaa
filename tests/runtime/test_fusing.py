"""The encoder as one chain: the ordinary model's outputs, whatever is padded; what it cannot give, the layers do."""

import copy
import pickle
import warnings
from typing import Any

import pytest
import torch
from pico import inputs, pico
from torch import Tensor, nn

import tenfold
from tenfold.errors import PlanError
from tenfold.runtime import FUSED, optimize_, restore_
from tenfold.runtime.blocks import KernelChain, TorchChain, kernel_weights, refused
from tenfold.runtime.encoders import NoBlocks, find_encoder
from tenfold.runtime.encoding import dense_blocks_
from tenfold.runtime.fusing import Whole, install_, reads_token_0
from tenfold.runtime.graphs import Graphs, bucket
from tenfold.runtime.kernels import Packing

FAMILIES = ["bert", "mpnet", "roberta", "distilbert", "electra"]
METHODS = ["II-4", "II-alpha-4", "III-8", "III-8x6", "IV-2-8", "III-8+II-2"]
MASKS = {
    "right": [[1] * 9, [1, 1, 1, 1, 1, 0, 0, 0, 0], [1] * 8 + [0]],
    "left": [[1] * 9, [0, 0, 0, 0, 1, 1, 1, 1, 1], [0] * 8 + [1]],
    "both": [[0, 1, 1, 1, 1, 1, 1, 0, 0], [1] * 9, [0] + [1] * 8],
    "none": [[1] * 9] * 3,
}


def compressed(name: str, method: str = "IV-4-8", head: str | None = None, **changes: Any) -> Any:
    model = pico(name, head, **changes)
    tenfold.compress_(model, tenfold.plan(model, method), init="hosvd")
    return model


def without_pooler(model: Any) -> Any:
    """What reads padding on the left reads nothing of use."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def whole(model: Any) -> Whole | None:
    return next((module for module in model.modules() if isinstance(module, Whole)), None)


def kernels_(model: Any) -> None:
    """The chain of kernels, which compute in plain torch here."""
    optimize_(model, path=FUSED)
    encoder = find_encoder(model)
    chain = KernelChain(kernel_weights(encoder), model.dtype)
    assert whole(model) is not None
    whole(model).remove_()  # type: ignore[union-attr]
    install_(encoder, chain, reads_token_0(model))


def blocks_(model: Any) -> None:
    assert optimize_(model, path=FUSED).whole.path == "blocks"


def same(found: Tensor, expected: Tensor, mask: Tensor) -> None:
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], rtol=1e-9, atol=1e-9)


def answer(model: Any, arguments: dict[str, Any]) -> Any:
    """Of blocks: a warning that the layers computed instead is an error."""
    with torch.no_grad():
        return model(**arguments)


# The same outputs


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FAMILIES)
def test_blocks_give_what_the_layers_do(name: str, method: str) -> None:
    model = without_pooler(compressed(name, method, dtype=torch.float64))
    arguments = inputs(model)
    expected = {key: answer(model, arguments | {"attention_mask": torch.tensor(rows)})[0] for key, rows in MASKS.items()}
    for fuse_ in (blocks_, kernels_):
        fuse_(model)
        for key, rows in MASKS.items():
            mask = torch.tensor(rows)
            found = answer(model, arguments | {"attention_mask": mask})[0]
            same(found, expected[key], mask)
            assert (found[mask == 0] == 0).all()
        same(answer(model, {"input_ids": arguments["input_ids"]})[0], expected["none"], torch.ones(3, 9))
    restore_(model)


def test_layers_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    blocks_(model)
    monkeypatch.setattr(type(model.encoder.layer[0]), "forward", lambda *_, **__: pytest.fail("a layer was called"))
    answer(model, inputs(model))


@pytest.mark.parametrize("head", ["sequence_classification", "masked_lm"])
@pytest.mark.parametrize("name", FAMILIES)
def test_heads_poolers_and_types_of_outputs_stay(name: str, head: str) -> None:
    for kind in (head, None):
        model = compressed(name, "III-8", kind, dtype=torch.float64)
        arguments = inputs(model)
        given = arguments["attention_mask"]
        before = answer(model, arguments)
        blocks_(model)
        for found in (answer(model, arguments), model.base_model.eval() and answer(model, arguments | {"return_dict": True})):
            assert type(found) is type(before) and found.keys() == before.keys()
            for key, value in before.items():
                mask = given if value.ndim > 2 else torch.ones(len(value))
                same(found[key], value, mask)
        assert isinstance(answer(model, arguments | {"return_dict": False}), tuple)


def test_where_one_site_is_dense_blocks_still_do_and_kernels_say_why_not() -> None:
    model = compressed("bert", "IV-FFN-2-8", dtype=torch.float64)
    before = answer(model, inputs(model))[0]
    blocks_(model)
    same(answer(model, inputs(model))[0], before, inputs(model)["attention_mask"])
    with pytest.raises(NoBlocks, match=r"attn\.\w is not factored"):
        kernel_weights(find_encoder(model))
    with pytest.raises(NoBlocks, match="whole, not of low rank"):
        kernel_weights(find_encoder(compressed("bert", "ALBERT")))
    weights = kernel_weights(find_encoder(compressed("bert", "III-8")))
    assert refused(weights, torch.float32, torch.device("cpu")) == "kernels want a CUDA device, got cpu"


def test_shared_factors_are_multiplied_once() -> None:
    for method, width, starts in (("III-8", 8, {0}), ("II-4", 12, {0, 4, 8}), ("III-8+II-2", 14, {0})):
        attention, ffn = kernel_weights(find_encoder(compressed("bert", method)))[0]
        assert attention.u.shape == (32, width)
        assert {reader.start for reader in (attention.q, attention.k, attention.v)} == starts
        assert ffn.inner.weight.shape[1] == 128


def test_a_dense_model_is_computed_whole_too() -> None:
    model = pico("mpnet", dtype=torch.float64)
    arguments = inputs(model)
    before = answer(model, arguments)
    dense_blocks_(model)
    found = answer(model, arguments)
    assert whole(model) is not None
    same(found[0], before[0], arguments["attention_mask"])
    torch.testing.assert_close(found[1], before[1], rtol=1e-9, atol=1e-9)


def test_long_batches_are_fed_forward_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    before = answer(model, inputs(model))[0]
    monkeypatch.setattr("tenfold.runtime.blocks.ROWS", 5)
    blocks_(model)
    same(answer(model, inputs(model))[0], before, inputs(model)["attention_mask"])


# What the layers do


def ordinary(model: Any, arguments: dict[str, Any], says: str) -> Any:
    """The layers' answer, said the first time."""
    with pytest.warns(UserWarning, match=f"{says}: the layers compute one by one"):
        found = answer(model, arguments)
    answer(model, arguments)  # said once
    assert whole(model) is not None
    return found


@pytest.mark.parametrize("name", ["bert", "mpnet", "distilbert"])
@pytest.mark.parametrize("wanted", ["output_hidden_states", "output_attentions"])
def test_what_is_inside_comes_from_the_layers(name: str, wanted: str) -> None:
    model = compressed(name, "III-8", dtype=torch.float64)
    model.set_attn_implementation("eager")
    arguments = inputs(model) | {wanted: True}
    before = answer(model, arguments)
    blocks_(model)
    found = ordinary(model, arguments, wanted)
    key = wanted.removeprefix("output_")
    assert len(found[key]) == len(before[key]) > 0
    for a, b in zip(found[key], before[key], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
    answer(model, inputs(model))  # and then blocks again, whatever hooks transformers left


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[1] * 9, [1, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 9], "a mask with holes"),
        ([[1] * 9, [0] * 9, [1] * 9], "a sequence without tokens"),
        (MASKS["left"], "padding on the left of what is read there"),
    ],
)
def test_masks_that_do_not_pack(rows: list[list[int]], says: str) -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    arguments = inputs(model) | {"attention_mask": torch.tensor(rows)}
    before = answer(model, arguments)
    blocks_(model)
    found = ordinary(model, arguments, says)
    for a, b in zip(found.to_tuple(), before.to_tuple(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_masks_of_other_shapes_hooks_precisions_and_encoders_alone() -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    arguments = inputs(model)
    before = answer(model, arguments)[0]
    blocks_(model)
    square = arguments["attention_mask"][:, None, None, :].expand(-1, 1, 9, 9).bool()
    same(ordinary(model, arguments | {"attention_mask": square}, "a mask of shape .*")[0], before, arguments["attention_mask"])
    seen = []
    handle = model.encoder.layer[1].register_forward_hook(lambda *_: seen.append(1))
    ordinary(model, arguments, "hooks on its layers")
    assert len(seen) == 2
    handle.remove()
    with torch.no_grad(), pytest.warns(UserWarning, match="the encoder called by itself"):
        model.encoder(torch.randn(1, 3, 32, dtype=torch.float64))
    single = compressed("bert", "III-8")
    blocks_(single)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ordinary(single, arguments, "another precision than the constants have")


# An ordinary model


@pytest.mark.parametrize("way", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_has_its_own(way: Any) -> None:
    model = compressed("mpnet", "III-8", dtype=torch.float64)
    arguments = inputs(model)
    blocks_(model)
    before = answer(model, arguments)[0]
    twin = way(model)
    assert torch.equal(answer(twin, arguments)[0], before)
    assert whole(twin) is not whole(model) and twin.encoder.forward.__self__ is whole(twin)
    with torch.no_grad():
        for buffer in whole(twin).buffers():  # type: ignore[union-attr]
            buffer.zero_()
    assert not torch.allclose(answer(twin, arguments)[0], before)
    assert torch.equal(answer(model, arguments)[0], before)


def test_nothing_of_it_is_saved_and_restore_takes_it_away() -> None:
    model = compressed("mpnet", "III-8")
    keys, text, before = list(model.state_dict()), repr(model), answer(model, inputs(model))[0]
    for fuse_ in (blocks_, kernels_):
        fuse_(model)
        assert list(model.state_dict()) == keys
        restore_(model)
        assert repr(model) == text and "forward" not in model.encoder.__dict__ and not model._forward_pre_hooks_with_kwargs
        assert torch.equal(answer(model, inputs(model))[0], before)


@pytest.mark.parametrize("part", [False, True])
def test_training_mode_takes_it_away(part: bool) -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    before = answer(model, inputs(model))[0]
    blocks_(model)
    (model.encoder.layer[0].attention.self.query if part else model).train()
    model.eval()
    with torch.no_grad():
        model.factor_banks.all.core.mul_(2)
    assert (answer(model, inputs(model))[0] - before).norm() > 0.1 * before.norm()
    assert whole(model) is None and "forward" not in model.encoder.__dict__


def test_gradients_come_from_the_factors() -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    blocks_(model)
    with pytest.warns(UserWarning, match="without gradients only"):
        model(**inputs(model))[0].sum().backward()
    assert model.factor_banks.all.core.grad.norm() > 0


@pytest.mark.parametrize("weight", ["encoder.layer.1.output.LayerNorm.weight", "encoder.layer.0.intermediate.dense.bias"])
def test_other_weights_that_change_are_seen(weight: str) -> None:
    model = compressed("bert", "III-8", dtype=torch.float64)
    blocks_(model)
    with torch.no_grad():
        model.get_parameter(weight).add_(1)
    with pytest.warns(UserWarning, match="weights changed after optimize_"):
        found = answer(model, inputs(model))[0]
    restore_(model)
    same(found, answer(model, inputs(model))[0], inputs(model)["attention_mask"])


@pytest.mark.parametrize("fuse_", [blocks_, kernels_])
def test_it_moves_with_the_model(fuse_: Any) -> None:
    model = compressed("mpnet", "III-8")
    arguments = inputs(model)
    before = answer(model, arguments)[0]
    fuse_(model)
    for dtype, near in ((torch.float64, 1e-5), (torch.bfloat16, 0.05)):
        model.to(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = answer(model, arguments)[0]
        assert found.dtype == dtype
        mask = arguments["attention_mask"].bool()
        assert (found[mask].float() - before[mask]).norm() < near * before.norm()
    assert whole(model) is not None


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_a_compiler_sees_the_layers() -> None:
    model = compressed("bert", "III-8")
    before = answer(model, inputs(model))[0]
    blocks_(model)
    torch._dynamo.reset()
    faster: Any = torch.compile(model, backend="aot_eager")
    same_float = answer(faster, inputs(model))[0]
    torch.testing.assert_close(same_float, before, rtol=1e-5, atol=1e-5)
    torch._dynamo.reset()


def test_models_without_blocks_are_refused() -> None:
    with pytest.raises(
        PlanError, match='"fused" needs an encoder of blocks, got none: the blocks of gpt2 are not those of BERT'
    ):
        optimize_(compressed("gpt2", "III-8"), path=FUSED)
    with pytest.raises(PlanError, match=r"blocks know the activations gelu, .* got tanh"):
        optimize_(compressed("bert", "III-8", hidden_act="tanh"), path=FUSED)
    found = optimize_(compressed("gpt2", "III-8"), measure=False)
    assert found.whole.path == "layers" and "gpt2" in str(found.whole.without)


# Graphs


def test_lengths_go_into_buckets() -> None:
    assert [bucket(n) for n in (1, 16, 17, 100, 128, 129, 512, 513, 1024)] == [16, 16, 32, 128, 128, 192, 512, 768, 1024]


def record_here(compute: Any, arguments: Any) -> Any:
    """A graph that computes anew what it was recorded for."""
    return lambda: compute(*arguments)


@pytest.mark.parametrize("name", ["bert", "mpnet"])
def test_a_graph_serves_all_lengths_of_its_bucket(name: str) -> None:
    model = compressed(name, "III-8", dtype=torch.float64)
    kernels_(model)
    made = whole(model)
    assert made is not None and isinstance(made.chain, KernelChain)
    recorded = []

    def record(compute: Any, arguments: Any) -> Any:
        recorded.append(arguments[0].shape)
        return record_here(compute, arguments)

    made._graphs = Graphs(record)
    for lengths in ((9, 5, 2), (16, 16, 16), (1, 1, 3), (2, 16, 7)):
        x = torch.randn(sum(lengths), 32, dtype=torch.float64)
        expected = made.chain(x, lengths, made.bias(x, 16))
        found = made._graphed(made.chain, x, lengths, 16)
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert recorded == [(48, 32)], "the second time, and once"


def test_graphs_make_room_and_are_recorded_anew() -> None:
    recorded: list[int] = []

    def record(compute: Any, arguments: Any) -> Any:
        recorded.append(len(arguments[0]))
        return record_here(compute, arguments)

    graphs = Graphs(record, kept=2)
    for rows in (2, 2, 3, 3, 4, 4, 3, 2, 2):
        x = torch.full((rows - 1, 1), float(rows))
        assert torch.equal(graphs(rows, rows, lambda y: y * 2, x), 2 * x)
    assert recorded == [2, 3, 4, 2]


def test_a_graph_serves_both_modes_without_gradients() -> None:
    graphs = Graphs(record_here)
    for mode in (torch.inference_mode, torch.inference_mode, torch.no_grad, torch.inference_mode):
        with mode():
            x = torch.ones(2, 1)
            assert torch.equal(graphs("key", 3, lambda y: y * 2, x), 2 * x)


def test_a_fixed_packing_is_that_of_the_lengths() -> None:
    """What a graph reads on the device."""
    chain: Any = KernelChain(kernel_weights(find_encoder(compressed("bert", "III-8", dtype=torch.float64))), torch.float64)
    x = torch.randn(12, 32, dtype=torch.float64)
    fixed = Packing.fixed(torch.tensor([0, 4, 7]), 6)
    torch.testing.assert_close(chain.packed(x, fixed, None)[:7], chain(x[:7], (4, 3), None), rtol=1e-10, atol=1e-10)


def test_chains_are_modules_without_parameters() -> None:
    model = compressed("bert", "III-8")
    encoder = find_encoder(model)
    chain = TorchChain(encoder, {m: "chain" for m in model.modules() if hasattr(m, "bank")}, torch.float32)
    assert not list(chain.parameters()) and not chain.state_dict()
    assert isinstance(chain.blocks, nn.ModuleList) and len(chain.blocks) == 4
