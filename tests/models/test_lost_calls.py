"""Calls that a server's own parser could not read are the model's, not the server's, and an agent goes on."""

from __future__ import annotations

import json

import pytest

import toolkit as tk
from toolkit.evaluation.cases import case_from_dict
from toolkit.evaluation.scoring import score
from toolkit.models import load_model
from toolkit.models.wire import ServerError, fault_of

ran = []


@tk.tool
def keep_note(text: str) -> str:
    """Keep a note."""
    ran.append(text)
    return "kept"


# the parser of a server -> what it says of a call that it cannot read
UNREAD = {
    "qwen3-coder, ollama#12380": "XML syntax error on line 5: element <parameter> closed by </function>",
    "qwen3-coder, ollama#14834": "XML syntax error on line 115: unexpected EOF",
    "qwen3.5, ollama#14986": "EOF",
    "qwen3.5, continue#10896": "expected element type <function> but have <parameter>",
    "glm, continue#10896": "failed to parse XML: XML syntax error on line 1: element <a> closed by </arg_value>",
    "glm": "incomplete GLM tool call: 'keep_note'",
    "qwen3": "failed to parse JSON: invalid character 'R' looking for beginning of value",
    "qwen3, no name": "empty function name",
    "qwen3, arguments as text": "failed to parse JSON: json: cannot unmarshal string into Go struct field .arguments",
    "ministral": "tool 'open_door' not found",
    "laguna": "failed to parse Laguna JSON tool call: unexpected end of JSON input",
    "laguna, no name": "empty Laguna tool call name",
    "glimmer": "parse Glimmer call to keep_note: unexpected end",
    "glimmer, name": 'undeclared Glimmer function "open_door"',
    "harmony, ollama#11704": "error parsing tool call: invalid character 'c' looking for beginning of value",
    "native": 'llama-server returned invalid tool call arguments for "keep_note": unexpected end of JSON input',
    "native, llama.cpp#27025": (
        "llama-server chat error: map[code:500 message:The model produced output that does not match the expected "
        "peg-native format type:server_error]"
    ),
    "llama.cpp's grammar": "got exception: Unexpected empty grammar stack after accepting piece: {' (49453)",
}
NAMES = {
    "ministral": "open_door",
    "glimmer, name": "open_door",
    **dict.fromkeys(("glm", "glimmer", "native"), "keep_note"),
}
SERVERS = {  # what else servers say with status 500
    "runner": "an error was encountered while running the model: unexpected EOF",
    "memory": "model requires more system memory (9.1 GiB) than is available (4.0 GiB)",
    "option": 'option "temperature" must be of type float32',
    "format": 'invalid format: "\\"yaml\\""; expected "json" or a valid JSON Schema object',
    "tool": 'Failed to parse tools: Unsupported tool type: {"type":""}; tools = []',
    "image": "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    "template": "tools param requires --jinja flag",
    "load": "timed out waiting for llama-server to start - progress 0.00",
}


@pytest.fixture
def model(fake_ollama):
    ran.clear()
    with load_model("ollama/qwen3:4b") as model:
        yield model


@pytest.mark.parametrize("said", UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("how", ["status", "line", "after text"])
def test_an_unread_call_is_a_broken_call(fake_ollama, model, said, how):
    if how == "status":
        fake_ollama.fails(500, said)
    else:
        before = [{"message": {"role": "assistant", "content": "I see."}, "done": False}] if how == "after text" else []
        fake_ollama.sends(*before, {"error": said})
    case = case_from_dict(
        {"id": "1", "messages": [{"role": "user", "content": "Go."}], "tools": [keep_note.tool_spec],
         "expect": {"calls": [{"name": "keep_note", "arguments": {"text": "milk"}}]}}
    )  # fmt: skip
    asked = tk.ask(tk.Recipe("ollama/qwen3:4b", arm="native"), case, model=model)
    assert asked.reply.fault.kind == "parse"
    assert asked.reply.text == ("I see." if how == "after text" else "")
    assert asked.extraction.status == "broken"
    assert score(case, asked.reply, asked.extraction).outcome == "broken_call"


@pytest.mark.parametrize("source", UNREAD)
def test_an_agent_goes_on_after_an_unread_call(fake_ollama, model, source):
    fake_ollama.sends({"error": UNREAD[source]}).says("Then without.")
    trace = tk.Agent(model, tools=[keep_note], arm="native").run("Go on.")
    assert trace.text == "Then without."
    said = fake_ollama.requests[1]["messages"]
    assert "could not be read" in said[-1]["content"]
    assert said[-1]["role"] == ("tool" if source in NAMES else "user")
    assert said[-1].get("tool_name", "") == NAMES.get(source, "")


@pytest.mark.parametrize("said", SERVERS.values(), ids=SERVERS)
def test_what_else_a_server_says_is_its_own_fault(said):
    assert fault_of(ServerError.read(500, said))[0].kind == "server"


@pytest.mark.parametrize("said", ["unexpected EOF", "invalid tool call arguments", "invalid character 'x'"])
def test_a_request_that_is_refused_is_no_call_of_a_model(said):
    assert fault_of(ServerError.read(400, said))[0].kind == "server"


RAW = '{"name": "keep_note", "arguments": {"text": "milk",}}'


@pytest.mark.parametrize(
    "said",
    [
        f"error parsing tool call: raw='{RAW}', err=invalid character '}}' looking for beginning of object key string",
        f"error parsing tool call: raw='{RAW}', err=",
        f"error parsing tool call: raw='{RAW}'",
        f"Failed to parse input at pos 12: {RAW}",
    ],
)
def test_text_that_the_error_holds_is_read(fake_ollama, model, said):  # langchain#34746, ollama#17638
    fake_ollama.fails(500, said).says("Done.")
    trace = tk.Agent(model, tools=[keep_note], arm="native").run("Go on.")
    assert (ran, trace.text) == (["milk"], "Done.")


def test_an_error_that_is_packed_twice_is_unpacked():
    inner = json.dumps({"error": {"code": 400, "message": "no such", "type": "invalid_request_error"}})
    for wire in (inner, json.dumps({"error": inner}), {"error": {"message": inner, "type": "invalid_request_error"}}):
        error = ServerError.read(400, wire)
        assert (error.said, error.kind) == ("no such", "invalid_request_error")


@pytest.mark.parametrize(
    "last",
    [{"done_reason": "length", "eval_count": 16}, {"done_reason": "stop", "eval_count": 29}],
    ids=["tools.go.unfinished", "tools.go.malformed"],
)
@pytest.mark.parametrize("called", [False, True], ids=["nothing came", "the call came"])
def test_a_call_that_was_cut_or_lost_is_no_empty_reply(fake_ollama, model, last, called):
    call = {"id": "c1", "function": {"name": "keep_note", "arguments": {"text": "milk"}}}
    said = [{"message": {"content": "", "tool_calls": [call]}, "done": False}] if called else []
    fake_ollama.sends(*said, {"message": {"content": ""}, "done": True, **last})
    expected = {"calls": [{"name": "keep_note", "arguments": {"text": "milk"}}]}
    case = case_from_dict(
        {
            "id": "1",
            "messages": [{"role": "user", "content": "Go."}],
            "tools": [keep_note.tool_spec],
            "expect": expected,
        }
    )
    asked = tk.ask(tk.Recipe("ollama/qwen3:4b", arm="native"), case, model=model)
    outcome = score(case, asked.reply, asked.extraction).outcome
    assert outcome == ("right_call" if called and last["done_reason"] == "stop" else "broken_call")
