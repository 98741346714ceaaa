"""Recipes are strict, and come back from YAML as they went in."""

from pathlib import Path
from typing import Any

import pytest

from tenfold.errors import RecipeError
from tenfold.recipe import INITS, Compress, Recipe, dump_recipe, load_recipe, parse_recipe


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_is_asked_for_by_default() -> None:
    assert load_recipe(None, {}) == parse_recipe({}) == Recipe()
    assert Recipe().version == 1
    assert (Recipe().compress.method, Recipe().compress.to) == (None, None)


def test_every_start_can_be_asked_for() -> None:
    assert [parse_recipe({"compress": {"init": init}}).compress.init for init in INITS] == list(INITS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"compres": {}}, 'a recipe key must be one that this version knows, got "compres": did you mean "compress"'),
        ({"compress": {"metod": "III-64"}}, 'got "compress.metod": did you mean "method"'),
        ({"compress": {"Method": "III-64"}}, 'got "compress.Method": did you mean "method"'),
        ({"compress": {"qqq": 1}}, 'got "compress.qqq": known: embeddings, family, group'),
        ({"qqq": 1}, 'got "qqq": known: compress, model, version'),
        ({"compress": {"rounds": "many"}}, r"the recipe key compress\.rounds is wrong: .*integer.*, got 'many'"),
        ({"compress": {"rounds": -1}}, r"compress\.rounds is wrong: .*greater than or equal to 0, got -1"),
        ({"compress": {"rounds": 1.5}}, r"compress\.rounds is wrong: .*integer.*, got 1\.5"),
        ({"compress": {"method": 64}}, r"compress\.method is wrong: .*string, got 64"),
        ({"compress": {"of": "half"}}, r"compress\.of is wrong: .*'matrices', 'paper' or 'model', got 'half'"),
        ({"compress": {"init": "svd"}}, r"compress\.init is wrong: .*'hosvd', 'hooi' or 'activation', got 'svd'"),
        ({"compress": {"embeddings": 0}}, r"compress\.embeddings is wrong: .*got 0"),
        ({"compress": ["III-64"]}, r"compress is wrong: .*got \['III-64'\]"),
        ({"version": 2}, "the recipe key version is wrong: .*1, got 2"),
    ],
)
def test_a_wrong_recipe_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        parse_recipe(data)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, []),
        ({"text": "a.txt", "tokens": 5, "rounds": 5}, []),
        ({"init": "hooi", "rounds": 5}, []),
        ({"init": "random", "text": "a.txt", "recollect": True}, []),
        ({"of": "paper"}, ["of is for a size"]),
        ({"of": "paper", "method": None, "to": "1/2"}, []),
        ({"init": "hosvd", "text": "a.txt"}, ["text is not read: the start hosvd"]),
        ({"tokens": 5, "length": 16}, ["tokens, length without text"]),
        ({"rounds": 5}, ["rounds are for hooi and activation, the start is hosvd"]),
        (
            {"init": "random", "rounds": 0, "key": "x"},
            ["key without text", "rounds are for hooi and activation, the start is random"],
        ),
    ],
)
def test_what_has_no_effect_is_told(settings: dict[str, Any], told: list[str]) -> None:
    found = Compress(**{"method": "II-4"} | settings).unused()
    assert len(found) == len(told)
    assert all(one.startswith(f"without effect: {other}") for one, other in zip(found, told, strict=True))


def test_a_recipe_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Compress().method = "III-64"  # type: ignore[misc]


def test_overrides_win_over_the_file_and_are_checked_like_it(tmp_path: Path) -> None:
    path = written(tmp_path, "version: 1\nmodel: here\ncompress:\n  method: III-64\n  rounds: 5\n")
    assert load_recipe(path, {}).compress == Compress(method="III-64", rounds=5)
    changed: Recipe = load_recipe(path, {"compress.method": "IV-36-128", "compress.tile": "whole", "model": "there"})
    assert changed == Recipe(model="there", compress=Compress(method="IV-36-128", rounds=5, tile="whole"))
    assert load_recipe(path, {"compress.method": None, "compress.to": "1/10"}).compress == Compress(to="1/10", rounds=5)
    assert load_recipe(None, {"compress.to": "1/10"}).compress.to == "1/10"
    with pytest.raises(RecipeError, match=r'got "compress.metod": did you mean "method"'):
        load_recipe(path, {"compress.metod": "III-64"})
    with pytest.raises(RecipeError, match=r"a recipe key must lead through sections, got model\.name: model is a value"):
        load_recipe(path, {"model.name": "x"})


def test_a_recipe_survives_yaml(tmp_path: Path) -> None:
    recipe = Recipe(
        model="bert", compress=Compress(to="1/48", of="paper", sites="ffn", group="layers:3", embeddings=64, seed=7)
    )
    text = dump_recipe(recipe)
    assert load_recipe(written(tmp_path, text), {}) == recipe
    assert dump_recipe(load_recipe(written(tmp_path, text), {})) == text
    assert "method" not in text, "what is not set is not written"
    assert text.startswith("version: 1\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("compress: [", r"a recipe must be YAML, got .*recipe\.yaml: .*line 1"),
        ("a: b: c", r"a recipe must be YAML, got .*recipe\.yaml: mapping values"),
        ("- III-64", r"a recipe must be a YAML mapping, got list in .*recipe\.yaml"),
        ("", r"a recipe must be a YAML mapping, got NoneType in .*recipe\.yaml"),
        ("model: !!python/name:os.system", r"a recipe must be YAML, got .*could not determine a constructor"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=message) as caught:
        load_recipe(written(tmp_path, text), {})
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match=r"a recipe must be YAML, got .*binary\.yaml"):
        load_recipe(tmp_path / "binary.yaml", {})
    with pytest.raises(RecipeError, match=r"a recipe must be a readable file, got .*nowhere\.yaml: No such file"):
        load_recipe(tmp_path / "nowhere.yaml", {})
    with pytest.raises(RecipeError, match=r"a recipe must be a readable file, got .*: Is a directory"):
        load_recipe(tmp_path, {})
