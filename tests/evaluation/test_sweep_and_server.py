"""A sweep lives through what happens to its server: nothing finished is lost, nothing is asked twice, and it ends."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import toolkit as tk
from toolkit.errors import ConfigError, ServerGoneError, StoreError
from toolkit.evaluation import sweep
from toolkit.evaluation.cases import Case
from toolkit.evaluation.refusals import MOST_EQUAL, Refusals
from toolkit.models import load_model, waiting
from toolkit.testing import FakeLlamaServer, FakeModel, ScriptedReply

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = tk.Tool("weather", "Tell the weather.", CITY)
BUSY = "server busy, please try again.  maximum pending requests exceeded"
DIED = "an error was encountered while running the model: unexpected EOF"


def cases(count, tool=WEATHER):
    expect = ({"name": "weather", "arguments": {"city": "Oslo"}},)
    return [
        Case(f"c{n}", (tk.ChatMessage.from_user(f"Rain in Oslo on day {n}?"),), (tool,), expect, (), "test")
        for n in range(count)
    ]


def call(body=None):
    return '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


RECIPE = tk.Recipe("ollama/qwen3:4b", name="a", protocol="hermes", options={"timeout_s": 20.0})


@pytest.fixture
def server(fake_ollama, monkeypatch):
    monkeypatch.setattr(waiting, "_LONGEST_PAUSE_S", 0.25)
    fake_ollama.follows(call)
    return fake_ollama


def run(recipes, count=12, **more):
    return tk.evaluate(recipes, cases(count), progress=False, **more)


def questions(server):
    """Return how often each question was asked."""
    return Counter(request["messages"][-1]["content"] for request in server.requests)


FATES = {  # name -> what happens to the third request, whether the sweep itself makes up for it
    "server killed before the answer": (ScriptedReply(call(), cut_after=0, down_s=0.6), True),
    "server killed in the answer": (ScriptedReply(call(), cut_after=3, down_s=0.6), True),
    "queue full": (ScriptedReply(error=(503, BUSY)), True),
    "proxy without its server": (ScriptedReply(error=(502, b"<html>Bad Gateway</html>")), True),
    "overloaded": (ScriptedReply(error=(503, "Server overloaded, please retry shortly (ref: 06d81c91)")), True),
    "busy of old": (ScriptedReply(error=(500, "unexpected server status: llm busy - no slots available")), True),
    "too many requests": (ScriptedReply(error=(429, "you have reached your usage limit")), True),
    "runner died before": (ScriptedReply(error=(500, DIED)), False),
    "runner died in the answer": (ScriptedReply(call(), dies_after=3), False),
    "connection dropped": (ScriptedReply(call(), cut_after=0), False),  # writing-skills#149
    "wrong JSON": (ScriptedReply(raw=('{"message": {"content": "x"',)), False),
    "wrong JSON, then cut": (ScriptedReply(raw=('{"mess',), cut_after=1), False),
    "disk of the server full": (ScriptedReply(error=(500, "write /tmp/x: no space left on device")), False),
}


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.sampled)])
def test_what_happens_to_a_server_costs_nothing_that_was_finished(server, tmp_path, fate, workers):
    """ollama#2225 and its like: a run over many cases meets a server that goes away, dies, or is busy."""
    reply, made_up = FATES[fate]
    server._script.add(reply, at=3)
    store = tmp_path / "s.sqlite"
    with ThreadPoolExecutor(workers or 1) as pool:
        result = run(RECIPE, store=store, executor=pool if workers else None)
    outcomes = Counter(result.rows["outcome"])
    assert outcomes["right_call"] >= (12 if made_up else 11)
    assert len(tk.Store(store)) == outcomes["right_call"]
    asked = questions(server)
    assert sum(asked.values()) <= 12 + made_up * (1 + workers)  # killed: what was under way is asked again
    resumed = run(RECIPE, store=store)
    assert list(resumed.rows["outcome"]) == ["right_call"] * 12
    assert sum(resumed.rows["from_store"]) == outcomes["right_call"]
    again = questions(server) - asked
    assert sum(again.values()) == 12 - outcomes["right_call"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_server_that_stays_away_for_a_while_is_waited_for_and_the_bar_says_so(server, monkeypatch, workers):
    said = []
    monkeypatch.setattr(sweep, "progress_bar", lambda *_, **__: Bar(said))
    server._script.add(ScriptedReply(call(), cut_after=1, down_s=1.0), at=2)
    with ThreadPoolExecutor(workers or 1) as pool:
        result = tk.evaluate(RECIPE, cases(4), executor=pool if workers else None)
    assert list(result.rows["outcome"]) == ["right_call"] * 4
    assert any("waiting for 0 s: No Ollama server answers at" in text for text in said)
    assert said[-1] == ""
    late = result.rows.iloc[1]
    assert late["queue_seconds"] > 0.7
    assert late["seconds"] < 0.7


class Bar:
    """Keep what a bar was told."""

    disable, initial = False, 0

    def __init__(self, said):
        self.set_postfix_str = lambda text, refresh=True: said.append(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def set_description(self, *_, **__):
        pass

    def update(self, *_):
        pass


def test_a_full_disk_ends_the_sweep_and_keeps_what_was_finished(server, tmp_path, monkeypatch):
    insert, count = tk.Store._insert, []

    def full(store, rows):
        count.append(1)
        if len(count) == 4:
            raise StoreError("no space left")
        return insert(store, rows)

    monkeypatch.setattr(tk.Store, "_insert", full)
    with pytest.raises(StoreError):
        run(RECIPE, store=tmp_path / "s.sqlite")
    assert list(run(RECIPE, store=tmp_path / "s.sqlite").rows["outcome"]) == ["right_call"] * 12
    assert len(server.requests) == 13  # one answer could not be kept


@pytest.mark.parametrize(("status", "said"), [(429, "usage limit"), (502, "Bad Gateway"), (503, "Service Unavailable")])
def test_outside_a_sweep_only_a_server_that_says_so_is_waited_for(server, status, said):
    server.fails(status, said)
    with load_model("ollama/qwen3:4b") as model:
        assert model.chat("Hi").fault.kind == "server"
    assert len(server.requests) == 1


def test_patience_ends_and_the_recipe_stops(server, monkeypatch):
    monkeypatch.setattr(sweep, "PATIENCE_S", 0.5)
    server._script.add(ScriptedReply(call(), cut_after=1, down_s=3600), at=2)
    began = time.monotonic()
    rows = run(RECIPE).rows
    assert time.monotonic() - began < 5  # it is waited for once
    assert list(rows["outcome"]) == ["right_call"] + ["server_fault"] * 11
    assert rows["detail"].iloc[-1].startswith(f"not asked, for {MOST_EQUAL} requests before it were refused")


REFUSALS = {
    "wrong key": (401, "unauthorized"),
    "deleted model": (404, "model 'qwen3:4b' not found"),
    "no thinking": (400, '"qwen3:4b" does not support thinking'),
    "no tools": (400, "registry.ollama.ai/library/qwen3:4b does not support tools"),
    "schema": (400, json.dumps({"error": {"code": 400, "message": "Unrecognized schema: {}", "type": "invalid"}})),
    "keep_alive": (400, 'time: missing unit in duration "-1"'),
    "reference that changes": (500, "Internal Server Error (ref: %s)"),
    "out of memory": (500, "llama-server process has terminated: exit status 1"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.sampled)])
def test_a_recipe_that_is_refused_in_the_same_words_stops_and_the_others_go_on(server, tmp_path, refusal, workers):
    def rule(body):
        status, said = REFUSALS[refusal]
        said = said.replace("%s", uuid.uuid4().hex)
        return ScriptedReply(error=(status, said)) if body["options"]["top_k"] == 1 else call()

    server.follows(rule)
    others = (
        RECIPE.replace(name="b"),
        RECIPE.replace(name="c", options={"top_k": 1}),
        RECIPE.replace(name="d", system="S"),
    )
    with ThreadPoolExecutor(1) as pool:
        more = {"executor": pool} if workers else {}
        rows = tk.evaluate(others, cases(24), store=tmp_path / "s.sqlite", progress=False, **more).rows
    refused = rows[rows["recipe"] == "c"]
    assert len(rows) == 72
    assert set(refused["outcome"]) == {"server_fault"}
    assert (rows[rows["recipe"] != "c"]["outcome"] == "right_call").all()
    sent = [body for body in server.requests if body["options"]["top_k"] == 1]
    assert len(sent) == MOST_EQUAL or (workers and len(sent) <= 2 * MOST_EQUAL)
    assert refused["detail"].str.startswith("not asked").sum() >= 24 - 2 * MOST_EQUAL


def test_a_model_deleted_in_the_middle_stops_and_comes_back(server, tmp_path):
    def rule(body):
        if len(server.requests) == 4:
            server.models.clear()
        return call()

    server.follows(rule)
    kept = dict(server.models)
    rows = run(RECIPE, 20, store=tmp_path / "s.sqlite").rows
    assert list(rows["outcome"]) == ["right_call"] * 4 + ["server_fault"] * 16
    assert "Pull it" in rows["detail"].iloc[4]
    assert len(server.requests) == 4 + MOST_EQUAL
    server.models.update(kept)
    server.follows(call)
    assert list(run(RECIPE, 20, store=tmp_path / "s.sqlite").rows["outcome"]) == ["right_call"] * 20
    assert len(server.requests) == 20 + MOST_EQUAL


def test_faults_that_differ_or_pass_stop_nothing():
    def fault(detail):
        return {"outcome": "server_fault", "detail": detail}

    found = Refusals()
    for detail in ["x"] * 4 + ["y"] * 4 + ["timeout: x"] * 20 + ["x"] * 4:
        found.add(fault(detail))
        assert found.stopped is None
    found.add({"outcome": "right_call", "detail": ""})
    for _ in range(MOST_EQUAL - 1):
        found.add(fault("x"))
    assert found.stopped is None
    found.add(fault("x"))
    assert found.stopped is not None


PATTERN = {"type": "object", "properties": {"city": {"type": "string", "pattern": r"(?<=a)b"}}, "required": ["city"]}


@pytest.mark.parametrize(
    ("recipe", "tool", "said"),
    [
        (RECIPE.replace(arm="native"), WEATHER, "takes no tools. Use the arm prompted"),
        (RECIPE.replace(options={"think": True}), WEATHER, "cannot think"),
        (RECIPE.replace(options={"num_ctx": 4096}), WEATHER, "Set num_ctx to 2048 or less"),
        (RECIPE.replace(arm="constrained"), tk.Tool("weather", "Tell it.", PATTERN), "pattern"),
    ],
    ids=["tools", "think", "window", "schema"],
)
def test_what_a_model_cannot_do_is_refused_before_the_first_case(server, recipe, tool, said):
    server.pulled(FakeModel("qwen3:4b", tools=False, thinking=False, trained=2048))
    good = RECIPE.replace(name="good")
    with pytest.raises(ConfigError, match=rf"Recipe 'a', case 'c0': .*{said}"):
        tk.evaluate([good, recipe], cases(3, tool), progress=False)
    assert server.requests == []


def test_queueing_is_no_timeout_and_no_run_time(server):
    """Four in flight on one slot: each run takes a while, and those that wait are given the time they need."""
    server.follows(lambda body: ScriptedReply("one two three four five", delay_s=0.08))
    recipe = RECIPE.replace(options={"timeout_s": 0.6})
    with ThreadPoolExecutor(4) as pool:
        blocks = [pool.submit(run, recipe.replace(options={"timeout_s": 0.6, "seed": n}), 3) for n in range(4)]
        rows = [row for block in blocks for row in block.result().rows.to_dict("records")]
    assert {row["outcome"] for row in rows} == {"wrong_abstention"}
    assert max(row["queue_seconds"] for row in rows) > 0.6
    assert max(row["seconds"] for row in rows) < 1.2


def test_a_server_that_does_nothing_is_still_a_timeout(server):  # mellea#1101
    server._script.add(ScriptedReply("x", gate=threading.Event()), at=1)
    began = time.monotonic()
    with load_model("ollama/qwen3:4b", timeout_s=0.4) as model:
        assert model.chat("Hi").fault.kind == "timeout"
    assert time.monotonic() - began < 2


def test_outside_a_sweep_a_server_that_is_gone_is_told_at_once(server):
    server.stop()
    began = time.monotonic()
    with load_model("ollama/qwen3:4b") as model, pytest.raises(ServerGoneError, match="ollama serve"):
        model.chat("Hi")
    assert time.monotonic() - began < 1


class Counting(FakeLlamaServer):
    """Count the requests in flight, those that wait for a slot included."""

    def __init__(self, **more):
        self.now, self.most, self.lock = 0, 0, threading.Lock()
        super().__init__(**more)

    def handle(self, request):
        if not request.path.endswith("completions"):
            return super().handle(request)
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        response = super().handle(request)
        response.body = self._body(response.body)
        return response

    def _body(self, pieces):
        over = False
        for piece in pieces:
            if not over and re.search(r'"finish_reason": ?"|\[DONE\]', piece):  # once it is out, the next may come
                over = True
                with self.lock:
                    self.now -= 1
            yield piece


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_as_many_are_in_flight_as_llama_cpp_has_slots_and_no_more(slots):
    with Counting(slots=slots, window=100_000) as fake, ThreadPoolExecutor(6) as pool:
        fake.keeps_connections = False
        fake.follows(lambda body: ScriptedReply("one two three", delay_s=0.03))
        recipe = tk.Recipe(f"openai/m@{fake.host}/v1", protocol="hermes")
        rows = tk.evaluate(recipe, cases(48), executor=pool, progress=False).rows
    assert len(rows) == 48
    assert set(rows["outcome"]) == {"wrong_abstention"}
    assert fake.most == slots
