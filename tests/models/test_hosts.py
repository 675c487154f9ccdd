"""Addresses of servers as people write them, proxies, and who is let in."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug import Response

from toolkit.errors import ModelNotFoundError, UserError
from toolkit.models import load_model
from toolkit.models.hosts import is_loopback, ollama_address, same_model
from toolkit.models.ollama import OllamaModel, OllamaServer

ROUTES = ["", "/", "/api", "/api/", "/api/chat", "/api/generate", "/v1", "/v1/", "/v1/chat/completions", "/api/tags"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("path", ["", "/ollama", "/my/proxy"])
@pytest.mark.parametrize("scheme", ["", "http://", "https://"])
def test_routes_are_no_part_of_a_host(scheme, path, route):  # autogen#6155, ollama-python#244
    assert ollama_address(f"{scheme}host:11434{path}{route}") == (f"{scheme}host:11434{path}", None)


@pytest.mark.parametrize(
    ("told", "url"),
    [
        ("11435", "http://127.0.0.1:11435"),
        (":11435", "http://127.0.0.1:11435"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://127.0.0.1:8080"),
        ('"http://127.0.0.1:11434"', "http://127.0.0.1:11434"),
        (" host ", "http://host:11434"),
        ("[::1]:8080/api", "http://[::1]:8080"),
    ],
)
def test_what_people_write(told, url):
    assert OllamaServer(told).host == url


words = st.text(st.characters(codec="utf-8", exclude_characters="/@:", categories=("L", "N", "P")), min_size=1)


@given(words, words)
def test_user_and_password_are_taken_out(user, password):
    from urllib.parse import quote

    who = f"{quote(user, safe='')}:{quote(password, safe='')}"
    assert ollama_address(f"http://{who}@host:1/api/chat") == ("http://host:1", (user, password))
    assert ollama_address(f"{who}@host:1") == ("host:1", (user, password))


def test_user_and_password_reach_the_server_and_nothing_else(fake_ollama, monkeypatch):  # llm-ollama#42
    monkeypatch.setenv("OLLAMA_API_KEY", "of-another-server")
    fake_ollama.says("Hello.")
    model = OllamaModel("qwen3:4b", host=fake_ollama.host.replace("//", "//ada:s3cr3t@"))
    reply = model.chat("Hi")
    token = base64.b64encode(b"ada:s3cr3t").decode()
    assert fake_ollama.headers[0]["Authorization"] == f"Basic {token}"
    assert "s3cr3t" not in json.dumps(reply.to_dict()) + model.server.host + repr(model.fingerprint())


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_refuses_is_the_users_to_mend(httpserver, status):  # continue#10022
    httpserver.expect_request("/api/chat").respond_with_data('{"error": "unauthorized"}', status)
    httpserver.expect_request("/api/tags").respond_with_data("", status)
    model = OllamaModel("m", host=httpserver.url_for(""))
    for ask in (lambda: model.chat("Hi"), model.check):
        with pytest.raises(UserError, match=rf"refuses \(HTTP {status}.*OLLAMA_API_KEY"):
            ask()


def test_a_path_where_no_ollama_is(httpserver):
    httpserver.expect_request("/else/api/chat").respond_with_data("404 page not found", 404)
    with pytest.raises(ModelNotFoundError, match="is no Ollama server"):
        OllamaModel("m", host=httpserver.url_for("/else")).chat("Hi")


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://localhost:1", True), ("http://LOCALHOST.", True), ("127.0.0.1:11434", True),
        ("http://127.8.0.1", True),
        ("http://[::1]:1", True), ("http://0.0.0.0:1", True), ("", True), ("http://a.localhost/v1", True),
        ("http://localhost.example.org", False), ("http://10.0.0.1", False), ("https://127.0.0.1.example.org", False),
    ],
)  # fmt: skip
def test_is_loopback(url, here):
    assert is_loopback(url) is here


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_proxy_of_the_environment_is_not_for_loopback(
    fake_ollama, httpserver, monkeypatch, kind
):  # llama_index#13526
    proxy = "http://127.0.0.1:1"  # where nobody listens
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    if kind == "ollama":
        fake_ollama.says("Hello.")
        assert load_model("ollama/qwen3:4b").chat("Hi").text == "Hello."
        return
    whole = {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}
    httpserver.expect_request("/v1/chat/completions").respond_with_response(Response(json.dumps(whole)))
    assert load_model(f"openai/m@{httpserver.url_for('/v1')}").chat("Hi").text == "Hello."


@pytest.mark.parametrize("full", ["library/qwen3", "registry.ollama.ai/library/qwen3:latest", "QWEN3"])
def test_full_names_are_the_same_model(full):
    assert same_model("qwen3:latest", full)
    assert not same_model("someone/qwen3", full)
