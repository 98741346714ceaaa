"""Sites: found by family or by looking, with shapes read from the model."""

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from pico import HEADS, PICO, pico_config
from torch import nn
from transformers import AutoModel, BartConfig, CLIPConfig, ConvNextConfig, MixtralConfig, SwinConfig, T5Config, Wav2Vec2Config

from tenfold import plan
from tenfold.errors import PlanError
from tenfold.planning.sites import Site, find_embedding, find_sites, site_shape


def meta(name: str, head: str | None = None) -> Any:
    with torch.device("meta"):
        return HEADS[head].from_config(pico_config(name, layers=3))


def sites_of(name: str, family: str | None = None) -> list[Site]:
    model = meta(name)
    return find_sites(model, model.config.model_type, family)


def block(site: Site) -> Site:
    """Without what --family auto has to make up: all of the role but attention or FFN."""
    return replace(site, role=site.role.split(".")[0])


@pytest.mark.parametrize("name", PICO)
def test_shapes_and_kinds_are_the_models(name: str) -> None:
    model = meta(name)
    found = find_sites(model, model.config.model_type, None)
    assert [site.layer for site in found] == sorted(site.layer for site in found)
    assert {site.layer for site in found} == {0, 1, 2}
    for site in found:
        module = model.get_submodule(site.path)
        conv = name == "gpt2"
        assert type(module).__name__ == ("Conv1D" if conv else "Linear")
        assert site.kind == ("conv1d" if conv else "linear")
        assert tuple(module.weight.shape) == ((site.i, site.o) if conv else (site.o, site.i))
        assert site_shape(module) == (site.i, site.o)
        assert site.bias == (module.bias is not None)
        assert site.size == module.weight.numel()


@pytest.mark.parametrize("name", PICO)
def test_auto_finds_what_the_family_file_names(name: str) -> None:
    known, auto = sites_of(name), sites_of(name, "auto")
    assert {block(site) for site in auto} == {block(site) for site in known}
    assert len(auto) == len(known)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_paths_start_at_the_base_model_whatever_the_head(name: str) -> None:
    model = meta(name, "sequence_classification")
    assert find_sites(model.base_model, model.config.model_type, None) == sites_of(name)


def test_a_family_can_be_named() -> None:
    assert sites_of("roberta", "bert") == sites_of("roberta")
    assert plan(meta("roberta"), "III-8", family="bert") == plan(meta("roberta"), "III-8")


def test_an_unknown_model_type_is_told_of_auto() -> None:
    model = meta("bert")
    with pytest.raises(PlanError, match=r'the model type must have a family file, got "newbert" .*: pass --family auto'):
        find_sites(model, "newbert", None)
    assert {block(site) for site in find_sites(model, "newbert", "auto")} == {block(site) for site in sites_of("bert")}


def test_an_unknown_family_is_told_the_nearest() -> None:
    with pytest.raises(PlanError, match=r'--family must be one with a data file or auto, got "robert": did you mean "roberta"'):
        sites_of("bert", "robert")
    with pytest.raises(PlanError, match=r'got "xyz": known: auto, bert'):
        sites_of("bert", "xyz")


def test_a_family_that_does_not_fit_is_told_of_auto() -> None:
    with pytest.raises(PlanError, match=r'"gpt2" expects blocks at h, got none there: pass --family auto'):
        sites_of("bert", "gpt2")
    with pytest.raises(PlanError, match=r'"llama" names no matrix that this model has: pass --family auto'):
        sites_of("vit", "llama")


def test_a_block_that_lacks_a_role_is_named() -> None:
    model = meta("bert")
    model.encoder.layer[1].attention.self.query = nn.Identity()
    with pytest.raises(PlanError, match=r"layer 1 must have attn\.q at attention\.self\.query, got a block without"):
        find_sites(model, "bert", None)
    for layer in model.encoder.layer:
        layer.attention.self.query = nn.Identity()
    assert len(find_sites(model, "bert", None)) == 15, "a role that no block has is left out"


def test_auto_takes_every_list_of_equal_blocks_and_counts_their_layers_through() -> None:
    """An encoder and its decoder; a list inside of a block is part of the block."""

    def blocks(count: int) -> nn.ModuleList:
        return nn.ModuleList(
            nn.ModuleDict({"attend": nn.Linear(4, 4), "mlp": nn.ModuleList([nn.Linear(4, 8, bias=False)])})
            for _ in range(count)
        )

    unequal = nn.ModuleList([nn.Linear(2, 2), nn.Identity(), nn.Identity(), nn.Identity()])
    empty = nn.ModuleList([nn.Identity(), nn.Identity()])
    model = nn.ModuleDict({"few": blocks(2), "many": blocks(3), "unequal": unequal, "empty": empty})
    found = find_sites(model, "", "auto")
    names = [
        f"{stack}.{layer}.{name}"
        for stack, n in (("few", 2), ("many", 3))
        for layer in range(n)
        for name in ("attend", "mlp.0")
    ]
    assert [site.path for site in found] == names
    assert [site.layer for site in found] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [site.role for site in found[:2]] == ["attn.attend", "ffn.mlp.0"]
    assert [(site.i, site.o, site.bias) for site in found[:2]] == [(4, 4, True), (4, 8, False)]
    for bare in (nn.Linear(2, 2), nn.ModuleDict({"heads": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])})):
        with pytest.raises(PlanError, match=r"--family auto needs repeated blocks .* with a Linear inside, got none in"):
            find_sites(bare, "", "auto")


@pytest.mark.parametrize("config", [T5Config(), BartConfig(), CLIPConfig(), Wav2Vec2Config(), SwinConfig(), ConvNextConfig()])
def test_auto_plans_models_with_two_stacks_changing_widths_or_no_word_table(config: Any) -> None:
    found = plan(config, "II-4", family="auto")
    with torch.device("meta"):
        model = AutoModel.from_config(config)
    linear = sum(m.weight.numel() for m in model.modules() if type(m) is nn.Linear)
    assert found.totals is not None
    assert 0.98 * linear < found.totals.matrices <= linear
    assert sum(group.dense for group in found.groups) == found.totals.matrices
    assert found.kept("matrices") < found.totals.matrices / 4
    decoder = any("decoder" in note for note in found.notes)
    assert decoder == config.is_encoder_decoder
    with pytest.raises(PlanError, match="this model has no table of word vectors" if found.totals.embedding == 0 else "rank"):
        plan(config, "II-4", family="auto", embeddings=10**6)


def test_weights_that_are_no_linear_are_told() -> None:
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    [note] = plan(MixtralConfig(**sizes, num_key_value_heads=2, vocab_size=100), "II-2", family="auto").notes
    assert re.match(
        r"the matrices found hold \d+% of the parameters outside of the word table: what is no Linear \(a mix", note
    )
    assert all(not plan(meta(name), "II-2", family="auto").notes for name in PICO)


def test_layers_of_unequal_numbers_of_tiles_cannot_be_albert() -> None:
    with pytest.raises(
        PlanError, match=r"ALBERT needs the same number of tiles in every layer, got \d+ tiles in unequal layers"
    ):
        plan(T5Config(), "ALBERT", family="auto")
    assert plan(T5Config(), "ALBERT", family="auto", group="role").ratio("matrices") < 0.25


def test_only_plain_linears_are_sites() -> None:
    """A subclass may compute something else than y = x W + b: it is left alone."""

    class Odd(nn.Linear):
        pass

    model = nn.ModuleDict({"layers": nn.ModuleList(nn.ModuleDict({"a": Odd(4, 4), "b": nn.Linear(4, 4)}) for _ in range(2))})
    assert [site.path for site in find_sites(model, "", "auto")] == ["layers.0.b", "layers.1.b"]


@pytest.mark.parametrize("name", sorted(set(PICO) - {"vit"}))
def test_the_word_table_is_found(name: str) -> None:
    model = meta(name)
    site = find_embedding(model)
    assert model.get_submodule(site.path) is model.get_input_embeddings()
    assert (site.i, site.o) == tuple(model.get_input_embeddings().weight.shape)
    assert (site.kind, site.layer) == ("embedding", -1)
