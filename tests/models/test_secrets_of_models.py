"""No credential of a model leaves the process: not in a fault, store, recording, row, recipe, trace, repr or error."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug import Response

import toolkit as tk
from toolkit.errors import ToolkitError, UserError
from toolkit.models import Store, load_model
from toolkit.models.connection import Connection, public_name
from toolkit.models.openai import OpenAIModel
from toolkit.secrets import Mask

pytestmark = pytest.mark.sampled

KEY = "sk-l1ve/9f+8e<7d>&6c"
FORMS = {
    "raw": KEY,
    "url": urllib.parse.quote(KEY, safe=""),
    "html": html.escape(KEY),
    "json": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "base64": base64.b64encode(f"user:{KEY}".encode()).decode(),
    "bytes": repr(f"Bearer {KEY}".encode()),
}


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch):
    """Do not wait for a server that answers 502 to all."""
    monkeypatch.setattr("toolkit.evaluation.sweep.PATIENCE_S", 0.1)


def every_text(model, tmp_path, recipe=None):
    """Run a sweep and an agent, and return all that was written, shown or raised."""
    recipe = recipe or tk.Recipe(model.name)
    cases = [{"id": "a", "messages": ["Hi"], "tools": [{"name": "f"}], "expect": {"no_call": True}}]
    store = Store(tmp_path / "s.sqlite")
    shown = []
    for how in ("ask", "agent"):
        data = [{**cases[0], "results": [{"name": "f", "result": 1}]}] if how == "agent" else cases
        models = {recipe.model: model}
        result = tk.evaluate(recipe, data, run=how, models=models, store=store, progress=False)
        result.save(tmp_path / how)
        shown += [result.rows.to_csv(), repr(result), str(result), result._repr_html_(), result.rows.to_json()]
    shown += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    store.export_jsonl(tmp_path / "r.jsonl")
    shown += [(tmp_path / "r.jsonl").read_text(), repr(recipe), json.dumps(recipe.to_dict()), repr(model), model.name]
    shown += [recipe.hash, repr(store), json.dumps(list(store.rows()))]
    try:
        reply = model.chat("Ho")
        shown += [repr(reply), json.dumps(reply.to_dict()), reply._repr_html_(), json.dumps(reply.raw)]
        trace = tk.Agent(model, [], recipe=recipe).run("Hey", trace_file=tmp_path / "trace.jsonl")
        shown += [trace.to_json(), str(trace), trace._repr_html_(), (tmp_path / "trace.jsonl").read_text()]
    except ToolkitError as error:
        shown += [str(error), repr(error)]
    store.close()
    return "\n".join(shown)


def hidden(secret, text):
    mask = Mask([secret])
    assert secret not in text
    assert mask(text) == text


@pytest.fixture
def server(httpserver, monkeypatch):
    for name in ("OPENAI_API_KEY", "TOOLKIT_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOOLKIT_OPENAI_API_KEY", KEY)
    httpserver.expect_request("/v1/models").respond_with_json({"data": [{"id": "m", "owned_by": f"who has {KEY}"}]})
    return httpserver


def says(server, body, status=200, kind="text/event-stream"):
    handler = lambda _: Response(body, status, content_type=kind)  # noqa: E731
    for route in ("/v1/chat/completions", "/v1/completions"):
        server.expect_request(route).respond_with_handler(handler)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "place", ["error event", "error line", "HTTP error", "HTML error", "text", "call", "id", "usage"]
)
def test_a_server_that_repeats_the_key_gives_nothing_away(server, tmp_path, form, place):
    said = FORMS[form]
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": json.dumps({"x": said})}}
    end = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    bodies = {
        "error event": (f"data: {json.dumps({'error': f'bad {said}'})}\n\n", 200),
        "error line": (f"error: {json.dumps({'message': f'bad {said}', 'type': said})}\n\n", 200),
        "HTTP error": (json.dumps({"error": {"message": f"Incorrect API key provided: {said}"}}), 500),
        "HTML error": (f"<p>{said}</p>", 502),
        "text": (f"data: {json.dumps({'choices': [{'delta': {'content': said}}]})}\n\n{end}", 200),
        "call": (f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [call]}}]})}\n\n{end}", 200),
        "id": (f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [{**call, 'id': said}]}}]})}\n\n{end}", 200),
        "usage": (f"data: {json.dumps({'choices': [], 'usage': {said: said}})}\n\n{end}", 200),
    }
    says(server, *bodies[place])
    model = load_model(f"openai/m@{server.url_for('/v1')}")
    hidden(KEY, every_text(model, tmp_path))


def test_a_key_that_comes_in_pieces_is_hidden_in_the_reply(server):
    pieces = [KEY[at : at + 3] for at in range(0, len(KEY), 3)]
    lines = [f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n" for piece in pieces]
    says(server, "".join(lines) + "data: [DONE]\n\n")
    assert load_model(f"openai/m@{server.url_for('/v1')}").chat("Hi").text == "[hidden]"


@pytest.mark.parametrize("tail", ["\n", "\r\n", " \n", "\n\n"])
def test_a_key_read_from_a_file_is_stripped(server, monkeypatch, tail):
    seen = []

    def handler(request):
        seen.append(request.headers.get("Authorization"))
        return Response('data: {"choices": [{"delta": {"content": "ok"}}]}\n\ndata: [DONE]\n\n')

    server.expect_request("/v1/chat/completions").respond_with_handler(handler)
    monkeypatch.setenv("TOOLKIT_OPENAI_API_KEY", f"sk-123456{tail}")
    assert load_model(f"openai/m@{server.url_for('/v1')}").chat("Hi").text == "ok"
    assert seen == ["Bearer sk-123456"]


@pytest.mark.parametrize("bad", ["sk-é123456", "sk-12\n3456", "sk-12\x003456", "\n", "sk-😀123456"])
@pytest.mark.parametrize(("variable", "name"), [
    ("TOOLKIT_OPENAI_API_KEY", "openai/m@http://127.0.0.1:1/v1"), ("OLLAMA_API_KEY", "ollama/m"),
])  # fmt: skip
def test_a_key_that_cannot_be_sent_is_one_clear_error(monkeypatch, bad, variable, name):
    if "\x00" in bad:
        monkeypatch.setattr("os.environ", {**__import__("os").environ, variable: bad})
    else:
        monkeypatch.setenv(variable, bad)
    with pytest.raises(UserError, match=variable) as caught:
        load_model(name).chat("Hi")
    assert "123456" not in str(caught.value)


def test_the_key_of_ollama_is_hidden_too(fake_ollama, monkeypatch, tmp_path):
    monkeypatch.setenv("OLLAMA_API_KEY", KEY + "\n")
    for _ in range(3):
        fake_ollama.says(f"Your key is {KEY}.")
    hidden(KEY, every_text(load_model("ollama/qwen3:4b"), tmp_path))
    fake_ollama.fails(500, f"no {KEY}")
    assert load_model("ollama/qwen3:4b").chat("Hi").fault.message == "HTTP 500: no [hidden]"


URLS = [
    "http://user:p4ssw0rd@127.0.0.1:1/v1", "http://p4ssw0rd@127.0.0.1:1/v1", "http://127.0.0.1:1/v1?key=p4ssw0rd",
    "http://127.0.0.1:1/v1?api_key=p4ssw0rd&x=1", "http://u:p4ssw0rd@127.0.0.1:1/v1?token=p4ssw0rd",
    "https://u:p4ssw0rd@[bad/v1", "http://u:p4ssw0rd@127.0.0.1:99999/v1", "http://u:p4ssw0rd@/v1",
    "http://u:p4ssw0rd@x y/v1",
]  # fmt: skip


@pytest.mark.parametrize("url", URLS)
def test_credentials_in_a_name_stay_where_they_were_given(url, tmp_path):
    name = f"openai/m@{url}"
    recipe = tk.Recipe(name)
    assert "p4ssw0rd" not in repr(recipe) + json.dumps(recipe.to_dict()) + recipe.model
    recipe.save(tmp_path / "r.toml")
    assert "p4ssw0rd" not in (tmp_path / "r.toml").read_text()
    assert tk.Recipe.load(tmp_path / "r.toml").hash == recipe.hash
    actions = [
        lambda: load_model(name).check(), lambda: load_model(name).chat("Hi"), lambda: load_model(recipe.model),
        lambda: tk.ask(recipe, "Hi"), lambda: tk.Agent(recipe=recipe).run("Hi"),
        lambda: tk.evaluate(recipe, "lab", progress=False), lambda: load_model(name + " x", nope=1),
    ]  # fmt: skip
    for action in actions:
        try:
            shown = repr(action())
        except ToolkitError as error:
            shown = f"{error} {error!r}"
        assert "p4ssw0rd" not in shown


def test_credentials_in_a_name_are_sent(httpserver):
    seen = []

    def handler(request):
        seen.append((request.headers.get("Authorization"), request.args.get("key"), request.path))
        return Response('data: {"choices": [{"delta": {"content": "by p4ssw0rd and k3yk3y"}}]}\n\ndata: [DONE]\n\n')

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(handler)
    url = httpserver.url_for("/v1").replace("http://", "http://u:p4ssw0rd@") + "?key=k3yk3y"
    recipe = tk.Recipe(f"openai/m@{url}")
    asked = tk.ask(recipe, "Hi")
    assert seen == [(f"Basic {base64.b64encode(b'u:p4ssw0rd').decode()}", "k3yk3y", "/v1/chat/completions")]
    assert asked.reply.text == "by [hidden] and [hidden]"


def test_a_name_whose_credentials_were_not_kept_says_so(tmp_path):
    with pytest.raises(UserError, match="were not kept"):
        load_model("openai/m@http://h/v1?key=[hidden]")


@given(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=4, max_size=20))
def test_any_password_of_a_url_is_hidden(password):
    name = public_name(f"openai/m@http://user:{password}@h.example/v1?token={password}")
    assert name == "openai/m@http://h.example/v1?token=[hidden]"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(httpserver, monkeypatch, status):
    monkeypatch.setenv("OLLAMA_HOST", httpserver.url_for(""))
    reached = []
    other = httpserver.url_for("/elsewhere?token=s3cr3tt0k3n")
    httpserver.expect_request("/elsewhere").respond_with_handler(
        lambda request: reached.append(request) or Response("{}")
    )
    for route in ("/api/chat", "/api/tags", "/v1/chat/completions", "/v1/models"):
        httpserver.expect_request(route).respond_with_data(status=status, headers={"Location": other})
    for model in (load_model("ollama/m"), load_model(f"openai/m@{httpserver.url_for('/v1')}")):
        fault = model.chat("Hi").fault
        assert fault.kind == "server"
        assert "it redirects to" in fault.message
        assert "s3cr3tt0k3n" not in fault.message
    with pytest.raises(ToolkitError, match="redirects"):
        load_model("ollama/m").check()
    assert reached == []


@pytest.mark.parametrize("charset", ["idna", "utf-7", "punycode", "rot13", "nonsense", "utf-16"])
def test_the_charset_of_a_header_changes_nothing(httpserver, charset):
    body = 'data: {"choices": [{"delta": {"content": "grün"}}]}\n\ndata: [DONE]\n\n'.encode()
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        body, content_type=f"text/event-stream; charset={charset}"
    )
    assert load_model(f"openai/m@{httpserver.url_for('/v1')}").chat("Hi").text == "grün"


def test_a_damaged_compression_is_a_fault(httpserver):
    httpserver.expect_request("/v1/chat/completions").respond_with_data(
        b"\x1f\x8bnope", headers={"Content-Encoding": "gzip"}
    )
    assert load_model(f"openai/m@{httpserver.url_for('/v1')}").chat("Hi").fault.kind == "server"


def test_a_mask_holds_for_a_connection_of_ones_own():
    model = OpenAIModel("m@http://127.0.0.1:1/v1")
    model._connection = Connection(None, "", "", Mask([KEY]))
    assert KEY not in repr(model._connection)
