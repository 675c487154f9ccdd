"""The real embedded model, in short answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import toolkit as tk
from toolkit.errors import ConfigError, UserError, WeightsError
from toolkit.models import Store, embedded, llama, load_model
from toolkit.models.weights import fetch_weights

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "n"],
    "additionalProperties": False,
}
TOOL = {"name": "weather", "description": "", "parameters": CITY}


FORKING = """
import sys, warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from toolkit.models import load_model

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads
model = load_model("embedded/smollm2-135m", num_ctx=256, num_predict=4)

def ask(again):
    for one in (model, load_model(model.name, num_ctx=256, num_predict=4)):
        try:
            one.check()
            said = one.chat("Hi").completion_tokens
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        one.close()
    return said

model.chat("Hi")
if sys.argv[1] == "1":
    model.close()
with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
    print(pool.submit(ask, True).result(timeout=30))
print(model.chat("Hi").completion_tokens)
"""


@pytest.fixture(scope="module")
def model(embedded_weights):
    with load_model(f"embedded/{embedded_weights}", num_ctx=1024, num_predict=12) as model:
        yield model


@pytest.mark.embedded
class TestRealModel:
    def test_chat(self, model):
        reply = model.chat("Say hi")
        assert reply.text
        assert (reply.finish_reason, reply.limit, reply.fault) == ("length", "num_predict", None)
        assert reply.completion_tokens == 12
        assert reply.prompt_tokens == 32
        assert reply.seconds > 0
        assert reply.raw["response"]["timings"]["predicted_n"] == 12

    def test_same_request_same_words_and_the_prefix_comes_from_the_cache(self, model):
        first, again = model.chat("Say hi"), model.chat("Say hi")
        assert first.text == again.text
        assert again.cached_tokens >= 30

    def test_seed_reaches_the_sampler(self, model):
        said = [model.chat("Tell a story", options={"temperature": 1.5, "seed": seed}).text for seed in (1, 1, 2)]
        assert said[0] == said[1] != said[2]

    def test_stream(self, model):
        chunks = list(model.stream("Say hi"))
        assert len(chunks) > 5
        assert "".join(chunk.text for chunk in chunks) == chunks[-1].reply.text

    def test_raw_completion_with_stop_strings(self, model):
        reply = model.complete("One, two, three, four,", options={"stop": [","], "num_predict": 20})
        assert "," not in reply.text
        assert reply.finish_reason == "stop"
        assert reply.completion_tokens < 20

    def test_schema_holds_for_chat_and_completion(self, model):
        options = {"num_predict": 60}
        for reply in (
            model.chat("Paris 3", schema=CITY, options=options),
            model.complete("Paris 3:", schema=CITY, options=options),
        ):
            assert reply.fault is None
            assert set(json.loads(reply.text)) == {"city", "n"}

    def test_any_of_branches_hold(self, model):
        branches = [{"const": "yes"}, {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}]
        assert model.chat("?", schema={"anyOf": branches}, options={"num_predict": 40}).fault is None

    def test_broken_schema(self, model):
        with pytest.raises(ConfigError, match="schema"):
            model.chat("x", schema={"type": "nonsense"})

    def test_schema_that_llama_cpp_refuses_is_data(self, model):
        assert model.chat("x", schema={"enum": []}).fault.kind == "server"

    @pytest.mark.slow
    def test_a_server_that_hangs_is_left_and_a_new_one_loaded(self, embedded_weights, monkeypatch):
        code = (
            "from toolkit.models import base, llama, load_model\n"
            "llama._SECONDS_TO_STOP = 0.2\n"
            "base.request_schema = lambda schema: schema\n"  # let a schema pass on which llama.cpp hangs
            "model = load_model('embedded/smollm2-135m', num_ctx=256, num_predict=4, timeout_s=1)\n"
            "schema = {'type': 'string', 'minLength': 5, 'maxLength': 2}\n"
            "print(model.chat('Hi', schema=schema).fault.kind, model.chat('Hi', options={'timeout_s': 60}).fault)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert (done.stdout.strip(), done.stderr) == ("timeout None", "")

    def test_too_long_prompt_is_an_overflow_and_never_cut(self, model):
        reply = model.chat("hello world " * 700)
        assert (reply.fault.kind, reply.finish_reason) == ("overflow", "overflow")
        assert reply.prompt_tokens == 1431
        assert "1024" in reply.fault.message
        assert model.complete("hello world " * 700).fault.kind == "overflow"

    @pytest.mark.slow
    def test_a_full_window_is_named(self, model):
        with load_model("embedded/smollm2-135m", num_ctx=256, num_predict=100) as small:
            reply = small.chat("hello world " * 105)
        assert (reply.finish_reason, reply.limit) == ("length", "num_ctx")

    def test_tools_never_reach_a_template_without_place_for_them(self, model):
        assert model.supports_tools is False
        assert model.chat("x", tools=[TOOL]).fault.kind == "tools_unsupported"

    def test_what_the_model_sees(self, model):
        seen = model.apply_template("Say hi")
        assert seen.endswith("<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n")
        assert model.count_tokens(seen) == model.chat("Say hi").prompt_tokens
        assert model.complete(seen).text == model.chat("Say hi").text

    def test_leaving_a_stream_stops_the_model(self, model):
        chunks = model.stream("Count to a thousand", options={"num_predict": 600})
        next(chunks)
        chunks.close()
        started = time.perf_counter()
        model.chat("Say hi", options={"num_predict": 1})
        assert time.perf_counter() - started < 4  # six hundred tokens take longer

    @pytest.mark.slow
    def test_silence_is_a_timeout(self, model):
        reply = model.chat("Say hi " * 100, options={"timeout_s": 0.001})
        assert (reply.fault.kind, reply.finish_reason) == ("timeout", "error")
        assert model.chat("Say hi").fault is None

    @pytest.mark.slow
    def test_threads_take_turns(self, model):
        expected = [model.chat(f"Count from {n}").text for n in range(3)]
        found = {}
        threads = [
            threading.Thread(target=lambda n=n: found.update({n: model.chat(f"Count from {n}").text})) for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[n] for n in range(3)] == expected

    def test_async_twins_inside_a_running_loop(self, model):
        async def both():
            texts = await asyncio.gather(model.achat("Say hi"), model.acomplete("Once upon"))
            streamed = [chunk async for chunk in model.astream("Say hi")]
            return texts[0].text, streamed[-1].reply.text

        one, other = asyncio.run(both())
        assert one == other

    def test_lone_surrogates_are_no_crash(self, model):
        assert model.chat("hi \ud800").fault is None

    def test_a_conversation_with_calls_and_results_renders(self, model):
        from toolkit.messages import ChatMessage, ToolCall

        call = ToolCall("f", {"x": 1}, "c1")
        said = [ChatMessage.from_assistant(tool_calls=[call]), ChatMessage.from_tool("42", call), "So?"]
        assert "42" in model.apply_template(["Hi", *said])

    def test_through_a_store(self, model, tmp_path):
        with Store(tmp_path / "a.sqlite") as store:
            first, again = store.wrap(model).chat("Say hi"), store.wrap(model).chat("Say hi")
            assert again == first.replace(from_store=True)
            assert store.replay_model("embedded/smollm2-135m").chat("Say hi", options=model.defaults).text == first.text

    def test_two_names_of_one_file_share_a_server(self, model):
        model.chat("Say hi", options={"num_predict": 1})
        path = fetch_weights("smollm2-135m")
        with load_model(f"embedded/{path}", num_ctx=1024, num_predict=1) as other:
            reply = other.chat("Say hi")
            assert reply.load_seconds == 0.0
            assert other.fingerprint()["digest"] == model.fingerprint()["digest"]
            assert other.trained_ctx == 8192
            assert other.supports_tools is False
            assert len(llama._servers) == 1
        assert len(llama._servers) == 1

    @pytest.mark.slow
    def test_another_window_loads_anew_and_frees_the_old_one(self, model):
        with load_model("embedded/smollm2-135m", num_predict=1, num_ctx=512) as other:
            assert other.chat("Say hi").load_seconds > 0
            assert other.chat("Say hi", options={"num_ctx": 640}).load_seconds > 0
            assert sorted(key.num_ctx for key in llama._servers if key.num_ctx < 1024) == [640]
        assert not [key for key in llama._servers if key.num_ctx < 1024]

    @pytest.mark.slow
    def test_close_unloads_and_use_loads_again(self, embedded_weights):
        model = load_model("embedded/smollm2-135m", num_predict=1, num_ctx=256)
        for _ in range(2):
            assert model.chat("Say hi").load_seconds > 0
            model.close()
            assert not [key for key in llama._servers if key.num_ctx == 256]

    @pytest.mark.slow
    def test_closing_while_a_stream_runs_is_safe(self, embedded_weights):
        model = load_model("embedded/smollm2-135m", num_predict=20, num_ctx=256)
        chunks = model.stream("Say hi")
        next(chunks)
        model.close()
        assert [chunk.reply for chunk in chunks][-1].completion_tokens == 20

    def test_a_file_that_only_looks_sound(self, tmp_path, embedded_weights):
        path = tmp_path / "half.gguf"
        with fetch_weights("smollm2-135m").open("rb") as whole:
            path.write_bytes(whole.read(5_000_000))
        with pytest.raises(WeightsError, match=r"could not load .*half\.gguf"):
            load_model(f"embedded/{path}", num_ctx=256).chat("Hi")
        assert not [key for key in llama._servers if key.num_ctx == 256]

    @pytest.mark.slow
    def test_the_same_model_answers_over_http(self, model):
        with load_model(f"openai/any@{model.address}", num_predict=12) as other:
            assert other.chat("Say hi").text == model.chat("Say hi").text
            assert other.chat("hello world " * 700).fault.kind == "overflow"
            assert json.loads(other.chat("Paris 3", schema=CITY, options={"num_predict": 60}).text).keys() == {
                "city",
                "n",
            }
            assert "," not in other.complete("One, two,", options={"stop": [","]}).text

    @pytest.mark.slow
    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    def test_ctrl_c_reaches_the_caller_and_frees_the_model(self, embedded_weights):
        code = (
            # a test run in the background ignores SIGINT, and so would this process
            "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from toolkit.models import load_model\n"
            "model = load_model('embedded/smollm2-135m', num_ctx=1024)\n"
            "model.chat('Hi', options={'num_predict': 1})\n"
            "print('ready', flush=True)\n"
            "try:\n    while True:\n        model.complete('la la la la', options={'num_predict': 900})\n"
            "except KeyboardInterrupt:\n    print(model.chat('Hi', options={'num_predict': 1}).completion_tokens)"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)  # let it get into the native call
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "1\n"

    @pytest.mark.slow
    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
    @pytest.mark.parametrize(("closed", "said"), [(False, "UserError"), (True, "4")], ids=["loaded", "closed"])
    def test_a_forked_process_answers_or_says_why_not_and_the_parent_goes_on(self, embedded_weights, closed, said):
        done = subprocess.run(
            [sys.executable, "-c", FORKING, str(int(closed))], capture_output=True, text=True, timeout=60, check=False
        )
        child, parent = done.stdout.splitlines()
        assert child.startswith(said)
        assert closed or "get_context('spawn')" in child
        assert (parent, done.stderr) == ("4", "")

    @pytest.mark.slow
    def test_stderr_stays_quiet_and_exit_in_mid_stream_is_clean(self, embedded_weights):
        code = (
            "from toolkit.models import load_model\n"
            "chunks = load_model('embedded/smollm2-135m', num_ctx=512).stream('Write a long story')\n"
            "print(next(chunks).text)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("path", "message"),
    [("/no/such/model.gguf", "There is no model file"), ("{tmp}/text.gguf", "does not begin with the letters GGUF")],
    ids=["missing", "text"],
)
def test_bad_path_is_said_before_llama_cpp_sees_it(tmp_path, path, message):
    (tmp_path / "text.gguf").write_text("hello")
    model = load_model(f"embedded/{path.format(tmp=tmp_path)}")
    with pytest.raises(WeightsError, match=message):
        model.chat("Hi")


def test_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(UserError, match=r"pip install 'xllamacpp>="):
        load_model("embedded/smollm2-135m").check()


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (8, 7)])
def test_one_thread_fewer_than_cores(monkeypatch, cores, threads):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert load_model("embedded/smollm2-135m").threads == threads
    assert load_model("embedded/smollm2-135m", threads=5).threads == 5


@pytest.mark.parametrize(("given", "loaded"), [({"num_thread": 3}, 3), ({}, 5)], ids=["recipe", "model"])
def test_a_recipe_sets_the_threads_of_its_requests(monkeypatch, tmp_path, given, loaded):
    keys = []
    monkeypatch.setattr(llama, "shared_server", lambda key: keys.append(key) or (None, 0.0))
    monkeypatch.setattr(embedded, "read_head", lambda path: None)
    recipe = tk.Recipe(f"embedded/{tmp_path}/x.gguf", options=given)
    recipe = tk.Recipe.load(recipe.save(tmp_path / "recipe.toml"))
    load_model(recipe.model, threads=5)._server(tk.evaluation.request(recipe, "Hi").options)
    assert [key.threads for key in keys] == [loaded]


def test_import_stays_light():
    heavy = ["xllamacpp", "pydantic", "httpx", "ollama", "jsonschema_rs", "pandas", "jinja2", "sqlite3"]
    code = f"import sys, toolkit, toolkit.models; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
