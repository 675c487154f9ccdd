"""Files that others wrote (recipes, cases, tools, GGUF heads) are read, or refused with an error of ours."""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import sys
import tempfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit as tk
from toolkit.errors import ConfigError, ToolkitError, WeightsError
from toolkit.models.base import Options
from toolkit.models.gguf import read_head, template_takes_tools, trained_context

pytestmark = pytest.mark.sampled

TOML = ["5", "1.5", "nan", "inf", "true", "''", "'x'", "'unlimited'", "[]", "[1]", "['x']", "[['a']]", "{}", "{a = 1}",
        "-1", "99999999999999999999", "1979-05-27", "[" * 400 + "]" * 400, "'''\n'''", "'\\u0000'"]  # fmt: skip
TOP = tuple(tk.Recipe.__dataclass_fields__)
OPTIONS = tuple(Options.__dataclass_fields__)
AGENT = tuple(tk.recipes.AgentSettings.__dataclass_fields__)


def use_recipe(path):
    with contextlib.suppress(ToolkitError):
        recipe = tk.Recipe.load(path)
        assert all(isinstance(getattr(recipe, key), str) for key in ("model", "arm", "protocol", "system", "name"))
        assert tk.Recipe.load(recipe.save(path.with_name("again.toml"))).hash == recipe.hash
        repr(recipe).encode()
        json.dumps(recipe.to_dict())
        case = {"id": "a", "messages": ["Hi"], "tools": [{"name": "f"}], "expect": {"no_call": True}}
        result = tk.evaluate(recipe, [case], models={recipe.model: tk.ScriptedModel(["x"])}, progress=False)
        result.save(path.parent / "run")


@pytest.mark.parametrize("key", [*TOP, *(f"options.{name}" for name in OPTIONS), *(f"agent.{name}" for name in AGENT)])
@pytest.mark.parametrize("value", TOML, ids=lambda value: value[:20])
def test_any_value_under_any_key_of_a_recipe(tmp_path, key, value):
    kept = "" if key == "model" else "model = 'm'\n"
    (tmp_path / "r.toml").write_text(f"{kept}{key} = {value}\n")
    use_recipe(tmp_path / "r.toml")


WRONG = {
    "name = 5": "name has the wrong kind of value, 5",
    "options.stop = 5": "stop must be a text, or a list of texts that are not empty, not 5",
    "options.stop = [5]": "stop must be",
    "options.temperature = nan": "temperature must be a number, not nan",
    "options.seed = 99999999999999999999": "seed must be a whole number",
    "system = 5": "system has the wrong kind",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_a_recipe_says_what_is_wrong(tmp_path, text, message):
    (tmp_path / "r.toml").write_text(f"model = 'm'\n{text}")
    with pytest.raises(ConfigError, match=rf"r\.toml.*{message}"):
        tk.Recipe.load(tmp_path / "r.toml")


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=80) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_as_a_recipe(tmp_path, content):
    (tmp_path / "r.toml").write_bytes(content)
    use_recipe(tmp_path / "r.toml")
    (tmp_path / "r.toml").write_bytes(b"model = 'm'\n" + content)
    use_recipe(tmp_path / "r.toml")


# ------------------------------------------------------------------ cases
GOOD = {"id": "a", "messages": [{"role": "user", "content": "Hi"}], "tools": [{"name": "f", "parameters": {}}],
        "expect": {"calls": [{"name": "f", "arguments": {"x": 1}}], "answer": {"$contains": "x"}}, "tags": ["t"],
        "turns": ["More."], "results": [{"name": "f", "arguments": {}, "result": 1}], "domain": "d"}  # fmt: skip


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"a": value} if levels % 2 else [value]
    return value


JUNK = [None, 5, True, 1.5, "", "x", "\ud800", [], [1], [None], [[]], {}, {"a": 1}, {"$any": 1}, {"$x": 1},
        {"$regex": "("}, {"$approx": "x"}, {"$any_of": 5}, {"$contains": 5}, deep(60),
        deep(61), 10**30, "x" * 5000]  # fmt: skip


def places(value, at=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, inner in items for place in places(inner, (*at, key)))]


def changed(place, value):
    data = json.loads(json.dumps(GOOD))
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return data


NATIVE = tk.Recipe("m", "native")


def use_cases(path):
    with contextlib.suppress(ToolkitError):
        cases = tk.load_cases(path)
        repr(cases[0]).encode("utf-8", "backslashreplace")
        cases._repr_html_().encode()
        model = tk.ScriptedModel([tk.ToolCall("f", {"x": 1}), "x", "x", "x"], cycle=True)
        recipe = tk.Recipe("m", "native")
        result = tk.evaluate(recipe, cases, run="agent", models={"m": model}, progress=False)
        result.save(tempfile.mkdtemp(dir=path.parent))


@pytest.mark.parametrize("place", [place for place in places(GOOD) if place], ids=str)
def test_any_value_in_any_place_of_a_case(tmp_path, place):
    path = tmp_path / "c.jsonl"
    for value in JUNK:
        path.write_text(json.dumps(changed(place, value)))
        use_cases(path)


@pytest.mark.parametrize(
    "text", ['{"a":' * 5000, "[" * 100_000, '{"id": "a", "x": ' + "[" * 500 + "]" * 500 + "}"], ids=len
)
def test_deep_json_is_named_with_its_place(tmp_path, text):
    path = tmp_path / "c.jsonl"
    path.write_text("\n" + text)
    with pytest.raises(ConfigError, match="line 2 is no JSON"):
        tk.load_cases(path)
    path.write_text(json.dumps({**GOOD, "tools": ["f"]}))
    path.with_name("c.tools.json").write_text(text)
    with pytest.raises(ConfigError, match=r"tools\.json"):
        tk.load_cases(path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "5", '"x"', "[5]", "[[]]", "null", '{"tools": 5}', "\ud800", ""], ids=repr
)
def test_tools_of_the_command_line(tmp_path, text):
    path = tmp_path / "tools.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    done = subprocess.run(
        [sys.executable, "-m", "toolkit", "extract", "--tools", str(path)], input="x", capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.returncode in (1, 2)


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202eevil\x00"


def test_a_table_in_a_terminal_steers_nothing(tmp_path):
    reply = f'{ESCAPES}<tool_call>{{"name": "f{ESCAPES}", "arguments": {{"x": "{ESCAPES}"}}}}</tool_call>[g({ESCAPES})]'
    for form in ("table", "json"):
        done = subprocess.run(
            [sys.executable, "-m", "toolkit", "extract", "--format", form], input=reply.encode(), capture_output=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert all(line.isprintable() for line in done.stdout.decode().split("\n")), done.stdout
        assert b"Traceback" not in done.stderr


def test_a_result_in_a_terminal_steers_nothing():
    case = {"id": "a", "messages": ["Hi"], "tools": [{"name": "f"}], "expect": {"no_call": True}}
    fault = tk.models.Reply("", fault=tk.models.Fault("server", ESCAPES))
    recipe = tk.Recipe("m", name=f"r{ESCAPES}")
    result = tk.evaluate(recipe, [case], models={"m": tk.ScriptedModel([fault])}, progress=False)
    assert all(line.isprintable() for line in str(result).split("\n"))
    assert result.answer().isprintable()


# ------------------------------------------------------------------ GGUF
def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


VALUES = {
    "text": (8, text("x")), "int": (4, struct.pack("<I", 7)), "negative": (5, struct.pack("<i", -7)),
    "float": (6, struct.pack("<f", 1.5)), "nan": (6, struct.pack("<f", float("nan"))),
    "inf": (12, struct.pack("<d", float("inf"))), "bool": (7, b"\x02"), "huge": (10, struct.pack("<Q", 2**64 - 1)),
    "list": (9, struct.pack("<IQ", 8, 1) + text("x")), "not UTF-8": (8, text(b"\xff\xfe")),
    "lists in lists": (9, struct.pack("<IQ", 9, 1) * 3000 + struct.pack("<IQ", 0, 0)),
    "many lists": (9, struct.pack("<IQ", 9, 2**24)), "many texts": (9, struct.pack("<IQ", 8, 2**24)),
    "long text": (8, struct.pack("<Q", 2**60)), "no such type": (99, b""),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("key", ["general.architecture", "llama.context_length", "tokenizer.chat_template", "other"])
def test_any_value_in_the_head_of_a_model_file(tmp_path, key, name):
    kind, data = VALUES[name]
    head = (
        [text("general.architecture") + struct.pack("<I", 8) + text("llama")] if key != "general.architecture" else []
    )
    head.append(text(key) + struct.pack("<I", kind) + data)
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(head)) + b"".join(head))
    with contextlib.suppress(WeightsError):
        found = read_head(path)
        assert isinstance(template_takes_tools(found), bool)
        assert isinstance(trained_context(found), int | None)
    with contextlib.suppress(ToolkitError):
        model = tk.load_model(f"embedded/{path}")
        model.fingerprint()
        assert isinstance(model.supports_tools, bool)
        assert isinstance(model.trained_ctx, int | None)
