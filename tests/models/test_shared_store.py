"""A store is shared: by processes that ask at once, by those that may only read, and by hands that damage it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.models import Options, ScriptedModel, Store
from toolkit.models.base import ChatRequest
from toolkit.models.recordings import write_recording

ASKER = """
import sys, time
from pathlib import Path
from toolkit.models import ScriptedModel, Store

class Slow(ScriptedModel):
    def answer(self, request):
        with Path(sys.argv[2]).open("a") as asked:
            asked.write(request.messages[0].text + "\\n")
        time.sleep(float(sys.argv[3]))
        return super().answer(request)

with Store(sys.argv[1]) as store:
    model = store.wrap(Slow(["x"], name="slow", cycle=True))
    for number in range(int(sys.argv[4])):
        model.chat(f"question {number}")
"""


def asker(tmp_path, seconds, questions):
    arguments = [tmp_path / "s.sqlite", tmp_path / "asked", seconds, questions]
    return subprocess.Popen([sys.executable, "-c", ASKER, *map(str, arguments)])


def lines(path):
    return path.read_text().split("\n")[:-1] if path.exists() else []


def waited_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_processes_that_share_a_store_ask_each_question_once(tmp_path):
    askers = [asker(tmp_path, 0.02, 15) for _ in range(3)]
    assert [process.wait(120) for process in askers] == [0, 0, 0]
    assert sorted(lines(tmp_path / "asked")) == sorted(f"question {number}" for number in range(15))
    with Store(tmp_path / "s.sqlite") as store:
        assert len(store) == 15
    assert not (tmp_path / "s.sqlite-claims").exists()


def test_the_claim_of_a_process_that_was_killed_lapses_at_once(tmp_path):
    dying = asker(tmp_path, 600, 1)
    waited_for(lambda: lines(tmp_path / "asked"))
    waiting = asker(tmp_path, 0, 1)
    time.sleep(0.3)
    assert waiting.poll() is None
    dying.send_signal(signal.SIGKILL)
    dying.wait()
    assert waiting.wait(60) == 0
    assert lines(tmp_path / "asked") == ["question 0"] * 2


def test_threads_of_one_process_ask_once_too(tmp_path):
    class Slow(ScriptedModel):
        def answer(self, request):
            time.sleep(0.05)
            return super().answer(request)

    model = Slow(["x"], cycle=True)
    with Store(tmp_path / "a.sqlite") as one, Store(tmp_path / "a.sqlite") as two:
        askers = [threading.Thread(target=store.wrap(model).chat, args=("Hi",)) for store in (one, two) * 3]
        for thread in askers:
            thread.start()
        for thread in askers:
            thread.join()
    assert len(model.requests) == 1


def test_a_failed_request_gives_its_claim_back(tmp_path):
    model = ScriptedModel([KeyError("x"), "fine"])
    with Store(tmp_path / "a.sqlite") as store:
        with pytest.raises(KeyError):
            store.wrap(model).chat("Hi")
        assert store.wrap(model).chat("Hi").text == "fine"


def test_one_thread_never_waits_for_itself(tmp_path):
    model = ScriptedModel(["a\nb"], cycle=True)
    with Store(tmp_path / "a.sqlite") as store:
        both = zip(store.wrap(model).stream("Hi"), store.wrap(model).stream("Hi"), strict=True)
        assert [pair[0].text for pair in both] == ["a\n", "b", ""]


# ------------------------------------------------------------------ for reading only
def as_nobody(action):
    """Run an action in a process that may write nothing, and return its text."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads
        child = os.fork()
    if not child:
        try:
            os.setuid(65534)
            os.write(writing, str(action()).encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="takes root to become somebody else")
@pytest.mark.parametrize("mode", [0o555, 0o777], ids=["folder too", "file only"])
def test_a_store_for_reading_only_is_replayed(mode):
    def replayed():
        with Store(folder / "s.sqlite") as store:
            return store.replay_model().chat("Hi").text, len(store)

    folder = Path(tempfile.mkdtemp())
    try:
        with Store(folder / "s.sqlite") as store:
            store.wrap(ScriptedModel(["fine"])).chat("Hi")
        (folder / "s.sqlite").chmod(0o444)
        folder.chmod(mode)
        assert as_nobody(replayed) == "('fine', 1)"
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_where_sqlite_cannot_lay_its_files_beside_the_store_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        store.wrap(ScriptedModel(["fine"])).chat("Hi")
    connect = sqlite3.connect

    def refusing(address, **more):
        if "immutable" not in str(address):
            raise sqlite3.OperationalError("unable to open database file")
        return connect(address, **more)

    monkeypatch.setattr(sqlite3, "connect", refusing)
    with Store(path) as store:
        assert store.replay_model().chat("Hi").text == "fine"
        with pytest.raises(ToolkitError, match="cannot be opened or written"):
            store.wrap(ScriptedModel(["other"])).chat("Ho")


# ------------------------------------------------------------------ sound files with bad content
COLUMNS = ("key", "model", "request_digest", "repeat", "fingerprint", "request", "reply", "created")
BAD = [
    "", "x", "{", "[]", "1", "null", '{"text": 5}', '{"tool_calls": [5]}', '{"tool_calls": 5}', '{"fault": 5}',
    '{"fault": {"kind": 1}}', '{"finish_reason": "x"}', '{"prompt_tokens": "x"}', "[" * 5000, '{"a":' * 5000,
    b"\xff\xfe", 5, 1.5, "\x00",
]  # fmt: skip


def use(path):
    """Read a store in every way there is; only errors of ours may come."""
    with contextlib.suppress(ToolkitError), Store(path) as store:
        for action in (
            store.models, lambda: len(store), lambda: write_recording(store.rows(), path.with_suffix(".jsonl")),
            lambda: store.replay_model().chat("Hi"), lambda: store.replay_model("m").chat("Hi"),
            lambda: store.replay_model("m").chat("Ho"), lambda: store.wrap(ScriptedModel(["new"], name="m")).chat("Hi"),
            lambda: store.replay_model("n").check(), lambda: repr(store),
        ):  # fmt: skip
            with contextlib.suppress(ToolkitError):
                action()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "s.sqlite"
    with Store(path) as store:
        store.wrap(ScriptedModel(["fine"], name="m")).chat("Hi")
    return path.read_bytes()


def damaged(tmp_path, sound, column, value):
    path = tmp_path / "s.sqlite"
    path.write_bytes(sound)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection, contextlib.suppress(sqlite3.Error):
        connection.execute(f"UPDATE replies SET {column} = ?", [value])
    return path


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:20])
def test_a_bad_value_in_a_sound_file_raises_nothing_but_ours(tmp_path, sound, column, value):
    use(damaged(tmp_path, sound, column, value))


def test_a_damaged_row_is_named(tmp_path, sound):
    path = damaged(tmp_path, sound, "reply", '{"text": 5}')
    with Store(path) as store, pytest.raises(ToolkitError, match=r"damaged row.*reply\.text must be text, not 5"):
        store.replay_model().chat("Hi")


anything = st.text(max_size=30) | st.binary(max_size=10) | st.integers(-(2**63), 2**63 - 1) | st.floats()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(column=st.sampled_from(COLUMNS), value=anything)
def test_any_value_in_any_column(tmp_path, sound, column, value):
    use(damaged(tmp_path, sound, column, value))


@pytest.mark.parametrize(
    "schema", ["CREATE TABLE replies (x)", "CREATE TABLE other (x)", "CREATE VIEW replies AS SELECT 1"]
)
def test_another_table_under_our_mark_raises_nothing_but_ours(tmp_path, schema):
    path = tmp_path / "s.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(schema)
        connection.execute(f"PRAGMA application_id = {0x746B7231}")
    use(path)


def test_a_request_is_claimed_by_what_decides_its_reply(tmp_path):
    with Store(tmp_path / "a.sqlite") as store:
        request = ChatRequest(Options()).to_dict()
        with store.claim(request, {"a": 1}, 0, 0.0), store.claim(request, {"a": 2}, 0, 0.0):
            assert len(list((tmp_path / "a.sqlite-claims").iterdir())) == 2
