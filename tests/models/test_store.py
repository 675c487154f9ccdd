from __future__ import annotations

import json
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from toolkit.errors import ConfigError, ReplayMissError, StoreError, UserError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models import Fault, Options, Reply, ScriptedModel, Store, load_model

TOOL = {"name": "weather", "description": "", "parameters": {"type": "object", "properties": {"city": {}, "day": {}}}}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "runs" / "replies.sqlite") as store:
        yield store


def test_record_asks_once(store):
    model = ScriptedModel(["one", "two"])
    stored = store.wrap(model)
    first, second = stored.chat("Hi"), stored.chat("Hi")
    assert (first.text, first.from_store) == ("one", False)
    assert (second.text, second.from_store) == ("one", True)
    assert second.replace(from_store=False) == first
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"messages": "Ho"},
        {"tools": [TOOL]},
        {"schema": {"type": "object"}},
        {"options": {"temperature": 1.0}},
        {"options": {"seed": 1}},
        {"options": {"num_ctx": 4096}},
        {"options": {"stop": ["x"]}},
        {"options": {"think": True}},
        {"tool_choice": "required"},
    ],
    ids=str,
)
def test_whatever_can_change_the_reply_is_asked_anew(store, change):
    model = ScriptedModel(["one", "two"])
    stored = store.wrap(model)
    stored.chat("Hi")
    assert stored.chat(**{"messages": "Hi", **change}).text == "two"


@pytest.mark.parametrize("change", [{"timeout_s": 1.0}, {"keep_alive": "1h"}, {}], ids=str)
def test_what_cannot_change_the_reply_is_not(store, change):
    stored = store.wrap(ScriptedModel(["one"]))
    stored.chat("Hi")
    assert stored.chat("Hi", options=change).from_store


def test_notes_beside_messages_do_not_count(store):
    stored = store.wrap(ScriptedModel(["one"]))
    stored.chat(ChatMessage.from_user("Hi", meta={"time": 1}))
    assert stored.chat(ChatMessage.from_user("Hi", meta={"time": 2})).from_store


def test_order_of_keys_in_a_schema_counts(store):
    # constrained decoding writes in the order of the schema
    stored = store.wrap(ScriptedModel(["one", "two"]))
    first = {"type": "object", "properties": {"a": {}, "b": {}}}
    second = {"type": "object", "properties": {"b": {}, "a": {}}}
    stored.chat("Hi", schema=first)
    assert stored.chat("Hi", schema=second).text == "two"


def test_a_miss_names_the_order_of_keys(store):
    store.wrap(ScriptedModel(["one"])).chat("Hi", schema={"properties": {"a": {}, "b": {}}})
    with pytest.raises(ReplayMissError, match=r"schema.properties \(order of keys\): stored \[\"a\",\"b\"\]"):
        store.replay_model().chat("Hi", schema={"properties": {"b": {}, "a": {}}})


def test_repeats_have_replies_of_their_own(store):  # promptfoo#360, promptfoo#1431
    model = ScriptedModel(["one", "two"])
    assert [store.wrap(model, repeat=repeat).chat("Hi").text for repeat in (0, 1, 0, 1)] == ["one", "two", "one", "two"]


def test_two_models_do_not_share_replies(store):
    assert store.wrap(ScriptedModel(["one"], name="a")).chat("Hi").text == "one"
    assert store.wrap(ScriptedModel(["two"], name="b")).chat("Hi").text == "two"


def test_a_changed_model_of_the_same_name_is_asked_anew(store):
    store.wrap(ScriptedModel(["one"])).chat("Hi")
    assert store.wrap(ScriptedModel(["two"])).chat("Hi").text == "two"
    assert store.replay_model("scripted").chat("Hi").text == "two"  # the newest


def test_defaults_of_the_model_are_part_of_the_request(store, fake_ollama):
    fake_ollama.says("one").says("two")
    with load_model("ollama/qwen3:4b", num_ctx=4096) as small, load_model("ollama/qwen3:4b") as large:
        assert store.wrap(small).chat("Hi").text == "one"
        assert store.wrap(large).chat("Hi").text == "two"
        assert store.wrap(small, "replay").chat("Hi").text == "one"
        assert store.replay_model("ollama/qwen3:4b").chat("Hi", options={"num_ctx": 4096}).text == "one"


def test_replay_needs_no_model_and_no_server(store, fake_ollama):
    fake_ollama.says("one")
    with load_model("ollama/qwen3:4b") as model:
        store.wrap(model).chat("Hi")
    fake_ollama.looks.clear()
    for replay in (store.wrap("ollama/qwen3:4b", "replay"), store.wrap(None, "replay"), store.wrap(model, "replay")):
        replay.check()
        assert replay.chat("Hi").text == "one"
        assert replay.name == "ollama/qwen3:4b"
    assert fake_ollama.looks == []


def test_off_gives_the_model_back(store):
    model = ScriptedModel(["one"])
    assert store.wrap(model, "off") is model


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("x", "record"), ConfigError, "needs a model to ask"),
        ((None, "replay"), UserError, "name the one to replay"),
        (("x", "reply"), ConfigError, "Did you mean 'replay'"),
    ],
    ids=["name to record", "empty store", "typo"],
)
def test_wrong_use(store, arguments, error, message):
    with pytest.raises(error, match=message):
        store.wrap(*arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"messages": [ChatMessage.from_system("Be good."), "Ho"]}, r"s\[1\]\._content\[0\]\.text: stored 'Hi', asked"),
        ({"messages": "Hi"}, r"messages\[1\].*asked nothing"),
        ({"options": {"temperature": 0.5}}, r"options.temperature: stored 0.0, asked 0.5"),
        ({"options": {"top_k": 4}}, r"options.top_k: stored nothing, asked 4"),
        ({"tools": [{**TOOL, "description": "Tell."}]}, r"tools\[0\].description: stored '', asked 'Tell.'"),
        ({"tools": []}, r"tools\[0\]: stored .*, asked nothing"),
        ({"schema": {"type": "array"}}, r"schema: stored null, asked"),
        ({"tool_choice": "required"}, r"tool_choice: stored null, asked 'required'"),
        ({"model": "other"}, r"no reply of 'other' to this request; models with one: 'scripted'"),
        ({"model": "other", "messages": "x"}, r"nor to any other. It holds replies of: scripted"),
        ({"repeat": 2}, r"as repeat 2; it has repeats \[0, 1\]"),
    ],
)  # fmt: skip
def test_a_miss_says_what_differs(store, change, message):
    request = {"messages": [ChatMessage.from_system("Be good."), "Hi"], "tools": [TOOL]}
    for repeat in (0, 1):
        store.wrap(ScriptedModel(["one"]), repeat=repeat).chat(**request)
    asked = {**request, **change}
    replay = store.replay_model(asked.pop("model", "scripted"), asked.pop("repeat", 0))
    with pytest.raises(ReplayMissError, match=message):
        replay.chat(**asked)


def test_a_miss_shows_where_long_texts_part(store):
    store.wrap(ScriptedModel(["one"])).chat("a" * 500 + "b" * 100)
    with pytest.raises(ReplayMissError, match=r"'…?a+b+'…? \(from character 485\), asked …'a+c+'…"):
        store.replay_model().chat("a" * 500 + "c" * 100)


def test_the_nearest_request_is_the_one_compared(store):
    model = store.wrap(ScriptedModel(["x"], cycle=True))
    for text in ("Tell me of cats", "Tell me of dogs", "Something else"):
        model.chat([ChatMessage.from_system("S"), text])
    with pytest.raises(ReplayMissError, match="stored 'Tell me of dogs'"):
        store.replay_model().chat([ChatMessage.from_system("S"), "Tell me of dots"])


def test_a_changed_system_message_does_not_put_the_blame_on_the_question(store):
    model = store.wrap(ScriptedModel(["x"], cycle=True))
    for text in ("Tell me of cats", "Tell me of dogs", "Something else"):
        model.chat([ChatMessage.from_system("Call tools in hermes."), text])
    with pytest.raises(ReplayMissError, match=r"differs in messages\[0\][^;]*\. Record it"):
        store.replay_model().chat([ChatMessage.from_system("Call tools in JSON."), "Tell me of cats"])


@pytest.mark.parametrize(
    ("kind", "kept"),
    [("timeout", False), ("server", False), ("overflow", True), ("parse", True), ("schema_not_honoured", True),
     ("tools_unsupported", True)],
)  # fmt: skip
def test_faults_that_may_pass_are_asked_again(store, kind, kept):
    model = ScriptedModel([Reply("x", fault=Fault(kind, "m")), Reply("y")])
    stored = store.wrap(model)
    assert stored.chat("Hi").fault.kind == kind
    assert stored.chat("Hi").text == ("x" if kept else "y")


def test_streams_are_kept_once_whole_and_replayed(store):
    stored = store.wrap(ScriptedModel(["a\nb\n", "c\nd\n"]))
    chunks = stored.stream("Hi")
    next(chunks)
    chunks.close()
    assert len(store) == 0
    assert [chunk.text for chunk in stored.stream("Hi")] == ["c\n", "d\n", ""]
    assert [chunk.text for chunk in stored.stream("Hi")] == ["c\nd\n", ""]
    assert store.replay_model().chat("Hi").text == "c\nd\n"


def test_raw_completion_is_kept_apart_from_chat(store):
    stored = store.wrap(ScriptedModel(["chat", "raw"]))
    stored.chat("Hi")
    assert stored.complete("Hi").text == "raw"
    assert store.replay_model().complete("Hi").text == "raw"


def test_everything_in_a_reply_survives(store):
    reply = Reply(
        "te\ud800xt", "thought", (ToolCall("f", {"x": [1, None, "é\n"]}, "c1"),), "length", "num_ctx", 10, 4, 5, 1.25,
        0.5, "scripted", Fault("parse", "bad"), raw={"request": {"a": 1}},
    )  # fmt: skip
    stored = store.wrap(ScriptedModel([reply]))
    stored.chat("Hi \ud800")
    again = stored.chat("Hi \ud800")
    assert again == reply.replace(from_store=True)
    assert again.raw == reply.raw


def test_ctrl_c_keeps_finished_replies(tmp_path):
    with Store(tmp_path / "a.sqlite") as store:
        stored = store.wrap(ScriptedModel(["one", KeyboardInterrupt()]))
        stored.chat("1")
        with pytest.raises(KeyboardInterrupt):
            stored.chat("2")
        assert len(store) == 1


def test_many_threads(store):
    stored = store.wrap(ScriptedModel([lambda messages: messages[0].text], cycle=True))

    def work(number):
        for text in range(20):
            assert stored.chat(f"{number}-{text % 10}").text == f"{number}-{text % 10}"

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 80


WRITER = """
import sys
from toolkit.models import ScriptedModel, Store
path, start, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = Store(path).wrap(ScriptedModel([lambda messages: "re: " + messages[0].text], cycle=True, name="w"))
model.model.fingerprint = lambda: {"backend": "scripted"}
for number in range(start, start + count):
    model.chat(str(number))
    print(number, flush=True)
"""


def _writer(path, start, count):
    command = [sys.executable, "-c", WRITER, str(path), str(start), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once(tmp_path):
    path = tmp_path / "a.sqlite"
    writers = [_writer(path, start, 60) for start in (0, 30)]
    assert [writer.communicate()[0].count("\n") for writer in writers] == [60, 60]
    assert [writer.returncode for writer in writers] == [0, 0]
    with Store(path) as store:
        assert len(store) == 90  # 30 of them asked by both, kept once


OPENER = """
import os, sys
from toolkit.models import Store
from toolkit.models.base import Reply
print("ready", flush=True)
for folder in sys.stdin:  # all are told at once which file to open next
    with Store(os.path.join(folder.strip(), "a.sqlite")) as store:
        store.keep({"kind": "complete", "prompt": "p"}, {"pid": os.getpid()}, Reply("x"), model="m")
    print("done", flush=True)
"""


@pytest.mark.slow
def test_many_processes_open_a_new_file_at_once(tmp_path):
    command, pipe = [sys.executable, "-c", OPENER], subprocess.PIPE
    openers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for _ in range(6)]
    assert [opener.stdout.readline() for opener in openers] == ["ready\n"] * 6
    for number in range(40):  # two in fifty met on the way before opening was one transaction
        for opener in openers:
            opener.stdin.write(f"{tmp_path / str(number)}\n")
            opener.stdin.flush()
        assert [opener.stdout.readline() for opener in openers] == ["done\n"] * 6
        with Store(tmp_path / str(number) / "a.sqlite") as store:
            assert len(store) == 6
            assert store._all("PRAGMA journal_mode") == [("wal",)]
    assert [opener.communicate()[1] for opener in openers] == [""] * 6


def test_a_file_that_must_exist_is_not_made(tmp_path):
    Store(tmp_path / "replies.sqlite").close()
    with pytest.raises(StoreError, match=r"no store of replies .*Did you mean 'replies\.sqlite'"):
        Store(tmp_path / "replis.sqlite", must_exist=True)
    with pytest.raises(StoreError, match=r"no store of replies .*typo\.sqlite'\. Check the path"):
        Store(tmp_path / "no" / "typo.sqlite", must_exist=True)
    assert [path.name for path in tmp_path.iterdir()] == ["replies.sqlite"]
    Store(tmp_path / "replies.sqlite", must_exist=True).close()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_kill_9_loses_at_most_the_request_in_flight(tmp_path):
    path = tmp_path / "a.sqlite"
    writer = _writer(path, 0, 1_000_000)
    said = [writer.stdout.readline() for _ in range(25)]
    writer.send_signal(signal.SIGKILL)
    said += writer.stdout.read().splitlines()
    writer.wait()
    writer.stdout.close()
    with Store(path) as store:
        assert len(store) in (len(said), len(said) + 1)
        assert store.replay_model().chat("24").text == "re: 24"
        assert store.wrap(ScriptedModel(["x"])).chat("new").text == "x"


@pytest.mark.parametrize(
    "content",
    [b"not a database at all, just some text" * 50, b"SQLite format 3\x00" + b"\x00\xff" * 2000],
    ids=["text", "broken head"],
)
def test_damaged_file(tmp_path, content):
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is damaged or no store.*Move it aside"):
        Store(path)
    assert path.read_bytes() == content


def test_file_damaged_in_the_middle(tmp_path):
    path = tmp_path / "a.sqlite"
    with Store(path) as store:
        stored = store.wrap(ScriptedModel(["x" * 3000], cycle=True))
        for number in range(50):
            stored.chat(str(number))
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with Store(path) as store, pytest.raises(StoreError, match="damaged"):
        store.replay_model("scripted").chat("7")


def test_a_full_disk_is_a_store_error_that_a_sweep_can_stop_on(store):
    stored = store.wrap(ScriptedModel(["x" * 9000], cycle=True))
    stored.chat("0")
    store._connection.execute("PRAGMA max_page_count = 1")  # raised by SQLite to what is in use
    with pytest.raises(StoreError, match="cannot be opened or written: database or disk is full"):
        stored.chat("1")
    assert stored.chat("0").from_store


def test_database_of_something_else(tmp_path):
    path = tmp_path / "a.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="something else"):
        Store(path)
    assert path.read_bytes() == before


def test_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path)


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "file" / "a.sqlite")


def test_closed_store_says_so(tmp_path):
    store = Store(tmp_path / "a.sqlite")
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        len(store)


def test_store_travels_to_another_process_as_its_path(store):
    store.wrap(ScriptedModel(["one"])).chat("Hi")
    with pickle.loads(pickle.dumps(store)) as again:
        assert again.replay_model().chat("Hi").text == "one"


def test_a_thousand_look_ups_are_quick(store):
    stored = store.wrap(ScriptedModel(["one"]))
    messages = [ChatMessage.from_system("s" * 2000), ChatMessage.from_user("Hi")]
    stored.chat(messages)
    best = min(_seconds_of_look_ups(stored, messages) for _ in range(3))
    assert best < 0.3  # 0.06 s on a quiet machine; the bound leaves room for a busy one


def _seconds_of_look_ups(stored, messages):
    started = time.process_time()  # of this process alone, whatever else runs
    for _ in range(1000):
        stored.chat(messages)
    return time.process_time() - started


def test_repr(store):
    store.wrap(ScriptedModel(["one"])).chat("Hi")
    assert repr(store).endswith("replies.sqlite', 1 replies)")
    assert repr(store.replay_model()) == "<StoredModel scripted>"


def test_supports_tools_is_the_models_own(store):
    model = ScriptedModel(["x"])
    model.supports_tools = False
    assert store.wrap(model).supports_tools is False
    assert store.wrap(model, "replay").supports_tools is True


def test_check_of_a_replay_without_replies(store):
    with pytest.raises(ReplayMissError, match="no reply of 'x'"):
        store.replay_model("x").check()


def test_options_object_is_taken_whole(store):
    stored = store.wrap(ScriptedModel(["one", "two"]))
    stored.chat("Hi", options=Options(temperature=0.3))
    row = next(iter(store.rows()))
    assert row["request"]["options"] == {"temperature": 0.3, "seed": 0, "num_ctx": 8192, "num_predict": 512}
    json.dumps(row)
