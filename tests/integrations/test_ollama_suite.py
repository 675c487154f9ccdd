"""The suite for real Ollama servers passes on each road of the fake one, and is skipped by name without a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolkit.testing import FakeModel, FakeOllama, ScriptedReply

SUITE = Path(__file__).with_name("test_ollama_server.py")


def value_of(schema):
    """Return some value that a schema allows."""
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return value_of(branches[0])
    if schema.get("type") == "array":
        return [value_of(schema.get("items", {}))] * schema.get("minItems", 0)
    if schema.get("type") in ("integer", "number"):
        return schema.get("minimum", 1)
    if schema.get("type") == "object" or "properties" in schema:
        return {key: value_of(schema["properties"][key]) for key in schema.get("required", ())}
    return {"boolean": True, "null": None}.get(schema.get("type"), "x")


def small_model(body):
    said = json.dumps(body.get("messages") or body["prompt"])
    if "format" in body:
        return ScriptedReply("Yes.", held=value_of(body["format"]))
    if "Oslo?" in said:
        return '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
    if "9 10 11" in said:
        return " 13 14 15 16 17 18 19 20"
    if "story" in said:
        return ScriptedReply(" ".join(f"word {number}" for number in range(400)), delay_s=0.02)
    return f"Hello {body['options']['seed']} there."


def run(*words, **environment):
    """Run the suite and return what pytest says."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OLLAMA", "TOOLKIT_OLLAMA"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:nbval", "-p", "no:cacheprovider", "-q", "-m", "ollama", SUITE]
    return subprocess.run([*command, *words], env={**kept, **environment}, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("road", ["native", "go", "builtin"])
def test_it_passes_on_each_road(road):
    models = FakeModel("big", size=10**10), FakeModel("small", road=road, thinking=road != "builtin")
    with FakeOllama(models, parallel=2) as server:
        server.follows(small_model)
        done = run(OLLAMA_HOST=server.host)
        assert done.returncode == 0, done.stdout
        assert "skipped" not in done.stdout
        assert {request["model"] for request in server.requests} <= {"small:latest", "no-such-model:1b"}


@pytest.mark.slow
def test_it_fails_where_the_server_cuts_in_silence():
    with FakeOllama([FakeModel("small", road="go")], knows_truncate=False) as server:
        server.follows(lambda body: ScriptedReply("Hi", last={"prompt_eval_count": 400}))
        done = run("-k", "without_a_word", OLLAMA_HOST=server.host)
    assert "12 failed" in done.stdout


def test_without_a_server_it_is_skipped_by_name():
    done = run("-rs", "-k", "card or probe")
    assert done.returncode == 0
    assert "2 skipped" in done.stdout
    assert "OLLAMA_HOST is not set" in done.stdout
