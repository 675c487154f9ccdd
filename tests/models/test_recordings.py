from __future__ import annotations

import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import StoreError, UserError
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models import Fault, Reply, ScriptedModel, Store

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    ToolCall, st.text(string.ascii_letters, min_size=1), st.dictionaries(st.text(), json_values, max_size=2), st.text()
)
replies = st.builds(
    Reply,
    text=st.text(st.characters()),
    thinking=st.text(),
    tool_calls=st.lists(calls, max_size=2).map(tuple),
    finish_reason=st.sampled_from(["stop", "length", "tool_calls"]),
    prompt_tokens=st.none() | st.integers(1, 9999),
    cached_tokens=st.none() | st.integers(1, 9999),
    completion_tokens=st.none() | st.integers(1, 9999),
    seconds=st.integers(0, 99_999).map(lambda ms: ms / 1000),
    fault=st.none() | st.builds(Fault, st.just("parse"), st.text()),
)


@given(st.lists(st.tuples(st.text(), replies), max_size=4, unique_by=lambda pair: pair[0]))
@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
def test_round_trip(tmp_path, asked):
    path = tmp_path / "a.jsonl"
    with Store(":memory:") as store:
        stored = store.wrap(ScriptedModel([reply for _, reply in asked]))
        expected = [stored.chat(text) for text, _ in asked]
        assert store.export_jsonl(path) == len(asked)
    first = path.read_bytes()
    with Store(path) as recording:
        replay = recording.replay_model("scripted")
        for (text, _), reply in zip(asked, expected, strict=True):
            assert replay.chat(text) == reply.replace(from_store=True)
        recording.export_jsonl(path)
    assert path.read_bytes() == first


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "a.jsonl"
    with Store(":memory:") as store:
        model = store.wrap(ScriptedModel([Reply("x", raw={"id": 17})], cycle=True))
        for text in ("c", "a", "b"):
            model.chat(text)
        store.wrap(ScriptedModel(["y"], name="other")).chat("a")
        store.export_jsonl(path)
    return path


def test_order_depends_on_the_requests_alone(recording, tmp_path):
    again = tmp_path / "again.jsonl"
    with Store(":memory:") as store:
        store.wrap(ScriptedModel(["y"], name="other")).chat("a")
        model = store.wrap(ScriptedModel([Reply("x", raw={"id": 18})], cycle=True))
        for text in ("b", "c", "a"):
            model.chat(text)
        store.export_jsonl(again)

    def without_script(path):  # the digest of a script holds its `raw`
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [{**row, "fingerprint": None} for row in rows]

    assert without_script(again) == without_script(recording)


def test_a_line_holds_no_wire_noise(recording):
    row = json.loads(recording.read_text().splitlines()[0])
    assert list(row) == ["model", "repeat", "fingerprint", "request", "reply"]
    assert "raw" not in row["reply"]


def test_a_recording_only_replays(recording):
    with Store(recording) as store:
        assert store.replay_model("scripted").chat("a").text == "x"
        with pytest.raises(UserError, match="only replays"):
            store.wrap(ScriptedModel(["z"]))


def test_import_adds_what_is_new(recording, tmp_path):
    with Store(tmp_path / "a.sqlite") as store:
        assert store.import_jsonl(recording) == 4
        assert store.import_jsonl(recording) == 0
        assert store.models() == ["other", "scripted"]


def test_text_beyond_ascii_is_readable_in_the_file(tmp_path):
    with Store(":memory:") as store:
        store.wrap(ScriptedModel(["Grüße, 東京 \u2028 x"])).chat("é")
        store.export_jsonl(tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert "東京" in text
    assert "é" in text
    with Store(tmp_path / "a.jsonl") as store:
        assert store.replay_model().chat("é").text == "Grüße, 東京 \u2028 x"


@pytest.mark.parametrize(
    "line",
    ["{oops", '{"model": "x"}', "[]", "3", '{"model":"x","repeat":0,"fingerprint":{},"request":{},"reply":3}'],
    ids=["no JSON", "fields missing", "list", "number", "reply is a number"],
)
def test_a_damaged_line_is_named_and_nothing_is_read(recording, tmp_path, line):
    recording.write_text(recording.read_text() + line + "\n")
    with Store(tmp_path / "b.sqlite") as store:
        with pytest.raises(UserError, match=r"a\.jsonl:5: this line is no recorded reply"):
            store.import_jsonl(recording)
        assert len(store) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": 5}, "fingerprint must be of type dict, not 5"),
        ({"repeat": {}}, "repeat must be of type int, not {}"),
        ({"repeat": True}, "repeat must be of type int, not True"),
        ({"repeat": 10**30}, "repeat must be from 0 to"),
        ({"request": 5}, "request must be of type dict"),
        ({"model": "\ud800"}, "surrogates not allowed"),
        ({"reply": {"text": 5}}, r"reply\.text must be text, not 5"),
        ({"reply": {"finish_reason": "x"}}, r"reply\.finish_reason must be one of"),
        ({"reply": {"tool_calls": [5]}}, "TypeError"),
        ({"reply": {"fault": 5}}, "TypeError"),
    ],
    ids=str,
)
def test_an_edited_value_is_named(recording, change, message):
    lines = recording.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    recording.write_text("\n".join(lines))
    with pytest.raises(StoreError, match=rf"a\.jsonl:2: this line is no recorded reply \(.*{message}"):
        Store(recording)


def test_a_line_that_answers_the_same_request_otherwise_is_named(recording):
    lines = recording.read_text().splitlines()
    twice = json.loads(lines[1])
    recording.write_text("\n".join([*lines, lines[1]]))
    with Store(recording) as store:
        assert len(store) == 4  # the very same line again does no harm
    twice["reply"]["text"] = "edited"
    recording.write_text("\n".join([*lines, json.dumps(twice)]))
    with pytest.raises(StoreError, match=r"a\.jsonl:5: this line answers the same request as line 2, otherwise"):
        Store(recording)


def test_lone_surrogates_survive_a_recording(tmp_path):
    path = tmp_path / "a.jsonl"
    call = ToolCall("f", {"x\udc00": "\ud83d"}, "c1")
    reply = Reply("a\ud83db", "\ud83d", (call,), fault=Fault("parse", "\ud83d"), raw={"x": "\ud83d"})
    with Store(":memory:") as store:
        said = store.wrap(ScriptedModel([reply])).chat("Hi \ud83d")
        store.export_jsonl(path)
    with Store(path) as recording:
        assert recording.replay_model().chat("Hi \ud83d") == said.replace(from_store=True)
    assert Reply.from_dict(json.loads(json.dumps(reply.to_dict()))) == reply


def test_missing_recording(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        Store(tmp_path / "no.jsonl")


def test_unwritable_place_leaves_nothing(tmp_path):
    (tmp_path / "file").touch()
    with Store(":memory:") as store, pytest.raises(UserError, match="cannot be written"):
        store.export_jsonl(tmp_path / "file" / "a.jsonl")


def test_an_interrupted_export_leaves_the_old_file_whole(recording, monkeypatch):
    before = recording.read_bytes()

    def fail(row):
        raise KeyboardInterrupt

    monkeypatch.setattr("toolkit.models.recordings._line", fail)
    with Store(recording) as store, pytest.raises(KeyboardInterrupt):
        store.export_jsonl(recording)
    assert recording.read_bytes() == before
    assert [path.name for path in recording.parent.iterdir()] == ["a.jsonl"]


def test_messages_in_a_recording_are_plain(recording):
    row = json.loads(recording.read_text().splitlines()[0])
    assert ChatMessage.from_dict(row["request"]["messages"][0]).text == "a"
