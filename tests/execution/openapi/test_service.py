"""Calls go only where they may, and nothing that comes back holds a credential."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import pickle
import traceback
from typing import Any
from urllib.parse import quote

import pytest

from toolkit.errors import (
    ConfigError,
    ToolArgumentsError,
    ToolInvocationError,
    ToolNotFoundException,
)
from toolkit.execution.invoker import ToolInvoker
from toolkit.execution.openapi.service import OpenAPIService
from toolkit.execution.toolset import Toolset
from toolkit.messages import ChatMessage, ToolCall
from toolkit.secrets import Secret

SECRET = "s3cret/token=+x"
CHECK = "test_no_error_holds_the_credential"
SCHEMES = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "basic": {"type": "http", "scheme": "basic"},
}


def spec(url: str, paths: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    paths = paths or {
        "/dogs": {
            "get": {"operationId": "list-dogs"},
            "post": {
                "operationId": "add",
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {"name": {"type": "string"}},
                            }
                        }
                    }
                },
            },
        },
        "/dogs/{id}": {
            "get": {
                "operationId": "dog",
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            },
            "delete": {"operationId": "drop"},
        },
    }
    return {"openapi": "3.1.0", "servers": [{"url": url}], "paths": paths, **more}


def secured(url: str, scheme: str = "header", **more: Any) -> dict[str, Any]:
    return spec(
        url,
        {"/x": {"get": {"operationId": "x", **more}}},
        security=[{scheme: []}],
        components={"securitySchemes": SCHEMES},
    )


def test_call(echo: Any) -> None:
    echo.says({"id": 7, "name": "Réx"})
    assert OpenAPIService.load(spec(echo.url)).call("dog", {"id": 7}) == {"id": 7, "name": "Réx"}
    assert (echo.last.method, echo.last.target) == ("GET", "/dogs/7")


def test_arguments_as_text_and_missing(echo: Any) -> None:  # B-W10
    service = OpenAPIService.load(spec(echo.url))
    service.call("dog", '{"id": 3}')
    for nothing in ("", None, {}):
        service.call("list_dogs", nothing)
    assert [seen.target for seen in echo.seen] == ["/dogs/3", "/dogs", "/dogs", "/dogs"]


def test_unknown_operation_suggests_names(echo: Any) -> None:  # B-W11
    with pytest.raises(ToolNotFoundException, match="Did you mean 'dog'"):
        OpenAPIService.load(spec(echo.url)).call("dogg", {})


@pytest.mark.parametrize("name", ["add", "drop", "dog"])
def test_allow_list_is_enforced_when_called(echo: Any, name: str) -> None:  # B-W16
    service = OpenAPIService.load(spec(echo.url), allowed_operations=["list-dogs"])
    with pytest.raises(ToolNotFoundException):
        service.call(name, {"id": 1, "name": "Rex"})
    service.call("list_dogs", {})
    service.call("list-dogs", {})
    assert [seen.method for seen in echo.seen] == ["GET", "GET"]


def test_arguments_are_validated_before_sending(echo: Any) -> None:
    with pytest.raises(ToolArgumentsError, match="name: expected string, got 3"):
        OpenAPIService.load(spec(echo.url)).call("add", {"name": 3})
    assert echo.seen == []


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        ("", "application/json", {"status": 200}),
        ("plain", "text/plain", "plain"),
        ('{"a": 1}', "text/plain", {"a": 1}),
        ("{broken", "application/json", "{broken"),
        ("null", "application/json", None),
        ("é".encode("latin-1"), "text/plain; charset=latin-1", "é"),
        ("é", "text/plain; charset=idna", "é"),
        ("é", "text/plain; charset=unicode_escape", "é"),
        (b"\xff", "text/plain; charset=ascii", "\ufffd"),
        ("[" * 5000, "application/json", "[" * 5000),
        (b"\x89PNG", "image/png", {"status": 200, "content_type": "image/png", "bytes": 4}),
    ],
    ids=["empty", "text", "json_as_text", "broken", "null", "charset", "idna", "escapes", "not_ascii", "deep", "image"],
)
def test_answers(echo: Any, body: Any, kind: str, value: Any) -> None:
    echo.says(body, Content_Type=kind)
    assert OpenAPIService.load(spec(echo.url)).call("list_dogs", {}) == value


def test_error_status_carries_the_servers_words(echo: Any) -> None:
    echo.says({"detail": "no dog 7"}, 404)
    with pytest.raises(ToolInvocationError, match=r"GET http://.*/dogs/7 answered 404: .*no dog 7"):
        OpenAPIService.load(spec(echo.url)).call("dog", {"id": 7})


def test_answer_and_time_are_bounded(echo: Any) -> None:
    echo.says("x" * 5000)
    with pytest.raises(ToolInvocationError, match="larger than 1000 bytes"):
        OpenAPIService.load(spec(echo.url), max_response_bytes=1000).call("list_dogs", {})


# ---------------------------------------------------------------- credentials


@pytest.mark.parametrize("scheme", ["header", "query", "bearer"])
def test_credential_arrives(echo: Any, scheme: str) -> None:
    OpenAPIService.load(secured(echo.url, scheme), credentials=SECRET).call("x", {})
    sent = (echo.last.headers.get("X-Key"), echo.last.target, echo.last.headers.get("Authorization"))
    expected = {
        "header": (SECRET, "/x", None),
        "query": (None, "/x?key=s3cret%2Ftoken%3D%2Bx", None),
        "bearer": (None, "/x", f"Bearer {SECRET}"),
    }
    assert sent == expected[scheme]


def test_basic(echo: Any) -> None:
    OpenAPIService.load(secured(echo.url, "basic"), credentials={"basic": "user:pass"}).call("x", {})
    assert echo.last.headers["Authorization"] == "Basic dXNlcjpwYXNz"


def test_missing_credential_sends_nothing(echo: Any) -> None:  # B-W15
    with pytest.raises(ToolInvocationError, match="Nothing was sent"):
        OpenAPIService.load(secured(echo.url)).call("x", {})
    assert echo.seen == []


def test_an_operation_can_opt_out(echo: Any) -> None:  # B-W13
    OpenAPIService.load(secured(echo.url, security=[]), credentials=SECRET).call("x", {})
    assert not {"X-Key", "Authorization"} & set(echo.last.headers)


def test_environment_variable(echo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service = OpenAPIService.load(secured(echo.url), credentials=Secret.from_env_var("TOOLKIT_TEST_KEY"))
    monkeypatch.setenv("TOOLKIT_TEST_KEY", "from-env")
    service.call("x", {})
    assert echo.last.headers["X-Key"] == "from-env"


def failing(kind: str, echo: Any, other: Any) -> dict[str, Any]:
    """Return a document whose call fails in some way that could give the credential away."""
    if kind == "echoed":
        echo.says({"you sent": f"Bearer {SECRET}", "url": "?key=s3cret%2Ftoken%3D%2Bx"}, 401)
    if kind == "redirect":
        echo.says("", 302, Location=f"{other.url}/?key={SECRET}")
    if kind == "huge":
        echo.says("x" * 2_000_000)
    url = "http://127.0.0.1:9" if kind == "dead" else echo.url
    return secured(url, "query" if kind in ("dead", "redirect") else "bearer")


@pytest.mark.parametrize("kind", ["echoed", "redirect", "huge", "dead"])
def test_no_error_holds_the_credential(echo: Any, other_host: Any, kind: str) -> None:  # B-W15
    service = OpenAPIService.load(failing(kind, echo, other_host), credentials=SECRET)
    with pytest.raises(ToolInvocationError) as caught:
        service.call("x", {})
    error: BaseException | None = caught.value
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__) if frame.f_code.co_name != CHECK]
    assert "s3cret" not in repr([frame.f_locals for frame in frames])
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__ or error.__context__
    assert other_host.seen == []


def test_what_a_server_echoes_is_hidden_from_the_model(echo: Any) -> None:
    echo.says({"headers": {"X-Key": SECRET}})
    service = OpenAPIService.load(secured(echo.url), credentials=SECRET)
    assert "s3cret" not in str(service.call("x", {}))
    echo.says('{"key": "' + "".join(f"\\u{ord(letter):04x}" for letter in SECRET) + '"}')
    assert service.call("x", {}) == {"key": "[hidden]"}


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    "spell",
    [
        html.escape,
        lambda key: html.escape(html.escape(key)),
        lambda key: quote(key, safe=""),
        lambda key: quote(quote(key, safe=""), safe=""),
        lambda key: json.dumps(json.dumps(key)),
        lambda key: "".join(f"&#{ord(letter)};" for letter in key),
        lambda key: base64.b64encode(f"ann:{key}".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"{key} and more".encode()).decode(),
    ],
    ids=["html", "html_twice", "url", "url_twice", "json_twice", "entities", "basic", "base64"],
)
def test_every_spelling_that_a_server_echoes_is_hidden(echo: Any, spell: Any, status: int) -> None:
    echo.says(f"<p>{spell(SECRET)}</p>", status, Content_Type="text/html")
    tools = Toolset.from_openapi(secured(echo.url), credentials=SECRET)
    told = ToolInvoker(tools, raise_on_failure=False).invoke(ToolCall("x", {})).result
    assert "[hidden]" in told
    assert spell(SECRET) not in told


def test_a_credential_is_hidden_in_answers_of_public_operations_too(echo: Any) -> None:
    echo.says({"last": SECRET})
    assert OpenAPIService.load(secured(echo.url, security=[]), credentials=SECRET).call("x", {}) == {"last": "[hidden]"}


def test_nothing_shows_the_credential() -> None:
    service = OpenAPIService.load(secured("http://127.0.0.1:9"), credentials=SECRET)
    assert "s3cret" not in repr(service) + repr(vars(service)) + repr(service.tools())
    with pytest.raises(ConfigError):
        pickle.dumps(service)


def test_service_with_a_variable_can_be_pickled(echo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_TEST_KEY", SECRET)
    service = OpenAPIService.load(secured(echo.url), credentials=Secret.from_env_var("TOOLKIT_TEST_KEY"))
    service.tools()
    stored = pickle.dumps(service)
    assert b"s3cret" not in stored
    pickle.loads(stored).call("x", {})
    assert echo.last.headers["X-Key"] == SECRET


# ---------------------------------------------------------------- hosts


def test_an_operation_on_another_host_gets_no_credential(echo: Any, other_host: Any) -> None:
    document = secured(echo.url, servers=[{"url": other_host.url}])
    with pytest.raises(ToolInvocationError, match="on another host"):
        OpenAPIService.load(document, credentials=SECRET).call("x", {})
    assert other_host.seen == []


def test_unless_the_user_names_that_host(echo: Any, other_host: Any) -> None:
    document = secured(echo.url, servers=[{"url": other_host.url}])
    OpenAPIService.load(document, credentials=SECRET, credential_hosts=[other_host.url]).call("x", {})
    assert other_host.last.headers["X-Key"] == SECRET


def test_public_operation_on_another_host_is_called(echo: Any, other_host: Any) -> None:
    OpenAPIService.load(secured(echo.url, security=[], servers=[{"url": other_host.url}])).call("x", {})
    assert len(other_host.seen) == 1


def test_servers_only_under_paths(echo: Any) -> None:  # B-W12
    document = secured(echo.url, servers=[{"url": f"{echo.url}/deep"}])
    del document["servers"]
    OpenAPIService.load(document, credentials=SECRET).call("x", {})
    assert (echo.last.target, echo.last.headers["X-Key"]) == ("/deep/x", SECRET)


def test_two_strangers_under_paths_get_no_credential(echo: Any, other_host: Any) -> None:
    paths = {
        f"/{n}": {"get": {"operationId": f"o{n}", "servers": [{"url": url}]}}
        for n, url in enumerate((echo.url, other_host.url))
    }
    document = {
        "openapi": "3.1.0",
        "paths": paths,
        "security": [{"header": []}],
        "components": {"securitySchemes": SCHEMES},
    }
    service = OpenAPIService.load(document, credentials=SECRET)
    for name in ("o0", "o1"):
        with pytest.raises(ToolInvocationError, match="on another host"):
            service.call(name, {})


def test_relative_server_belongs_to_the_documents_host(echo: Any) -> None:  # B-W12
    echo.says({**secured("/v2")})
    service = OpenAPIService.load(f"{echo.url}/docs/openapi.json", credentials=SECRET)
    service.call("x", {})
    assert (echo.last.target, echo.last.headers["X-Key"]) == ("/v2/x", SECRET)


@pytest.mark.parametrize("given", [{"credential_hosts": ["http://["]}, {"credential_hosts": "h:99999"}, {"server": 5}])
def test_settings_that_name_no_host(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        OpenAPIService.load(spec("http://h"), **given).call("list_dogs", {})


def test_no_server_at_all() -> None:
    with pytest.raises(ConfigError, match="Give server="):
        OpenAPIService.load(spec("/v1")).call("list_dogs", {})


# ---------------------------------------------------------------- as tools


def test_toolset(echo: Any) -> None:
    tools = Toolset.from_openapi(spec(echo.url), allowed_operations=["dog", "add", "drop"])
    assert [(tool.name, tool.effect) for tool in tools] == [("add", "writes"), ("dog", "reads"), ("drop", "dangerous")]
    echo.says({"name": "Rex"})
    call = ToolCall("dog", {"id": 1})
    out = ToolInvoker(tools).run(messages=[ChatMessage.from_assistant(tool_calls=[call])])
    assert out["tool_messages"][0].tool_call_result.result == '{"name": "Rex"}'


def test_failure_of_a_tool_is_a_result(echo: Any) -> None:
    echo.says("gone", 410)
    result = ToolInvoker(Toolset.from_openapi(spec(echo.url)), raise_on_failure=False).invoke(
        ToolCall("dog", {"id": 1})
    )
    assert result.error
    assert "answered 410: gone" in result.result


def test_tools_work_inside_a_running_loop(echo: Any) -> None:
    tools = Toolset.from_openapi(spec(echo.url))

    async def cell() -> Any:
        return tools["list_dogs"]()

    assert asyncio.run(cell()) == {"ok": True}


def test_argument_called_self(echo: Any) -> None:
    item = {"name": "self", "in": "query", "schema": {"type": "string"}}
    tools = Toolset.from_openapi(spec(echo.url, {"/x": {"get": {"operationId": "x", "parameters": [item]}}}))
    ToolInvoker(tools).invoke(ToolCall("x", {"self": "a"}))
    assert echo.last.target == "/x?self=a"
