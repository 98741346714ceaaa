"""Block-local matching: each block's loss is that of the block alone, and its gradient stays in it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pico import PICO, inputs, pico
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel

import tenfold
from tenfold.distillation import BlockLocal, Wanted, block_local, trace
from tenfold.distillation.blocks import find_blocks
from tenfold.errors import TenfoldError

LAYERS = 3


def pair(name: str, method: str = "II-8", layers: int = LAYERS, **kw: Any) -> tuple[PreTrainedModel, PreTrainedModel]:
    """A factored copy of the teacher with its first `layers` layers, and the teacher."""
    student, teacher = pico(name, dtype=torch.float64, layers=layers, **kw), pico(name, dtype=torch.float64, layers=LAYERS)
    tenfold.compress_(student, tenfold.plan(student, method), init="hosvd")
    return student, teacher


def grads(model: PreTrainedModel) -> dict[str, Tensor]:
    """Gradients that are not zero; those of a bank under the name of what it holds."""
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}


def owners(name: str) -> int | None:
    """The layer, from 1, that a parameter belongs to; None for what layers share."""
    numbers = [int(part) for part in name.split(".") if part.isdecimal()]
    return numbers[0] + 1 if numbers and not name.startswith("factor_banks") else None


@pytest.mark.parametrize("name", PICO)
def test_the_teacher_itself_is_matched_exactly_and_a_factored_copy_is_not(name: str) -> None:
    student, teacher = pair(name)
    copy = pico(name, dtype=torch.float64, layers=LAYERS)
    exact, lossy = block_local(copy, teacher, inputs(teacher)), block_local(student, teacher, inputs(teacher))
    mask = inputs(teacher).get("attention_mask")
    for layer in range(1, LAYERS + 1):
        assert float(exact[layer].total.detach()) == pytest.approx(0, abs=1e-20)
        assert lossy[layer].mean > 1e-4
        assert mask is None or lossy[layer].count == mask.sum()


@pytest.mark.parametrize("name", PICO)
def test_a_block_alone_on_the_teachers_states_gives_the_same(name: str) -> None:
    """One dense block replaced in the teacher: everything before it is the teacher's, so its output is what was compared."""
    teacher = pico(name, dtype=torch.float64, layers=LAYERS)
    other, mixed = pico(name, dtype=torch.float64, layers=LAYERS, seed=1), pico(name, dtype=torch.float64, layers=LAYERS)
    blocks = find_blocks(mixed).modules
    blocks[1].load_state_dict(find_blocks(other).modules[1].state_dict())
    if name == "mpnet":  # the bias of positions is the encoder's
        other.encoder.relative_attention_bias.load_state_dict(mixed.encoder.relative_attention_bias.state_dict())
    if name.startswith("deberta"):  # and so are relative embeddings
        for shared in ("rel_embeddings", "LayerNorm"):
            getattr(other.encoder, shared).load_state_dict(getattr(mixed.encoder, shared).state_dict())
    with torch.no_grad():
        batch, wanted = inputs(teacher), Wanted({"hidden": frozenset({2})})
        whole, given = trace(mixed, batch, wanted), trace(teacher, batch, wanted)
    expected = (whole.hidden[2] - given.hidden[2])[whole.mask].square().mean()
    torch.testing.assert_close(block_local(other, teacher, batch, layers=[2])[2].mean, expected)


@pytest.mark.parametrize("name", PICO)
@pytest.mark.parametrize("method", ["II-8", "IV-4-8"])
def test_gradients_stay_in_their_block_and_in_what_blocks_share(name: str, method: str) -> None:
    student, teacher = pair(name, method)
    parts = block_local(student, teacher, inputs(teacher))
    parts[2].mean.backward(retain_graph=True)
    found = grads(student)
    assert {owners(parameter) for parameter in found} == {2, None}
    assert any(parameter.startswith("factor_banks") for parameter in found)
    assert all(p.grad is None for p in teacher.parameters())
    if method == "II-8":  # a bank's factors are stacked: only the slices of this layer's tiles move
        for group in tenfold.plan_of(student).groups:
            factor = getattr(student.factor_banks, group.name).A.grad
            assert factor is not None
            layer_of = [site.layer + 1 for site, grid in group.grids() for row in grid for _ in row]
            assert all(bool(factor[g].any()) == (layer == 2) for g, layer in enumerate(layer_of))
    student.zero_grad()
    sum(part.mean for part in parts.values()).backward()  # type: ignore[union-attr]
    assert {owners(parameter) for parameter in grads(student)} == {1, 2, 3, None}


def test_a_banks_products_are_made_once() -> None:
    student, teacher = pair("bert", "IV-4-8")
    bank = next(student.factor_banks.children())
    made: list[int] = []
    products = bank.form.products

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(bank_form, name)

        def products(self, factors: Any) -> Any:
            made.append(1)
            return products(factors)

    bank_form, bank.form = bank.form, Counted()
    block_local(student, teacher, inputs(teacher))
    assert made == [1]
    assert bank._held is None


def test_training_blocks_alone_brings_the_whole_student_closer() -> None:
    student, teacher = pair("bert", "III-12")
    batches = [inputs(teacher, batch=8, seed=seed) for seed in range(4)]
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)

    def error() -> float:
        wanted = Wanted({"hidden": frozenset({-1})})
        with torch.no_grad():
            s, t = (trace(model, batches[0], wanted) for model in (student, teacher))
        return float((s.hidden[3] - t.hidden[3])[s.mask].square().mean())

    before = error()
    with BlockLocal(student, teacher) as local:
        for step in range(40):
            optimizer.zero_grad()
            torch.stack([part.mean for part in local(batches[step % 4]).values()]).sum().backward()
            optimizer.step()
    assert error() < 0.6 * before


def test_a_shallow_student_is_fed_by_its_map() -> None:
    """Layers 1 and 2 for 2 and 3: the student's first block reads embeddings, its second what the teacher's second puts out."""
    student, teacher = pico("bert", dtype=torch.float64, layers=2), pico("bert", dtype=torch.float64, layers=LAYERS)
    batch = inputs(teacher)
    student.encoder.layer[1].load_state_dict(teacher.encoder.layer[2].state_dict())
    parts = block_local(student, teacher, batch, choice={1: 2, 2: 3}, scales={1: 4.0})
    assert float(parts[2].total.detach()) == pytest.approx(0, abs=1e-20)
    with torch.no_grad():
        s, t = (trace(m, batch, Wanted({"hidden": frozenset({1, 2})})) for m in (student, teacher))
    expected = (s.hidden[1] - t.hidden[2])[s.mask].square().mean() / 4
    torch.testing.assert_close(parts[1].mean, expected)
    for layers, choice in (([2], "last"), (None, {1: 3, 2: 2}), ([3], "uniform")):
        with pytest.raises(TenfoldError, match="block-local matching of layer"):
            block_local(student, teacher, batch, layers, choice)
    with pytest.raises(TenfoldError, match="need a map of layers, got 2 layers of the student and 3"):
        block_local(student, teacher, batch)


def test_no_padding_enters_and_pieces_add_up() -> None:
    student, teacher = pair("bert")
    batch = inputs(teacher)
    wide = {k: torch.nn.functional.pad(v, (0, 4)) for k, v in batch.items()}
    halves = [{k: v[rows] for k, v in batch.items()} for rows in (slice(0, 1), slice(1, 3))]
    whole, padded, first, second = (block_local(student, teacher, b) for b in (batch, wide, *halves))
    for layer, part in whole.items():
        torch.testing.assert_close(padded[layer].mean, part.mean)
        torch.testing.assert_close((first[layer] + second[layer]).mean, part.mean)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # dynamo hides this one itself, but not from warnings as errors
def test_compiled_and_ddp_students_and_the_student_afterwards(tmp_path: Path) -> None:
    student, teacher = pair("bert", "IV-4-8")
    batch = inputs(teacher)
    expected, alone = block_local(student, teacher, batch), student(**batch).last_hidden_state
    with BlockLocal(student, teacher) as local:
        compiled = torch.compile(student, backend="eager")
        for _ in range(2):
            for layer, part in local(batch, through=compiled).items():
                torch.testing.assert_close(part.total, expected[layer].total)
        torch.testing.assert_close(student(**batch).last_hidden_state, alone)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        wrapped = DistributedDataParallel(student, find_unused_parameters=True)
        torch.testing.assert_close(block_local(wrapped, teacher, batch)[2].total, expected[2].total)
    finally:
        torch.distributed.destroy_process_group()


def test_what_cannot_be_matched_is_refused() -> None:
    student, teacher = pico("bert", layers=2), pico("bert", layers=2)
    narrow = pico("bert", hidden_size=16, layers=2)
    with pytest.raises(TenfoldError, match="got widths 16 of the student and 32 of the teacher"):
        block_local(narrow, teacher, inputs(teacher))
    with pytest.raises(TenfoldError, match=r"call teacher\.eval\(\)"):
        block_local(student, teacher.train(), inputs(teacher))
    student.train()
    student.encoder.layer[0].gradient_checkpointing = True
    with pytest.raises(TenfoldError, match="turn gradient checkpointing off"):
        block_local(student, teacher.eval(), inputs(teacher))
