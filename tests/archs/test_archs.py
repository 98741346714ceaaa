"""Every family file names every big matrix of its blocks, in the order of use; picos of all families are the witnesses."""

import re
from importlib import resources
from typing import Any

import pytest
import torch
import yaml
from pico import HIDDEN, PICO, inputs, pico, pico_config
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, softmax
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

from tenfold.archs import Block, Family, families, family_for, parse
from tenfold.errors import PlanError

TYPES = [(family.name, model_type) for family in families().values() for model_type in family.model_types]


def find(root: nn.Module, spellings: tuple[str, ...]) -> nn.Module | None:
    """The module at the first of the dotted paths that exists."""
    for path in spellings:
        try:
            return root.get_submodule(path)
        except AttributeError:
            continue
    return None


def blocks(model: PreTrainedModel, family: Family) -> list[nn.Module]:
    layers = find(model.base_model, family.layers)
    assert isinstance(layers, nn.ModuleList)
    return list(layers)


def sites(block: nn.Module, family: Family) -> dict[str, nn.Module]:
    """By role; a role that this block does not have is left out."""
    found = {role: find(block, spellings) for role, spellings in family.sites.items()}
    return {role: module for role, module in found.items() if module is not None}


def big_matrices(block: nn.Module) -> list[nn.Module]:
    linear = [m for m in block.modules() if isinstance(m, nn.Linear | Conv1D)]
    return [m for m in linear if m.weight.numel() >= HIDDEN * HIDDEN / 4]


def family_of(name: str) -> Family:
    return family_for(pico_config(name).model_type)


@pytest.mark.parametrize("with_head", [False, True])
@pytest.mark.parametrize("name", PICO)
def test_the_sites_are_all_the_big_matrices_of_every_block(name: str, with_head: bool) -> None:
    family = family_of(name)
    head = "image_classification" if name == "vit" else "sequence_classification"
    found = blocks(pico(name, head if with_head else None, layers=3), family)
    assert len(found) == 3
    for block in found:
        named = sites(block, family)
        assert named.keys() == sites(found[0], family).keys()
        assert len(set(named.values())) == len(named)
        assert set(named.values()) == set(big_matrices(block))


@pytest.mark.parametrize("family", families().values(), ids=lambda f: f.name)
def test_every_role_and_spelling_is_found_in_some_model(family: Family) -> None:
    models = [pico(name) for name in PICO if family_of(name) == family]
    assert models, "a family needs a model in tests/pico.py"
    for role, spellings in family.sites.items():
        for path in spellings:
            assert any(find(blocks(model, family)[0], (path,)) for model in models), (role, path)


@pytest.mark.parametrize("name", PICO)
def test_the_order_is_the_order_of_use(name: str) -> None:
    model, family = pico(name), family_of(name)
    named = sites(blocks(model, family)[0], family)
    used: list[str] = []
    for role, module in named.items():
        module.register_forward_pre_hook(lambda _module, _args, role=role: used.append(role))
    with torch.no_grad():
        model(**inputs(model))
    assert list(dict.fromkeys(used)) == list(named)


@pytest.mark.parametrize("name", PICO)
def test_the_output_depends_on_every_site(name: str) -> None:
    model, family = pico(name, dtype=torch.float64), family_of(name)
    output = model(**inputs(model)).last_hidden_state
    (output * torch.randn(output.shape, generator=torch.Generator().manual_seed(0), dtype=output.dtype)).sum().backward()
    for block in blocks(model, family):
        for role, module in sites(block, family).items():
            gradient = module.weight.grad
            assert isinstance(gradient, torch.Tensor)
            assert gradient.abs().max() > 1e-3, role


@pytest.mark.parametrize(("name", "model_type"), TYPES)
def test_every_model_type_of_a_family_has_its_layout(name: str, model_type: str) -> None:
    model = AutoModel.from_config(AutoConfig.for_model(**PICO[name] | {"num_hidden_layers": 2, "model_type": model_type}))
    assert model.config.model_type == model_type
    family = family_for(model_type)
    assert family.name == name
    for block in blocks(model, family):
        assert set(sites(block, family).values()) == set(big_matrices(block))


@pytest.mark.parametrize("family", families().values(), ids=lambda f: f.name)
def test_the_file_has_the_name_and_roles_say_where_they_are(family: Family) -> None:
    assert (resources.files("tenfold.archs") / f"{family.name}.yaml").is_file()
    for role in family.sites:
        assert re.fullmatch(r"(attn|ffn)\.[a-z]+(_[a-z]+)*", role)


def test_a_model_type_belongs_to_one_family() -> None:
    types = [model_type for _, model_type in TYPES]
    assert len(set(types)) == len(types)


def test_an_unknown_model_type_is_refused_with_a_way_out() -> None:
    with pytest.raises(PlanError, match=r'got "nope".*bert.*--family auto'):
        family_for("nope")


# What is around the matrices


WHOLE = [family.name for family in families().values() if family.block is not None]


def post_norm_block(model: Any, layer: int, x: Tensor) -> Tensor:
    """What a family's file says that a block computes, without padding: N(x + attention(x)), then N(y + ffn(y))."""
    family = family_of(model.config.model_type)
    block, given = blocks(model, family)[layer], family.block
    assert given is not None
    heads = getattr(model.config, given.heads)
    of: dict[str, Any] = sites(block, family)

    def times(role: str, x: Tensor) -> Tensor:
        return linear(x, of[role].weight, of[role].bias)

    def norm(path: str, x: Tensor) -> Tensor:
        found: Any = block.get_submodule(path)
        return layer_norm(x, found.normalized_shape, found.weight, found.bias, found.eps)

    q, k, v = (times(f"attn.{name}", x).unflatten(-1, (heads, -1)).transpose(1, 2) for name in "qkv")
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if given.bias is not None:
        *owner, method = given.bias.split(".")
        scores = scores + getattr(model.get_submodule(".".join(owner)), method)(x)
    y = (softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(-2)
    x = norm(given.attention_norm, x + times("attn.o", y))
    act = ACT2FN[getattr(model.config, given.activation)]
    return norm(given.ffn_norm, x + times("ffn.out", act(times("ffn.in", x))))


def test_the_families_with_a_block_are_those_of_bert() -> None:
    assert WHOLE == ["bert", "distilbert", "electra", "mpnet", "roberta"]


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("name", WHOLE)
@torch.no_grad()
def test_a_block_computes_what_its_file_says(name: str, changed: bool) -> None:
    block = families()[name].block
    assert block is not None
    changes: dict[str, Any] = {block.heads: 2, block.activation: "relu"} if changed else {}
    model = pico(name, dtype=torch.float64, **changes)
    arguments = inputs(model) | {"attention_mask": torch.ones(3, 9, dtype=torch.long)}
    seen: list[tuple[Tensor, Tensor]] = []
    for each in blocks(model, families()[name]):
        each.register_forward_hook(lambda _, args, out: seen.append((args[0], out[0] if isinstance(out, tuple) else out)))
    model(**arguments)
    for layer, (x, expected) in enumerate(seen):
        torch.testing.assert_close(post_norm_block(model, layer, x), expected, rtol=1e-11, atol=1e-11)
        assert (expected - x).norm() > 0.1 * x.norm(), "a block that does nothing would be anything"


BERT: dict[str, Any] = yaml.safe_load((resources.files("tenfold.archs") / "bert.yaml").read_text(encoding="utf-8"))


def without(data: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}


def test_a_file_is_read_into_a_family() -> None:
    family = parse(BERT, "bert.yaml")
    assert family == families()["bert"]
    assert family.block == Block("attention.output.LayerNorm", "output.LayerNorm", "num_attention_heads", "hidden_act")
    assert parse(without(BERT, "block"), "bert.yaml").block is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (BERT | {"bloc": {}}, 'bert.yaml has an unknown key, bloc: did you mean "block"'),
        (without(BERT, "layers"), "bert.yaml must have layers, got family, model_types"),
        ([], r"bert.yaml must be keys with values, got \[\]"),
        (BERT | {"model_types": "bert"}, "bert.yaml: model_types must be a list of words, got 'bert'"),
        (BERT | {"layers": []}, r"bert.yaml: layers must be a list of words, got \[\]"),
        (BERT | {"sites": {"query": ["q"]}}, "bert.yaml: a role starts with attn. or ffn., got query"),
        (without(BERT, "block") | {"sites": {"attn.q": "q"}}, "bert.yaml: attn.q must be a list of words, got 'q'"),
        (BERT | {"sites": []}, "bert.yaml: sites must be roles with paths"),
        (BERT | {"sites": without(BERT["sites"], "ffn.in")}, "bert.yaml: a block needs the roles attn.q, .* got attn.q, "),
        (BERT | {"sites": BERT["sites"] | {"ffn.gate": ["x"]}}, "a block needs the roles .* and no other, got .*ffn.gate"),
        (BERT | {"block": None}, "bert.yaml: block must be keys with values, got None"),
        (BERT | {"block": BERT["block"] | {"head": "x"}}, 'bert.yaml: block has an unknown key, head: did you mean "heads"'),
        (BERT | {"block": without(BERT["block"], "heads")}, "bert.yaml: block must have heads, got attention_norm, "),
        (BERT | {"block": BERT["block"] | {"heads": 12}}, "bert.yaml: block.heads must be a word, got 12"),
    ],
)
def test_a_file_that_is_wrong_is_refused(data: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        parse(data, "bert.yaml")
