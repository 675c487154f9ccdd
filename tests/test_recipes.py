"""A recipe is a file; its hash changes with whatever may change a reply, and with nothing else."""

import shutil

import pytest

import toolkit as tk
from toolkit import resources
from toolkit.errors import ConfigError

RECIPE = tk.Recipe("embedded/smollm2-135m", "prompted", "airgap", {"num_predict": 64})


def test_a_recipe_survives_its_file(tmp_path):
    recipe = RECIPE.replace(system='Be "kind".\nAlways.', tool_choice="any", parallel=False, extraction="auto")
    loaded = tk.Recipe.load(recipe.save(tmp_path / "r.toml"))
    assert loaded == recipe
    assert loaded.hash == recipe.hash


@pytest.mark.parametrize(
    "change",
    [
        {"model": "ollama/x"}, {"arm": "constrained"}, {"protocol": "hermes"}, {"options": {"num_predict": 65}},
        {"extraction": "strict"}, {"tool_choice": "any"}, {"parallel": False}, {"system": "x"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_each_field_changes_the_hash(change):
    assert RECIPE.replace(**change).hash != RECIPE.hash


def test_a_label_and_a_default_written_out_do_not():
    assert RECIPE.replace(name="x").hash == RECIPE.hash
    assert RECIPE.replace(options={"num_predict": 64, "temperature": 0.0}).hash == RECIPE.hash


def test_an_edited_template_changes_the_hash_and_a_copy_does_not(tmp_path):
    folder = shutil.copytree(resources.path("prompts/airgap"), tmp_path / "mine")
    (tmp_path / "r.toml").write_text('model = "embedded/smollm2-135m"\nprotocol = "mine"\noptions = {num_predict = 64}')
    assert tk.Recipe.load(tmp_path / "r.toml").hash == RECIPE.hash
    (folder / "system.jinja").write_text("Hello {{ system }}")
    edited = tk.Recipe.load(tmp_path / "r.toml")
    assert edited.hash != RECIPE.hash
    assert edited.name == "r"


def test_a_saved_recipe_names_its_own_protocol_relative_to_itself(tmp_path):
    shutil.copytree(resources.path("prompts/airgap"), tmp_path / "a" / "mine")
    recipe = RECIPE.replace(protocol=str(tmp_path / "a" / "mine"))
    recipe.save(tmp_path / "a" / "r.toml")
    moved = shutil.move(tmp_path / "a", tmp_path / "b")
    assert tk.Recipe.load(f"{moved}/r.toml").hash == RECIPE.hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "r.toml' is no valid TOML: Invalid value"),
        ("arm = 'prompted'", "needs model"),
        ("model = 'x'\nprotocl = 'hermes'", "Did you mean 'protocol'"),
        ("model = 'x'\narm = 'prompt'", "Did you mean 'prompted'"),
        ("model = 'x'\nprotocol = 'hermess'", "Did you mean 'hermes'"),
        ("model = 'x'\n[options]\nnum_cxt = 3", "Did you mean 'num_ctx'"),
        ("model = 'x'\n[options]\nnum_predict = -1", "positive number of tokens"),
        ("model = 'x'\nparallel = 'yes'", "parallel has the wrong kind of value, 'yes'"),
        ("model = 'x'\noptions = 3", "options has the wrong kind"),
    ],
)
def test_a_broken_file_is_one_clear_message(tmp_path, text, message):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        tk.Recipe.load(tmp_path / "r.toml")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nothing.toml"):
        tk.Recipe.load(tmp_path / "nothing.toml")


def test_names_in_a_list_are_unique_and_repeats_dropped(tmp_path):
    other = RECIPE.replace(system="x")
    assert [r.name for r in tk.load_recipes([RECIPE, other, RECIPE])] == ["airgap prompted", "airgap prompted #2"]
    RECIPE.save(tmp_path / "a.toml")
    other.save(tmp_path / "b.toml")
    assert len(tk.load_recipes(tmp_path)) == 2
    with pytest.raises(ConfigError, match="No recipe"):
        tk.load_recipes([])


def test_the_recipes_of_the_demo_load():
    recipes = tk.load_recipes(resources.path("notebooks/batch/recipes"))
    assert {(r.arm, r.protocol) for r in recipes} >= {
        ("prompted", "airgap"), ("prompted", "action_json"), ("prompted", "hermes"),
    }  # fmt: skip
    assert any(r.arm == "constrained" for r in recipes)
