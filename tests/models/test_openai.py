"""Server-sent events over real HTTP, with the quirks of llama.cpp's server, vLLM and LM Studio."""

from __future__ import annotations

import json

import pytest

from toolkit.errors import ModelNotFoundError, UserError
from toolkit.messages import ToolCall
from toolkit.models import load_model
from toolkit.testing import FakeLlamaServer, FakeModel
from toolkit.testing.loopback import Response

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "Tell the weather.", "parameters": CITY}


class FakeServer(FakeLlamaServer):
    """Add to llama.cpp's server what others behind the same API send."""

    @property
    def url(self):
        return f"{self.host}/v1"

    def handle(self, request):
        return super().handle(request) if request.path != "/props" else Response(404, "Not Found")

    def streams(self, *pieces, done=True):
        self.sends(": ping", *pieces, *(["data: [DONE]"] if done else []))


@pytest.fixture
def server(monkeypatch):
    for name in ("TOOLKIT_OPENAI_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with FakeServer(FakeModel("qwen3", "native")) as server:
        yield server


@pytest.fixture
def model(server):
    with load_model(f"openai/qwen3@{server.url}") as model:
        yield model


def test_reply_keeps_text_and_counts(server, model):
    server.says("Hello there!", prompt_tokens=10, completion_tokens=5, prompt_tokens_details={"cached_tokens": 4})
    reply = model.chat("Hi")
    assert (reply.text, reply.finish_reason, reply.fault) == ("Hello there!", "stop", None)
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (10, 4, 5)
    assert reply.raw["request"] == server.requests[0]
    assert reply.raw["notes"] == ["not sent, for the server sets it: num_ctx"]


def test_body_is_openais(server, model):
    server.says("x")
    model.chat("Hi", tools=[TOOL], schema=CITY, options={"stop": ["END"], "think": False}, tool_choice="weather")
    body = server.requests[0]
    assert body["model"] == "qwen3"
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert (body["max_tokens"], body["seed"], body["stop"]) == (512, 0, ["END"])
    assert body["response_format"]["json_schema"]["schema"] == CITY
    assert body["tools"] == [{"type": "function", "function": TOOL}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "num_ctx" not in body
    assert "keep_alive" not in body


def test_calls_arrive_in_pieces(server, model):
    def delta(index, **call):
        return {"choices": [{"delta": {"tool_calls": [{"index": index, **call}]}}]}

    server.streams(
        delta(0, id="a1", function={"name": "weather", "arguments": ""}),
        delta(0, function={"arguments": '{"city": '}),
        delta(1, function={"name": "weather", "arguments": '{"city": "Rome"}'}),
        delta(0, function={"arguments": '"Oslo"}'}),
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    )
    reply = model.chat("Hi", tools=[TOOL])
    assert reply.finish_reason == "tool_calls"
    assert reply.tool_calls[0] == ToolCall("weather", {"city": "Oslo"}, "a1")
    assert reply.tool_calls[1].arguments == {"city": "Rome"}
    assert reply.tool_calls[1].id.startswith("call_")


def test_arguments_as_an_object_are_read(server, model):
    server.streams({"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}}]})
    assert model.chat("Hi", tools=[TOOL]).tool_calls[0].arguments == {"x": 1}


def test_unreadable_arguments_are_a_fault_with_their_text(server, model):
    call = {"index": 0, "function": {"name": "weather", "arguments": '{"city": "Os}'}}
    server.streams({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    reply = model.chat("Hi", tools=[TOOL])
    assert (reply.fault.kind, reply.tool_calls) == ("parse", ())
    assert reply.text == '{"name": "weather", "arguments": {"city": "Os}}'


@pytest.mark.parametrize("word", ["reasoning_content", "reasoning"])
def test_thinking_is_kept_apart(server, model, word):
    server.streams({"choices": [{"delta": {word: "Hm."}}]}, {"choices": [{"delta": {"content": "Yes."}}]})
    reply = model.chat("Hi")
    assert (reply.thinking, reply.text) == ("Hm.", "Yes.")


def test_raw_completion(server, model):
    server.says(" there was END")
    reply = model.complete("Once upon a time", schema=None, options={"stop": ["END"]})
    assert server.requests[0]["prompt"] == "Once upon a time"
    assert reply.text == " there was "


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"type": "exceed_context_size_error", "message": "request (9 tokens) exceeds it"}}, "overflow"),
        (400, {"error": {"message": "request (9000 tokens) exceeds the available context size"}}, "overflow"),
        (400, {"error": {"message": "This model's maximum context length is 4096 tokens."}}, "overflow"),
        (400, {"detail": "bad"}, "server"),
        (500, "Internal Server Error", "server"),
        (503, {"error": "Loading model"}, "server"),
    ],
    ids=["type says it", "llama.cpp", "vLLM", "detail", "text", "loading"],
)
def test_errors_of_the_server_are_data(server, model, status, body, kind):
    server.fails(status, body)
    assert model.chat("Hi").fault.kind == kind


def test_error_within_the_stream(server, model):
    error = {"code": 400, "type": "exceed_context_size_error", "message": "too many", "n_prompt_tokens": 9000}
    server.streams({"choices": [{"delta": {"content": "Hel"}}]}, {"error": error})
    reply = model.chat("Hi")
    assert (reply.fault.kind, reply.finish_reason, reply.text, reply.prompt_tokens) == (
        "overflow",
        "overflow",
        "Hel",
        9000,
    )


def test_event_that_is_no_json(server, model):
    server.sends("data: {oops")
    assert "no JSON" in model.chat("Hi").fault.message


def test_schema_not_honoured(server, model):
    server.says("Oslo")
    assert model.chat("Hi", schema=CITY).fault.kind == "schema_not_honoured"


def test_silently_cut_prompt(server, model):
    server.says("What?", prompt_tokens=100)
    assert model.chat("The rain in Spain stays mainly in the plain. " * 300).fault.kind == "overflow"


@pytest.mark.parametrize("variable", ["TOOLKIT_OPENAI_API_KEY", "OPENAI_API_KEY"])
def test_key_comes_from_the_environment_and_stays_there(server, monkeypatch, variable):
    monkeypatch.setenv(variable, "sk-very-secret")
    server.fails(400, {"error": {"message": "Incorrect API key provided: sk-very-secret"}})
    with load_model(f"openai/qwen3@{server.url}") as model:
        reply = model.chat("Hi")
        print_out = json.dumps([reply.to_dict(), model.fingerprint(), model.name, repr(model)])
    assert server.headers[0]["authorization"] == "Bearer sk-very-secret"
    assert "sk-very-secret" not in print_out


def test_refused_key_is_the_users_to_mend(server, model):
    server.fails(401, {"error": {"message": "no"}})
    with pytest.raises(UserError, match="TOOLKIT_OPENAI_API_KEY"):
        model.chat("Hi")


def test_password_in_the_address_is_never_shown(server):
    url = server.url.replace("http://", "http://user:secret@")
    server.says("x")
    with load_model(f"openai/qwen3@{url}") as model:
        shown = json.dumps([model.chat("Hi").to_dict(), model.fingerprint(), model.name])
    assert "secret" not in shown


def test_unknown_model_lists_what_is_there(server):
    server.fails(404, {"error": {"message": "The model `qwen4` does not exist."}})
    with (
        load_model(f"openai/qwen4@{server.url}") as model,
        pytest.raises(ModelNotFoundError, match="Did you mean 'qwen3'"),
    ):
        model.chat("Hi")


def test_check_trusts_a_server_with_one_model(server):
    with load_model(f"openai/default@{server.url}") as model:
        model.check()
        server.others.append({"id": "llama3"})
        with pytest.raises(ModelNotFoundError, match="has no model 'default'"):
            model.check()


def test_fingerprint_leaves_out_what_changes_from_look_to_look(server, model):
    found = model.fingerprint()
    assert {key: found[key] for key in ("backend", "name", "owned_by")} == {
        "backend": "openai", "name": model.name, "owned_by": "llamacpp",
    }  # fmt: skip
    assert found["meta"]["n_ctx_train"] == 8192
    assert "created" not in found
    assert model.fingerprint() == found
    assert server.looks == ["/v1/models"]


def test_no_server():
    with (
        load_model("openai/qwen3@http://127.0.0.1:1/v1") as model,
        pytest.raises(ModelNotFoundError, match=r"No server answers at http://127.0.0.1:1/v1"),
    ):
        model.chat("Hi")


@pytest.mark.parametrize("name", ["openai/qwen3", "openai/@http://x/v1"])
def test_name_without_a_server(name):
    with pytest.raises(ModelNotFoundError, match="names no server"):
        load_model(name)


def test_lone_surrogates_reach_the_server_as_question_marks(server, model):
    server.says("x")
    assert model.chat("Hi \ud83d").fault is None
    assert server.requests[0]["messages"][0]["content"] == "Hi ?"


WHOLE = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Low tide."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 5},
}
UNSAID = {"choices": [{"message": {"content": "Low tide."}}]}


@pytest.mark.parametrize(
    "body",
    [json.dumps(WHOLE), json.dumps(WHOLE, indent=2), json.dumps([WHOLE]), json.dumps(UNSAID)],
    ids=["one line", "pretty", "list", "says no reason"],
)
def test_a_whole_answer_in_place_of_a_stream_is_read(server, model, body):  # issue 12, o04
    server.sends(body)
    reply = model.chat("Hi")
    assert (reply.text, reply.finish_reason, reply.fault) == ("Low tide.", "stop", None)


def test_pieces_without_their_field_name_are_read(server, model):
    pieces = [{"choices": [{"delta": {"content": word}}]} for word in ("Low ", "tide.")]
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    server.sends(*map(json.dumps, [*pieces, end]))
    reply = model.chat("Hi")
    assert (reply.text, reply.fault) == ("Low tide.", None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error": {"message": "no such thing", "code": 5}}', "no such thing"),
        ('[{"error": {"message": "no such thing"}}]', "no such thing"),
        ('{"error": "no such thing"}', "no such thing"),
        ('{"object": "error", "message": "no such thing"}', "no such thing"),
        ('{"detail": [{"msg": "no such thing"}]}', "no such thing"),
        ('data: {"object": "error", "message": "no such thing"}\n\n', "no such thing"),
        ('data: {"choices": []}\n\n{"error": {"message": "no such thing"}}\n', "no such thing"),
        ("<html>no such thing</html>", "no such thing"),
        ("", "broke off"),
        ('data: {"choices": [{"delta": {"content": "The tide is"}}]}\n\n', "broke off"),
    ],
)
def test_an_error_or_nothing_under_status_200_is_a_fault(server, model, body, said):  # issue 12, o04
    server.sends(body)
    reply = model.chat("Hi")
    assert (reply.fault.kind, reply.finish_reason) == ("server", "error")
    assert said in reply.fault.message


CALL = {"index": 0, "id": "c1", "function": {"name": "weather", "arguments": ""}}


@pytest.mark.parametrize("arguments", ["", '{"city": "Os', '{"city": "Oslo"}'])
def test_a_stream_that_ends_within_a_call_is_a_fault_and_no_call(server, model, arguments):  # issue 12, o06
    function = {"name": "weather", "arguments": arguments}
    delta = {"tool_calls": [{**CALL, "function": function}]}
    server.streams(
        {"choices": [{"delta": {"content": "I look."}}]},
        {"choices": [{"delta": delta, "finish_reason": None}]},
        done=False,
    )
    reply = model.chat("Hi", tools=[TOOL])
    assert (reply.tool_calls, reply.fault.kind) == ((), "server")


@pytest.mark.parametrize("finish", ["stop", None])
def test_a_stream_ends_with_a_reason_or_a_mark(server, model, finish):
    closing = {"choices": [{"delta": {}, "finish_reason": finish}]}
    server.streams({"choices": [{"delta": {"content": "Low."}}]}, closing, done=finish is None)
    reply = model.chat("Hi")
    assert (reply.text, reply.finish_reason, reply.fault) == ("Low.", "stop", None)


def test_a_loop_that_the_server_gave_up_is_cut_at_its_length(server, model):  # ollama#8786, under /v1
    server.streams(*({"choices": [{"delta": {"content": text}}]} for text in ["0", *["1"] * 31]), done=False)
    reply = model.chat("Hi")
    assert (reply.finish_reason, reply.limit, reply.fault, reply.text[:3]) == ("length", "loop", None, "011")


def test_a_cut_call_is_known_and_not_run(server, model):
    delta = {"tool_calls": [{**CALL, "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]}
    server.streams({"choices": [{"delta": delta}]}, {"choices": [{"delta": {}, "finish_reason": "length"}]})
    reply = model.chat("Hi", tools=[TOOL])
    assert (reply.tool_calls, reply.finish_reason) == ((), "length")
    assert [(bad["name"], bad["id"]) for bad in reply.raw["invalid_tool_calls"]] == [("weather", "c1")]
