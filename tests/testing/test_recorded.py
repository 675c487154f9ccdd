"""Every exchange that was recorded with a real server, put to the fake one: what differs is named.

The recordings lie in `tests/data/servers`, one exchange a line; `said` holds what the model wrote in it, token by
token. Compared are status, content type, number of lines, keys and their order, kinds and values, error texts and
how the connection ended; not what changes from run to run, nor what only the real tokenizer and weights know.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from toolkit.testing import FakeLlamaServer, FakeModel, FakeOllama, ScriptedReply

RECORDED = Path(__file__).parents[1] / "data" / "servers"
OLLAMA, LLAMA = (
    [json.loads(line) for line in (RECORDED / name).read_text(encoding="utf-8").splitlines()]
    for name in ("ollama.jsonl", "llama.jsonl")
)
BY_ID = {one["id"]: one for one in [*LLAMA, *OLLAMA]}

# Of these the kind is compared, and not the value: times and ids, sizes of files, and what only the real tokenizer
# and weights know (counts of prompt tokens, log probabilities, token ids). All else must be equal.
CHANGING = {
    "created_at", "modified_at", "expires_at", "created", "total_duration", "load_duration", "prompt_eval_duration",
    "eval_duration", "prompt_eval_count", "prompt_tokens", "total_tokens", "cached_tokens", "size", "logprob",
    "n_prompt_tokens", "context", "cache_n", "prompt_n", "prompt_ms", "prompt_per_token_ms",
    "prompt_per_second", "predicted_ms", "predicted_per_token_ms", "predicted_per_second", "tokens", "media_marker",
    "digest", "token", "bytes", "top_logprobs",
}  # fmt: skip


def put(host: str, request: dict[str, Any], leave_after: int | None = None) -> dict[str, Any]:
    """Send a request; return status, content type, lines, and how the connection ended where it was not properly."""
    address = host.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=10)
    body = json.dumps(request["json"]) if "json" in request else request.get("text")
    headers = {"Content-Type": "application/json", **(request.get("headers") or {})}
    answer: dict[str, Any] = {"status": None, "content_type": None, "lines": []}
    try:
        connection.request(request["method"], request["path"], body=body and body.encode(), headers=headers)
        got = connection.getresponse()
        answer |= {"status": got.status, "content_type": got.getheader("content-type")}
        if leave_after is None:
            answer["lines"] = lines_of(got.read())
        else:
            answer["lines"] = lines_of(b"".join(got.readline() for _ in range(leave_after)))
            answer["end"] = f"the client closed the connection after {leave_after} lines"
    except http.client.IncompleteRead as error:
        answer |= {"lines": lines_of(error.partial), "end": "broke off"}
    except (http.client.RemoteDisconnected, ConnectionResetError):
        answer["end"] = "closed without a response"
    except ConnectionRefusedError:
        answer["end"] = "refused"
    finally:
        connection.close()
    return answer


def lines_of(data: bytes) -> list[str]:
    """Return the lines of a body; the empty one after the last event of a stream is none."""
    lines = data.decode().split("\n")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def ending(end: str | None) -> str | None:
    """Return the recorded words for a bad end as the few kinds that there are."""
    kinds = {"incomplete chunked read": "broke off", "without sending a response": "closed without a response",
             "Connection refused": "refused"}  # fmt: skip
    return next((kind for words, kind in kinds.items() if words in (end or "")), end)


def differences(got: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """Return what differs between an answer and the recorded one, all but what changes from run to run."""
    found = [
        f"{key}: {got.get(key)!r} instead of {wanted.get(key)!r}"
        for key in ("status", "content_type")
        if got.get(key) != wanted.get(key)
    ]
    if ending(got.get("end")) != ending(wanted.get("end")):
        found.append(f"end: {got.get('end')!r} instead of {wanted.get('end')!r}")
    lines = wanted.get("lines") or []
    while lines and not lines[-1]:
        lines = lines[:-1]
    if len(got["lines"]) != len(lines):
        found.append(f"{len(got['lines'])} lines instead of {len(lines)}: {got['lines'][-2:]} / {lines[-2:]}")
    for index, (mine, theirs) in enumerate(zip(got["lines"], lines, strict=False)):
        found += _unlike(_value(mine), _value(theirs), f"line {index}")
    return found


def _value(line: str) -> Any:
    try:
        return json.loads(line.removeprefix("data: "))
    except ValueError:
        return line


def _unlike(mine: Any, theirs: Any, at: str, key: str = "") -> list[str]:
    if type(mine) is not type(theirs) and not (isinstance(mine, (int, float)) and isinstance(theirs, (int, float))):
        return [f"{at}: {mine!r:.200} instead of {theirs!r:.200}"]
    if isinstance(theirs, dict):
        if list(mine) != list(theirs):
            return [f"{at}: keys {list(mine)} instead of {list(theirs)}"]
        return [found for name in theirs for found in _unlike(mine[name], theirs[name], f"{at}.{name}", name)]
    if key in CHANGING or (key == "id" and isinstance(theirs, int)):
        return []
    if isinstance(theirs, list):
        if len(mine) != len(theirs):
            return [f"{at}: {len(mine)} items instead of {len(theirs)}: {mine!r:.300} / {theirs!r:.300}"]
        return [found for i, one in enumerate(theirs) for found in _unlike(mine[i], one, f"{at}[{i}]", key)]
    if isinstance(theirs, str):
        mine, theirs = _steady(mine, key), _steady(theirs, key)
    return [] if mine == theirs else [f"{at}: {mine!r:.600} instead of {theirs!r:.600}"]


def _steady(text: str, key: str) -> str:
    """Return a text without what changes from run to run: ids, counts of tokens that only a tokenizer knows."""
    if key == "id":
        return re.sub(r"chatcmpl-\w+|^\w{32}$|(?<=call_)\w{8}", "ID", text)
    if key in ("error", "message"):
        text = re.sub(r"request \(\d+ tokens\)", "request (N tokens)", text)
        text = re.sub(r"\(\d+\)$", "(ID)", text)  # of a token in the vocabulary
        return re.sub(r'"n_prompt_tokens":\d+', '"n_prompt_tokens":N', text)
    if key == "status":
        return re.sub(r"(new|existing) layer sha256:\w+", r"\1 layer", text)
    return text


def held_models() -> list[FakeModel]:
    """Return the models that the recorded server held."""
    small = "941f309b54caaad6747569ba43712bcde44a2be3bae16c3282ff499c37c54af5"
    gemma = {"family": "gemma3", "parameter_size": "268.10M", "quantization": "Q4_K_M", "trained": 32768}
    return [
        FakeModel("smollm2", tools=False, blob=small),
        FakeModel("smollm2-tools", "native"),
        FakeModel("smollm2-think", "native", thinking=True,
                  blob="653413f3647db363aacf99709d29bd98f31fa6e4d5d257a12d13eb047e35e066"),
        FakeModel("smollm2-go", blob=small),
        FakeModel("smollm2-go-think", thinking=True, blob=small),
        FakeModel("smollm2-qwen3-coder", "builtin", blob=small),
        FakeModel("gemma3-base", "native", tools=False, template="{{ .Prompt }}", **gemma,
                  blob="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
        FakeModel("rec-insert", tools=False),
        FakeModel("rec-system", tools=False, system="You are brief.", blob=small, parent="smollm2:latest",
                  parameters={"num_ctx": 512, "num_predict": 7, "stop": ["END"], "temperature": 0.3},
                  messages=({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."})),
        FakeModel("rec-ignored", "native"),
        FakeModel("rec-brace", tag="{"),
        FakeModel("rec-qwen3", "builtin", parser="qwen3"),
        FakeModel("rec-ministral", "builtin", parser="ministral"),
        FakeModel("rec-passthrough", "builtin", parser="passthrough"),
    ]  # fmt: skip


SHOWN = {
    one["request"]["json"].get("model", "gemma3-base"): json.loads(one["response"]["lines"][0]).get("model_info")
    for one in OLLAMA
    if one["request"]["path"] == "/api/show" and "json" in one["request"]
}
_MOMENT = datetime.now(UTC)
LOADED = [("smollm2-think", 1024), ("smollm2-tools", 1024)]  # before the exchanges about options
# What was loaded before a look at what is loaded, the last one last.
BEFORE: dict[str, list[tuple[str, Any]]] = {
    "options.num_ctx_beyond_trained.ps": [*LOADED, ("smollm2", 100_000)],
    "options.num_ctx_0.ps": [*LOADED, ("smollm2", 0)],
    "options.num_ctx_negative.ps": [*LOADED, ("smollm2", -1)],
    "options.num_ctx_16.ps": [*LOADED, ("smollm2", 16)],
    "options.num_ctx_unset.ps": [*LOADED, ("smollm2", None)],
    "v1.num_ctx_ignored.ps": [("gemma3-base", 1024), ("smollm2-tools", None), ("smollm2", "/v1")],
    "reload.v1.ps": [("smollm2", 640), ("smollm2", "/v1")],
    "reload.shared_blob.ps": [("smollm2", 640), ("smollm2-go", 640)],
    "ps.two_models.ps": [("smollm2", 640), ("smollm2-tools", 640)],
    "parallel.ps": [("smollm2-go", 1024)],
    **{f"keep_alive.{name}.ps": [("smollm2", 1024)] for name in ("seconds", "number", "forever", "sticks")},
    "keep_alive.ps_default": [("smollm2", 1024)],
}


def load(server: FakeOllama, name: str, window: Any) -> None:
    """Let the server load a model as a request does."""
    chat: dict[str, Any] = {"model": name, "messages": [{"role": "user", "content": "Hi"}], "stream": False}
    path = "/api/chat"
    if window == "/v1":
        path = "/v1/chat/completions"
    elif window is not None:
        chat["options"] = {"num_ctx": window}
    server.says("Hi")
    assert put(server.host, {"method": "POST", "path": path, "json": chat})["status"] == 200


def prepare(server: FakeOllama, name: str) -> None:
    """Bring the fake server into the state that the real one was in."""
    server.reset()
    server.models.clear()
    for model in held_models():
        shown = SHOWN.get(model.name)
        server.pulled(replace(model, info=shown) if shown else model)
    tools = server.models["smollm2-tools:latest"]
    server.pulled(FakeModel("rec-native-twin", "builtin", parser="passthrough", blob=tools.blob))
    server.version, server.context_length, server.catalogue.cloud = "0.0.0", 4096, True
    runners = server.runners
    runners.parallel, runners.most_loaded, runners.most_waiting = 1, 3, 512
    for loaded, window in BEFORE.get(name, ()):
        load(server, loaded, window)
    if name.startswith("wrong_template.native_second"):
        load(server, "rec-native-twin", 640)
    if name == "create.bad_parameter.chat":
        put(server.host, BY_ID["create.bad_parameter"]["request"])
    if name == "go_template_env.0":
        plain = json.loads(BY_ID["props.no_tools"]["response"]["lines"][0])["chat_template"]
        server.pulled(FakeModel("smollm2", "native", tools=False, template=plain))
    if name == "v1.models":
        listed = json.loads(BY_ID[name]["response"]["lines"][0])["data"]
        models = [replace(server.models[one["id"]], modified=_MOMENT) for one in listed]
        server.models.clear()
        server.models.update({model.full_name: model for model in models})
    server.catalogue.cloud = name != "no_cloud.chat"
    server.context_length = 300 if name == "context_env.chat" else 4096


@pytest.fixture(scope="module")
def ollama():
    with FakeOllama() as server:
        yield server


def replayed(server: FakeOllama, exchange: dict[str, Any]) -> dict[str, Any]:
    """Return what the fake server answers to the request of an exchange, in the state that the real one was in."""
    name = exchange["id"]
    prepare(server, name)
    if "said" in exchange:
        said = {key: tuple(value) if isinstance(value, list) else value for key, value in exchange["said"].items()}
        server.follows(lambda _: ScriptedReply(**said))
    leaves = 3 if name == "disconnect.client_leaves" else None
    if name == "kill_server.after":
        server.stop()
    if exchange["response"]["status"] == 503:
        with full_queue(server):
            return put(server.host, exchange["request"])
    got = put(server.host, exchange["request"], leaves)
    server.start()
    return got


@contextmanager
def full_queue(server: FakeOllama):
    """Let one model be at work where one fits, and a second one wait for its place."""
    gate = threading.Event()
    server.runners.most_loaded = server.runners.most_waiting = 1
    server.says("Hi", gate=gate, model="smollm2-go").says("Hi", model="smollm2-tools")
    chats = [
        {"model": name, "messages": [{"role": "user", "content": "Hi"}]} for name in ("smollm2-go", "smollm2-tools")
    ]
    threads = []
    for chat, waiting in zip(chats, (0, 1), strict=True):
        request = {"method": "POST", "path": "/api/chat", "json": chat}
        threads.append(threading.Thread(target=put, args=(server.host, request)))
        threads[-1].start()
        while not server.runners.loads or server.runners.waiting < waiting:
            gate.wait(0.005)
    yield
    gate.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("exchange", OLLAMA, ids=lambda one: one["id"])
def test_the_fake_answers_as_the_recorded_server(ollama, exchange):
    assert differences(replayed(ollama, exchange), exchange["response"]) == []


def prompt_count(lines: list[str]) -> int | None:
    """Return how many tokens of the prompt were read, as the last line says it."""
    return json.loads(lines[-1]).get("prompt_eval_count")


# what the fake's tokenizer counts as the real one: plain words, digits and marks of turns
WINDOWED = [
    one
    for one in OLLAMA
    if (one["id"].startswith(("truncation", "options.num_ctx", "window_end")) or "small_window" in one["id"])
    and prompt_count(one["response"]["lines"])
]


@pytest.mark.parametrize("exchange", WINDOWED, ids=lambda one: one["id"])
def test_windows_leave_as_much_of_a_prompt_as_the_recorded_server(ollama, exchange):
    assert prompt_count(replayed(ollama, exchange)["lines"]) == prompt_count(exchange["response"]["lines"])


def llama_for(name: str) -> FakeLlamaServer:
    """Return a fake in the state of llama.cpp's server for one exchange."""
    plain = FakeModel("models/SmolLM2-135M-Instruct.Q4_1.gguf", "native", tools=False)
    if name.startswith("key."):
        return FakeLlamaServer(plain, window=512, api_key="sk-right")
    if name == "props.no_tools" or name.startswith(("tools.dropped", "shared_window")):
        return FakeLlamaServer(plain, window=512, slots=4)
    if name.startswith("scripted"):
        return FakeLlamaServer(FakeModel("models/scr_hermes.gguf", "native"))
    template = json.loads(BY_ID["props"]["response"]["lines"][0])["chat_template"]
    server = FakeLlamaServer(FakeModel("models/smollm2-tools.gguf", "native", template=template), window=512)
    server.loading = name.startswith("loading.")
    return server


@contextmanager
def crowd(server: FakeLlamaServer, exchange: dict[str, Any]):
    """Let three other requests share the window, so that it is full once the one looked at has its recorded tokens."""
    gate = threading.Event()
    server.follows(lambda _: ScriptedReply("The", gate=gate))
    size = server.model().counts(server.prompt(exchange["request"]["json"]))
    server.window = 4 * size + 3 + {1: -1, 5: 1, 7: 2}[len(exchange["response"]["lines"])]
    threads = [threading.Thread(target=put, args=(server.host, exchange["request"])) for _ in range(3)]
    for thread in threads:
        thread.start()
    while sum(server.used.values()) < 3 * (size + 1):
        gate.wait(0.005)
    yield
    gate.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("exchange", LLAMA, ids=lambda one: one["id"])
def test_the_fake_answers_as_the_recorded_server_of_llama_cpp(exchange):
    with llama_for(exchange["id"]) as server:
        said = {
            key: tuple(value) if isinstance(value, list) else value for key, value in exchange.get("said", {}).items()
        }
        filled = crowd(server, exchange) if exchange["id"].startswith("shared_window") else nullcontext()
        with filled:
            server.follows(lambda _: ScriptedReply(**said))
            assert differences(put(server.host, exchange["request"]), exchange["response"]) == []
