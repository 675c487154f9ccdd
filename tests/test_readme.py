"""What the README shows is what the code gives."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

import toolkit as tk
from toolkit.prompting import templates

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def picture():
    spec = importlib.util.spec_from_file_location("make_picture", ROOT / "notebooks" / "batch" / "make_picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_table_is_what_the_recording_gives(picture):
    shown = README.split(picture.START)[1].split(picture.END)[0].strip()
    assert shown == picture.table(picture.demo_result())


def test_the_first_lines_of_code_give_a_call():
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "tk.extract(" in block)
    lines = code.strip().splitlines()
    scope = {}
    exec("\n".join(lines[:-1]), scope)
    extraction = eval(lines[-1], scope)
    [call] = extraction.calls
    assert (call.tool_name, call.arguments) == ("weather", {"city": "Oslo"})
    for repair in re.findall(r"`([a-z]+_[a-z]+)`, `([a-z]+_[a-z]+)`\)", README)[0]:
        assert repair in call.repairs


def test_the_agent_of_the_readme_runs_as_it_stands(capsys):
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "tk.Agent(" in block)

    @tk.tool
    def weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"It rains in {city}."

    scope = {"tk": tk, "weather": weather}
    exec(code, scope)
    said = re.search(r'trace.text +# "(.*)"', code)[1]
    assert scope["trace"].text == said
    assert [result.result for result in scope["trace"].tool_results] == ["It rains in Oslo."]
    assert "weather" in capsys.readouterr().out


def test_the_readme_names_every_variable_of_a_template_and_examples_that_work(tmp_path, monkeypatch):
    folder = shutil.copytree(ROOT / "prompts" / "hermes", tmp_path / "mine")
    (folder / "examples.jsonl").write_text("\n".join(re.findall(r'`(\{"user".*?\})`', README)), "utf-8")
    seen, fill = {}, templates.fill
    monkeypatch.setattr(
        templates,
        "fill",
        lambda text, values, where: seen.update({Path(where).name: set(values)}) or fill(text, values, where),
    )
    call = tk.ToolCall("weather", {"city": "Oslo"}, "7")
    said = [tk.ChatMessage.from_assistant(tool_calls=[call]), tk.ChatMessage.from_tool("rain", call)]
    sent = tk.load_protocol(folder).render([{"name": "weather"}], said)
    assert [sent[1].text, sent[3].text, sent[4].text] == ["Rain in Rome?", "Hi", "Hello!"]
    table = re.findall(r"\| `(\w+\.jinja)` \| (.*) \|", README)
    assert seen == {file: set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", cell))) for file, cell in table}


def test_the_example_of_the_fake_server_runs(capsys):
    code = next(block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "FakeOllama" in block)
    exec(code, {})
    assert capsys.readouterr().out == "Sunny. It is May. server\n"


def test_every_linked_file_is_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_models_named_in_the_readme_are_known():
    assert tk.load_model("embedded/smollm2-135m").name == "embedded/smollm2-135m"


def test_the_table_of_ready_middleware_is_what_the_code_gives():
    start, end = "<!-- middleware table: tk.middleware.names_table() -->", "<!-- end of middleware table -->"
    assert README.split(start)[1].split(end)[0].strip() == tk.middleware.names_table()


def test_the_recipe_of_the_readme_can_be_used(tmp_path):
    code = next(block for block in re.findall(r"```toml\n(.*?)```", README, re.S))
    path = tmp_path / "mine.toml"
    path.write_text(code, "utf-8")
    recipe = tk.Recipe.load(path)
    agent = tk.Agent(tk.ScriptedModel(["Hello."]), recipe=recipe)
    assert agent.run("Hi").text == "Hello."
    assert recipe.agent.max_model_calls == 8
    assert tk.Recipe.load(recipe.save(tmp_path / "again.toml")).hash == recipe.hash


def test_the_number_of_runs_is_counted():
    assert f"in {len(tk.load_cases('runs'))} small worlds" in README
