"""A real Ollama server: `OLLAMA_HOST=http://127.0.0.1:11434 pytest -m ollama`, with any small model.

The smallest model of the server is asked, or the one in TOOLKIT_OLLAMA_MODEL. Nothing depends on what it says.
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import toolkit as tk
from toolkit.models.catalogue import model_cards
from toolkit.models.roads import ROADS
from toolkit.models.schemas import schema_problem

HOST = os.environ.get("OLLAMA_HOST", "")
pytestmark = [
    pytest.mark.ollama,
    pytest.mark.skipif(not HOST, reason="OLLAMA_HOST is not set"),
    pytest.mark.filterwarnings("ignore:Recipe:UserWarning"),  # which a probe may give
]
SHORT = {"num_ctx": 1024, "num_predict": 24, "timeout_s": 600.0}
LAMP = {
    "type": "object",
    "properties": {"room": {"enum": ["kitchen", "hall"]}, "brightness": {"type": "integer"}, "on": {"type": "boolean"}},
    "required": ["room", "brightness", "on"],
    "additionalProperties": False,
}
TEXTS = {
    "English": "The lamp in the hall is on, and the door is shut. ",
    "Chinese": "大厅的灯亮着，门关着。",
    "Russian": "Лампа в зале горит, дверь закрыта. ",
    "digits": "31415926535 8979 ",
    "JSON": '{"room": "hall", "on": true}, ',
    "code": "x[i] += f(x, i);\n",
}


@pytest.fixture(scope="module")
def name():
    if given := os.environ.get("TOOLKIT_OLLAMA_MODEL"):
        return f"ollama/{given.removeprefix('ollama/')}"
    cards = [card for card in model_cards(HOST) if "embedding" not in card.capabilities]
    if not cards:
        pytest.fail(f"{HOST} has no model that writes. Pull one: ollama pull smollm2:135m")
    return min(cards, key=lambda card: card.size or 0).name


@pytest.fixture
def model(name):
    with tk.load_model(name, host=HOST, **SHORT) as model:
        yield model


def test_the_card_names_road_and_windows(name, model):
    model.chat("Hi")
    card = tk.models.show_model(name, HOST)
    assert card.road in ROADS
    assert card.loaded
    assert card.loaded <= max(SHORT["num_ctx"], card.trained or 0)
    assert name in [running.name for running in tk.models.running_models(HOST)]
    assert name in set(tk.models.model_table(HOST)["model"])


def test_a_reply_has_text_counts_and_times(model):
    reply = model.chat("Say hello.")
    assert reply.fault is None
    assert reply.finish_reason in ("stop", "length")
    assert reply.text or reply.thinking
    assert reply.prompt_tokens > 0
    assert 0 < reply.completion_tokens <= SHORT["num_predict"]


def test_the_pieces_of_a_stream_are_the_reply(model):
    *pieces, last = model.stream("Count from one to ten.")
    assert "".join(piece.text for piece in pieces) == last.reply.text
    assert "".join(piece.thinking for piece in pieces) == last.reply.thinking


def test_num_predict_ends_a_reply(model):
    reply = model.complete("1 2 3 4 5 6 7 8 9 10 11 12 13 14", options={"num_predict": 4})
    assert (reply.finish_reason, reply.completion_tokens) == ("length", 4)
    assert reply.limit == "num_predict"


def test_the_end_of_the_window_is_said(model):
    prompt = " ".join(map(str, range(1, 120)))
    reply = model.complete(prompt, options={"num_ctx": 512, "num_predict": 4096})
    assert reply.limit in ("num_ctx", "loop", "") or reply.finish_reason == "overflow"
    assert not (reply.finish_reason == "length" and reply.limit == "num_predict")


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("turns", ["one message", "many messages"])
def test_no_prompt_is_cut_without_a_word(model, kind, turns):
    """Each is asked in growing lengths; what the server counts must grow with it, or it must refuse."""
    counts = []
    for size in (10, 40, 160, 640, 1280):
        text = TEXTS[kind] * size
        step = len(text) // 10 + 1
        said = [text] if turns == "one message" else [text[at : at + step] for at in range(0, len(text), step)]
        said = [tk.ChatMessage.from_user(part) for part in said]
        reply = model.chat(said, options={"num_predict": 1})
        counts.append((size, reply.finish_reason, reply.prompt_tokens))
        if reply.finish_reason == "overflow":
            assert reply.fault.kind == "overflow"
            assert reply.prompt_tokens is None or reply.prompt_tokens >= SHORT["num_ctx"] - 1
            break
        assert reply.fault is None
        assert len(counts) < 2 or reply.prompt_tokens > 1.5 * counts[-2][2], counts
    assert counts[-1][1] == "overflow", counts


def test_a_stop_string_ends_a_reply_and_is_not_in_it(model):
    reply = model.complete("1 2 3 4 5 6 7 8 9 10 11 12", options={"stop": ["15", "1"]})
    assert "15" not in reply.text
    assert "1" not in reply.text


def test_a_schema_is_kept_or_said_to_be_broken(model):
    reply = model.chat("Turn on the lamp in the hall. Answer in JSON.", schema=LAMP, options={"num_predict": 200})
    assert reply.fault is None or reply.fault.kind == "schema_not_honoured"
    if reply.finish_reason == "stop" and reply.fault is None:
        assert not schema_problem(reply.text, LAMP)


def test_a_seed_repeats_what_was_drawn(model):
    asked = {"temperature": 1.0, "seed": 5}
    first, second, third = (model.complete("Once upon a time", options=asked).text for _ in range(3))
    assert second == third or first == second, "neither a cold nor a warm cache gives the same words"


def test_a_raw_prompt_has_no_template(model):
    bare, chat = model.complete("Hi", options={"num_predict": 1}), model.chat("Hi", options={"num_predict": 1})
    assert bare.prompt_tokens < chat.prompt_tokens


def test_line_breaks_of_unicode_survive(model):
    reply = model.chat("Say\u2028these\u0085lines.")
    assert reply.fault is None


@pytest.mark.parametrize("arm", ["native", "prompted", "constrained"])
def test_every_arm_is_judged_and_no_fault_is_the_servers(name, model, arm):
    recipe = tk.Recipe(name, arm=arm, protocol="hermes", options={**SHORT, "num_ctx": 4096, "num_predict": 64})
    if arm == "native" and not model.supports_tools:
        pytest.skip("the model takes no tools")
    cases = tk.load_cases("home")[:2]
    result = tk.evaluate(recipe, cases, models={name: model}, progress=False)
    assert not set(result.rows["outcome"]) & {"server_fault", "overflow"}, result.to_text()


def test_requests_in_flight_are_all_answered(model):
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda number: model.chat(f"Name the number {number}."), range(4)))
    assert [reply.fault for reply in replies] == [None] * 4


def test_a_request_that_is_given_up_frees_the_server(model):
    model.chat("Hi")  # loaded

    async def give_up():
        task = asyncio.create_task(model.achat("Write a long story.", options={"num_predict": 900}))
        await asyncio.sleep(0.5)
        if task.done():
            pytest.skip("the model answered before it could be cancelled")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    started = time.monotonic()
    model.chat("Hi", options={"num_predict": 1})
    usual = time.monotonic() - started
    asyncio.run(give_up())
    started = time.monotonic()
    assert model.chat("Hi", options={"num_predict": 1}).fault is None
    assert time.monotonic() - started < 10 * usual + 10


def test_a_store_answers_the_second_time(name, model, tmp_path):
    with tk.Store(tmp_path / "replies.sqlite") as store:
        kept = store.wrap(model)
        first, second = kept.chat("Hi"), kept.chat("Hi")
        assert (first.text, first.from_store, second.from_store) == (second.text, False, True)
        assert store.replay_model(name).chat("Hi", options=SHORT).text == first.text


def test_an_agent_comes_to_an_end(name, model):
    @tk.tool
    def weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"It rains in {city}."

    agent = tk.Agent(
        model, tools=[weather], protocol="hermes", arm="prompted", options={**SHORT, "num_ctx": 4096},
        max_model_calls=3,
    )  # fmt: skip
    assert agent.run("What is the weather in Oslo?").events


def test_mistakes_of_the_user_are_said(name):
    with pytest.raises(tk.ModelNotFoundError, match="ollama pull"):
        tk.load_model("ollama/no-such-model:1b", host=HOST).check()
    with pytest.raises(tk.ConfigError, match="temprature"):
        tk.load_model(name, host=HOST, temprature=1)


def test_the_probe_finds_something_out(name, model, tmp_path):
    store = tmp_path / "replies.sqlite"
    probed = tk.probe(model, store)
    left = [one for one in probed.findings if one.seen.startswith("not known:")]
    assert not left
    assert probed["speed"].holds
    assert tk.probe(model, store).to_dict() == probed.to_dict()
