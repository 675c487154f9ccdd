"""A model chooses the call, the service answers, and every failure is a message."""

from __future__ import annotations

import json
import re
import traceback
from typing import Any

import pytest

import toolkit as tk
from toolkit.errors import ConfigError, ModelNotFoundError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import Fault, Reply
from toolkit.models.scripted import ScriptedModel

SPEC: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Scrape", "version": "1"},
    "paths": {
        "/scrape": {
            "post": {
                "operationId": "scrape-url",
                "summary": "Scrape one page",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}
                        }
                    },
                },
            },
        },
        "/jobs/{id}": {
            "delete": {
                "operationId": "drop",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            }
        },
    },
    "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}},
    "security": [{"key": []}],
}
CALL = ToolCall("scrape_url", {"url": "https://news.example"})
ASK = [ChatMessage.from_user("Scrape https://news.example")]


def spec(url: str) -> dict[str, Any]:
    return {**SPEC, "servers": [{"url": url}]}


def tool(url: str, *lines: Any, **more: Any) -> tk.OpenAPITool:
    more.setdefault("credentials", "s3cret-token")
    return tk.OpenAPITool(ScriptedModel(lines), spec=spec(url), **more)


def said(out: dict[str, list[ChatMessage]]) -> Any:
    assert list(out) == ["service_response"]
    (message,) = out["service_response"]
    assert message.is_from("user")
    return json.loads(message.text or "")


def test_usage_example(echo: Any, monkeypatch: pytest.MonkeyPatch, fake_ollama: Any) -> None:
    """The documented example, with the import lines and the model changed."""
    from toolkit import ChatMessage, LLMProvider, OpenAPITool, Secret

    monkeypatch.setenv("FIRECRAWL_API_KEY", "fire-key")
    fake_ollama.says(calls=[("scrape_url", {"url": "https://news.ycombinator.com/"})])
    echo.says(spec(echo.url))

    tool = OpenAPITool(generator_api=LLMProvider.OPENAI,
                       generator_api_params={"model":"ollama/qwen3:4b"},
                       spec=f"{echo.url}/openapi.json",
                       credentials=Secret.from_env_var("FIRECRAWL_API_KEY"))  # fmt: skip
    echo.says({"data": "Häcker News"})
    results = tool.run(messages=[ChatMessage.from_user("Scrape URL: https://news.ycombinator.com/")])

    assert said(results) == {"data": "Häcker News"}
    assert "ä" in (results["service_response"][0].text or "")
    assert echo.last.json == {"url": "https://news.ycombinator.com/"}
    assert echo.last.headers["Authorization"] == "Bearer fire-key"
    assert fake_ollama.requests[0]["tools"][0]["function"]["name"] == "scrape_url"


def test_native_call(echo: Any) -> None:
    found = tool(echo.url, CALL)
    out = found.run(ASK)
    assert said(out) == {"ok": True}
    assert (out["service_response"][0].meta["operation"], found.arm) == ("scrape_url", "native")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"id": "1", "type": "function", "function": {"name": "scrape_url", "arguments": '{"url": "u"}'}}]),
        '{"name": "scrape_url", "arguments": {"url": "u"}}',
        '<tool_call>\n{"name": "scrape_url", "arguments": {"url": "u"}}\n</tool_call>',
    ],
    ids=["openai", "bare", "hermes"],
)
def test_call_written_as_text(echo: Any, text: str) -> None:
    assert said(tool(echo.url, text).run(ASK)) == {"ok": True}
    assert echo.last.json == {"url": "u"}


def test_a_number_fits_a_text_parameter_in_every_arm(echo: Any) -> None:
    written = '{"name": "scrape_url", "arguments": {"url": 52.5}}'
    lines = {"native": ToolCall("scrape_url", {"url": 52.5}), "prompted": written, "constrained": written}
    for arm, line in lines.items():
        assert said(tool(echo.url, line, arm=arm).run(ASK)) == {"ok": True}
        assert echo.last.json == {"url": "52.5"}


@pytest.mark.parametrize("arm", ["prompted", "constrained"])
def test_model_without_tools(echo: Any, arm: Any) -> None:
    text = '{"name": "scrape_url", "arguments": {"url": "u"}}'
    found = tool(echo.url, f"<tool_call>{text}</tool_call>" if arm == "prompted" else text, arm=arm)
    assert said(found.run(ASK)) == {"ok": True}
    (request,) = found.model.requests  # type: ignore[attr-defined]
    assert request["tools"] is None
    assert "scrape_url" in request["messages"][0].text
    assert (request["schema"] is not None) == (arm == "constrained")


def test_prompted_is_the_default_without_tool_support(echo: Any) -> None:
    model = ScriptedModel(["hm"])
    model.supports_tools = False
    assert tk.OpenAPITool(model, spec=spec(echo.url)).arm == "prompted"


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("Sure, I can help", "called no operation; it said: Sure"),
        (ToolCall("nope", {}), "No operation 'nope' is offered"),
        (ToolCall("scrape_url", {"url": ["u", "v"]}), "url: expected string"),
        (ToolCall("scrape_url", {}), "url"),
        (Reply(fault=Fault("timeout", "too slow")), "failed: timeout: too slow"),
    ],
    ids=["prose", "unknown", "wrong_type", "missing", "fault"],
)
def test_failures_are_messages(echo: Any, line: Any, match: str) -> None:
    error = said(tool(echo.url, line).run(ASK))["error"]
    assert re.search(match, error), error
    assert echo.seen == []


def test_http_error(echo: Any) -> None:
    echo.says("down", 500)
    assert "answered 500: down" in said(tool(echo.url, CALL).run(ASK))["error"]


def test_only_the_first_call_is_made(echo: Any) -> None:
    out = tool(echo.url, ChatMessage.from_assistant(tool_calls=[CALL, ToolCall("drop", {"id": "1"})])).run(ASK)
    assert len(echo.seen) == 1
    assert out["service_response"][0].meta["calls_left_out"] == 1


def test_disallowed_operation_is_not_called(echo: Any) -> None:  # B-W16
    found = tool(echo.url, ToolCall("drop", {"id": "1"}), allowed_operations=["scrape-url"])
    assert "'drop'" in said(found.run(ASK))["error"]
    assert echo.seen == []
    assert [item.name for item in found.model.requests[0]["tools"]] == ["scrape_url"]  # type: ignore[attr-defined]


def test_no_secret_in_any_text(echo: Any) -> None:  # B-W15
    echo.says({"detail": "bad token s3cret-token"}, 401)
    found = tool(echo.url, CALL)
    out = found.run(ASK)
    assert "s3cret" not in repr(out) + repr(out["service_response"][0].to_dict()) + repr(found)
    plain = {**spec(echo.url), "security": [], "components": {}}
    out = tk.OpenAPITool(ScriptedModel([CALL]), spec=plain, credentials="s3cret-token").run(ASK)
    assert "no security scheme" in said(out)["error"]
    assert "s3cret" not in repr(out)


def test_missing_credential_sends_nothing(echo: Any) -> None:  # B-W15
    assert "needs a credential" in said(tool(echo.url, CALL, credentials=None).run(ASK))["error"]
    assert echo.seen == []


@pytest.mark.parametrize(
    "messages",
    [[], [ChatMessage.from_user("")], [ChatMessage.from_user("a"), ChatMessage.from_assistant("b")]],
    ids=["none", "empty", "assistant"],
)
def test_instruction_is_needed(echo: Any, messages: Any) -> None:
    with pytest.raises(ConfigError, match="last message"):
        tool(echo.url, CALL).run(messages)


# ---------------------------------------------------------------- at run time


def test_no_document() -> None:
    with pytest.raises(ConfigError, match="no OpenAPI document"):
        tk.OpenAPITool(ScriptedModel([CALL])).run(ASK)


def test_credentials_alone_are_used(echo: Any) -> None:
    tool(echo.url, CALL).run(ASK, credentials=tk.Secret.from_token("other-token"))
    assert echo.last.headers["Authorization"] == "Bearer other-token"


def test_document_at_run_time_keeps_the_allow_list(echo: Any) -> None:  # B-W16
    found = tool(echo.url, ToolCall("drop", {"id": "1"}), allowed_operations=["scrape-url"])
    assert "error" in said(found.run(ASK, spec=spec(echo.url)))
    assert echo.seen == []


def test_document_of_the_same_host_keeps_the_credentials(echo: Any) -> None:
    tool(echo.url, CALL).run(ASK, spec=spec(echo.url + "/v2"))
    assert (echo.last.target, echo.last.headers["Authorization"]) == ("/v2/scrape", "Bearer s3cret-token")


def test_document_of_another_host_does_not_get_the_credentials(echo: Any, other_host: Any) -> None:  # B-W15
    error = said(tool(echo.url, CALL).run(ASK, spec=spec(other_host.url)))["error"]
    assert "on another host" in error
    assert (echo.seen, other_host.seen) == ([], [])


def test_document_and_credentials_at_run_time(echo: Any, other_host: Any) -> None:
    tool(echo.url, CALL).run(ASK, spec=spec(other_host.url), credentials="new-token")
    assert other_host.last.headers["Authorization"] == "Bearer new-token"


def test_options_reach_the_model(echo: Any) -> None:
    found = tool(echo.url, CALL, generator_api_params={"generation_kwargs": {"temperature": 0.5}})
    found.run(ASK, fc_generator_kwargs={"max_tokens": 9})
    options = found.model.requests[0]["options"]  # type: ignore[attr-defined]
    assert (options.temperature, options.num_predict) == (0.5, 9)


def test_unknown_option(echo: Any) -> None:
    with pytest.raises(ConfigError, match="Unknown option 'temprature'"):
        tool(echo.url, CALL).run(ASK, fc_generator_kwargs={"temprature": 0})


# ---------------------------------------------------------------- models and dicts


@pytest.mark.parametrize(
    ("api", "params", "name"),
    [
        ("ollama/qwen3:4b", None, "ollama/qwen3:4b"),
        (tk.LLMProvider.OPENAI, {"model": "ollama/qwen3:4b"}, "ollama/qwen3:4b"),
        ("ollama", {"model": "qwen3:4b"}, "ollama/qwen3:4b"),
        (
            tk.LLMProvider.OPENAI,
            {"model": "m", "api_base_url": "http://127.0.0.1:1/v1"},
            "openai/m@http://127.0.0.1:1/v1",
        ),
    ],
    ids=["name", "prefix_wins", "provider", "address"],
)
def test_models(api: Any, params: Any, name: str) -> None:
    assert tk.OpenAPITool(api, params).model.name == name


@pytest.mark.parametrize("api", [42, None])
def test_no_model(api: Any) -> None:
    with pytest.raises(ConfigError, match="ChatModel"):
        tk.OpenAPITool(api)


def test_provider_without_model() -> None:
    with pytest.raises(ConfigError, match="Which model"):
        tk.OpenAPITool(tk.LLMProvider.OPENAI)
    with pytest.raises(ModelNotFoundError):
        tk.OpenAPITool(tk.LLMProvider.COHERE, {"model": "command-r"})


def test_dict_round_trip() -> None:
    found = tk.OpenAPITool(
        tk.LLMProvider.OPENAI,
        {"model": "ollama/qwen3:4b"},
        spec=spec("http://127.0.0.1:9"),
        credentials=tk.Secret.from_env_var("KEY"),
        allowed_operations=["scrape-url"],
    )
    stored = json.loads(json.dumps(found.to_dict()))
    assert stored["init_parameters"]["credentials"] == {"type": "env_var", "env_vars": ["KEY"], "strict": True}
    assert tk.OpenAPITool.from_dict(stored).to_dict() == found.to_dict()
    by_scheme = tk.OpenAPITool("ollama/m", spec=spec("http://h"), credentials={"key": tk.Secret.from_env_var("KEY")})
    assert tk.OpenAPITool.from_dict(by_scheme.to_dict()).to_dict() == by_scheme.to_dict()


@pytest.mark.parametrize(
    ("api", "more"),
    [
        ("ollama/m", {"credentials": "s3cret-token"}),
        ("ollama/m", {"credentials": {"key": "s3cret-token"}}),
        ("m", {"generator_api_params": {"api_key": "s3cret-token"}}),
        ("m", {"generator_api_params": {"headers": {"Authorization": "Bearer s3cret-token"}}}),
        ("m", {"generator_api_params": {"headers": [{"X-Key": ["s3cret-token"]}]}}),
        ("m", {"generator_api_params": {"http": {"proxy": "http://ann:s3cret@proxy"}}}),
        ("m", {"generator_api_params": {"headers": {"X": tk.Secret.from_token("s3cret-token")}}}),
        ("ollama/m", {"spec": "http://ann:s3cret@HOST/x"}),
        ("ollama/m", {"spec": "http://HOST/x?page=1&access_token=s3cret"}),
        ("openai/m@http://ann:s3cret@127.0.0.1:9/v1", {}),
    ],
    ids=range(10),
)
def test_no_secret_in_a_dict_nor_repr(echo: Any, api: str, more: dict[str, Any]) -> None:
    echo.says(spec("http://h"))
    host = echo.url.removeprefix("http://")
    given = {"spec": spec("http://h"), **more}
    if isinstance(given["spec"], str):
        given["spec"] = given["spec"].replace("HOST", host)
    found = tk.OpenAPITool(ScriptedModel([]) if api == "m" else api, **given)
    assert "s3cret" not in repr(found)
    try:
        told = json.dumps(found.to_dict())
    except ConfigError as error:
        told = f"a credential: {''.join(traceback.format_exception(error))}"
    assert "s3cret" not in told
    assert "credential" in told


def test_what_is_no_secret_is_stored(echo: Any) -> None:
    echo.says(spec("http://h"))
    params = {"model": "ollama/m", "generation_kwargs": {"max_tokens": 9}, "keep_alive": "5m"}
    document = {**spec("http://h"), "x-example": {"token": "abc"}}
    for given in (f"{echo.url}/x?version=3", document, json.dumps(document)):
        found = tk.OpenAPITool(tk.LLMProvider.OLLAMA, params, spec=given)
        assert tk.OpenAPITool.from_dict(json.loads(json.dumps(found.to_dict()))).to_dict() == found.to_dict()


def test_repr(echo: Any) -> None:
    assert repr(tool("http://h")) == "OpenAPITool(scripted, OpenAPIService('Scrape', 2 operations))"


# ------------------------------------------------------------------ a key for the model's server
def test_a_key_in_the_parameters_reaches_the_models_server_alone(echo):
    """Haystack's users write `generator_api_params={"api_key": Secret…}`."""
    params = {"model": f"m@{echo.url}/v1", "api_key": tk.Secret.from_token("k3y-of-the-model")}
    asked = tk.OpenAPITool("openai", params, spec=spec(echo.url), arm="prompted")
    text = str(asked.run(ASK)["service_response"])
    assert {seen.headers.get("Authorization") for seen in echo.seen} == {"Bearer k3y-of-the-model"}
    assert "k3y" not in text + repr(asked) + str(asked.model) + str(vars(asked))
    with pytest.raises(ConfigError, match="generator_api_params holds a credential"):
        asked.to_dict()


@pytest.mark.parametrize("name", ["ollama/x", "embedded/smollm2-135m"])
def test_a_key_that_no_server_takes_is_refused_with_what_to_do(name):
    params = {"model": name, "api_key": tk.Secret.from_token("k3y-of-the-model")}
    with pytest.raises(
        ConfigError, match="takes no api_key. Leave it out; a key for Ollama stands in OLLAMA_API_KEY"
    ) as e:
        tk.OpenAPITool(name.partition("/")[0], params, spec=SPEC)
    assert "k3y" not in str(e.value)


def test_a_key_from_the_environment_is_read_when_it_is_needed(echo, monkeypatch):
    model = tk.load_model(f"openai/m@{echo.url}/v1", api_key=tk.Secret.from_env_var("MINE"))
    monkeypatch.setenv("MINE", "later-1")
    monkeypatch.setenv("OPENAI_API_KEY", "not-this")
    model.chat([ChatMessage.from_user("x")])
    assert echo.last.headers["Authorization"] == "Bearer later-1"
