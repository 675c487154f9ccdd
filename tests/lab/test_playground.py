"""The playground edits a recipe; what it saves is what the batch run takes."""

import pytest

import toolkit as tk
from toolkit.evaluation.cases import Case
from toolkit.lab.playground import Playground

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CASES = [
    Case(city, (tk.ChatMessage.from_user(f"Rain in {city}?"),),
         (tk.Tool("weather", "Tell the weather.", SCHEMA),), ({"name": "weather", "arguments": {"city": city}},))
    for city in ("Oslo", "Rome")
]  # fmt: skip
REPLY = 'Sure. <tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'


@tk.tool
def weather(city: str) -> dict:
    """Tell the weather."""
    return {"city": city, "sky": "<b>sun</b>"}


@pytest.fixture
def playground(tmp_path):
    model = tk.ScriptedModel([REPLY], name="scripted", cycle=True)
    recipe = tk.Recipe("scripted", protocol="hermes")
    return Playground(recipe, CASES, tools=[weather], folder=tmp_path, models={"scripted": model})


def test_the_prompt_is_shown_at_once_and_follows_every_control(playground):
    assert "Rain in Oslo?" in playground.prompt_view.value
    playground.case.value = "Rome"
    assert "Rain in Rome?" in playground.prompt_view.value
    playground.protocol.value = "airgap"
    assert "TOOL_CALL:" in playground.prompt_view.value
    assert playground.editor.value == tk.load_protocol("airgap").files["system.jinja"]
    playground.arm.value = "constrained"
    assert "Reply with JSON only." in playground.prompt_view.value


def test_editing_a_template_changes_prompt_and_hash(playground):
    before = playground.status.value
    playground.editor.value = "Call {{ tools[0].name }} if it helps."
    assert "Call weather if it helps." in playground.prompt_view.value
    assert playground.status.value != before
    assert "edited: system.jinja" in playground.status.value


def test_a_broken_template_says_where_and_keeps_the_last_prompt(playground):
    before = playground.prompt_view.value
    playground.editor.value = "{% if %}"
    assert "hermes (edited)/system.jinja" in playground.status.value
    assert "line 1" in playground.status.value
    assert playground.prompt_view.value == before


def test_run_shows_reply_result_and_verdict(playground):
    playground.run_button.click()
    assert playground.last.verdict.outcome == "right_call"
    assert "weather" in playground.reply_view.value
    assert "right call" in playground.result_view.value
    assert "&lt;b&gt;sun&lt;/b&gt;" in playground.result_view.value
    assert "<b>sun" not in playground.result_view.value


def test_a_model_that_is_not_there_is_a_message(playground):
    playground.model.value = "embedded/none-such"
    playground.run_button.click()
    assert "none-such" in playground.status.value
    assert not playground.run_button.disabled


def test_what_is_saved_runs_in_batch(playground, tmp_path):
    playground.editor.value = "Tools: {{ tools[0] | spec }}"
    playground.name.value = "short"
    playground.save_button.click()
    recipe = tk.Recipe.load(tmp_path / "short.toml")
    assert recipe.loaded_protocol.files["system.jinja"] == "Tools: {{ tools[0] | spec }}"
    model = tk.ScriptedModel([REPLY, REPLY], name="scripted")
    result = tk.evaluate([tmp_path / "short.toml"], CASES, models={"scripted": model}, progress=False)
    assert list(result.rows["right"]) == [True, False]
    assert model.requests[0]["messages"][0].text.startswith("Tools: {")


def test_an_old_reply_never_stands_under_a_new_prompt(playground):
    playground.run_button.click()
    assert "weather" in playground.reply_view.value
    playground.case.value = "Rome"
    assert "Press Run" in playground.reply_view.value
    assert playground.result_view.value == ""
    playground.run_button.click()
    playground.editor.value = "{% if %}"
    playground.run_button.click()
    assert "No reply" in playground.reply_view.value


def test_the_command_shown_after_saving_works_from_anywhere(playground, tmp_path):
    playground.save()
    assert str((tmp_path / "my_recipe.toml").resolve()) in playground.status.value


def test_saving_again_replaces_and_leaves_nothing_half_written(playground, tmp_path):
    playground.editor.value = "One"
    playground.save()
    playground.editor.value = "Two"
    playground.save()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my_recipe.toml", "my_recipe_protocol"]
    assert tk.Recipe.load(tmp_path / "my_recipe.toml").loaded_protocol.files["system.jinja"] == "Two"
