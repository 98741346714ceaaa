"""Every family file names every big matrix of its blocks, in the order of use; picos of all families are the witnesses."""

import re
from importlib import resources

import pytest
import torch
from pico import HIDDEN, PICO, inputs, pico, pico_config
from torch import nn
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tenfold.archs import Family, families, family_for
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
