"""Times are told apart, and waiting ends."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ServerGoneError
from toolkit.models.ollama import OllamaAnswer
from toolkit.models.waiting import Patience, Traffic, Waiting, Watch, patient, traffic_at
from toolkit.models.wire import ServerError

span = st.floats(0, 100)
NANO = 1e9


@given(span, span, span, span, span, st.none() | st.floats(0, 1))
def test_the_parts_of_a_requests_time_add_up(waited, queue, load, prompt, writing, begun):
    """ollama#9564, ollama#1187: what waits behind others took no longer than what came first."""
    answer = OllamaAnswer()
    whole = queue + load + prompt + writing
    # the first piece comes after the prompt was read; where pieces are held back, at any time until the end
    answer.first_s = None if begun is None else whole - writing * begun
    durations = {"load_duration": load, "prompt_eval_duration": prompt, "eval_duration": writing}
    list(answer.feed({"done": True, "done_reason": "stop", **{name: s * NANO for name, s in durations.items()}}))
    reply = answer.reply("m", waited + whole, waited)
    assert reply.queue_seconds == pytest.approx(waited + queue, abs=1e-6)
    assert reply.seconds == pytest.approx(prompt + writing, abs=1e-6)
    assert (reply.load_seconds, reply.prompt_seconds) == (pytest.approx(load), pytest.approx(prompt))
    assert reply.write_seconds == pytest.approx(writing)


@given(*[st.floats(0, 1e6)] * 6)
def test_no_time_is_negative_whatever_a_server_says(waited, wall, first, load, prompt, writing):
    answer = OllamaAnswer()
    answer.first_s = first
    durations = {"load_duration": load, "prompt_eval_duration": prompt, "eval_duration": writing}
    list(answer.feed({"done": True, "done_reason": "stop", **{name: s * NANO for name, s in durations.items()}}))
    reply = answer.reply("m", waited + wall, waited)
    assert reply.queue_seconds >= 0 <= reply.seconds
    assert reply.queue_seconds <= waited + wall + 1e-6


def test_a_model_that_writes_twice_did_not_queue():
    """With thinking under a schema the server writes twice and tells the times of the second."""
    answer = OllamaAnswer(first_s=1.5)
    list(answer.feed({"done": True, "done_reason": "stop", "prompt_eval_duration": NANO, "eval_duration": 2 * NANO}))
    assert answer.reply("m", 9.0).queue_seconds == pytest.approx(0.5)


def test_a_server_that_tells_no_times_leaves_them_blank():
    answer = OllamaAnswer(first_s=1.5)
    list(answer.feed({"done": True, "done_reason": "stop"}))
    reply = answer.reply("m", 2.0)
    assert (reply.queue_seconds, reply.prompt_seconds, reply.write_seconds, reply.seconds) == (None, None, None, 2.0)


GONE = ServerGoneError("nobody")


@pytest.mark.parametrize(
    ("error", "alone", "in_sweep"),
    [
        (GONE, False, True),
        (ServerError(503, "server busy, please try again.  maximum pending requests exceeded"), True, True),
        (ServerError(503, "Loading model", "unavailable_error"), True, True),
        (ServerError(503, "Server overloaded, please retry shortly (ref: 1)"), True, True),  # ollama#15934
        (ServerError(500, "unexpected server status: llm busy - no slots available"), True, True),  # ollama#4159
        (ServerError(500, "no slots available after 10 retries"), True, True),  # ollama#4545
        (ServerError(503, "Request queue timeout reached.", "SERVICE_UNAVAILABLE"), False, True),  # sglang#17143
        (ServerError(502, "<html>Bad Gateway</html>"), False, True),
        (ServerError(429, "you have reached your usage limit"), False, True),
        (ServerError(500, "model runner has unexpectedly stopped, this may be due to"), False, False),  # ollama#14093
        (ServerError(500, "llama runner process no longer running: -1"), False, False),  # ollama-python#269
        (
            ServerError(500, "timed out waiting for llama runner to start - progress 1.00 - "),
            False,
            False,
        ),  # ollama#6092
        (ServerError(504, "gateway timeout"), False, False),
        (ServerError(401, "unauthorized"), False, False),
        (ServerError(404, "model 'x' not found"), False, False),
        (ServerError(0, "the connection broke"), False, False),
    ],
    ids=str,
)
def test_what_passes_is_waited_for(error, alone, in_sweep):
    assert Waiting(1.0).again(error) is alone
    with patient(Patience(1.0, lambda _: None)):
        assert Waiting(1.0).again(error) is in_sweep


def test_patience_is_spent_once():
    patience = Patience(0.6, lambda _: None)
    with patient(patience):
        first, second = Waiting(), Waiting()
        assert first.again(GONE)
        assert not first.again(GONE)
        assert not second.again(GONE)
        patience.over = False
        assert second.again(GONE)


def test_a_sign_for_others_holds_only_until_the_first_piece():
    traffic, stopped = Traffic(), threading.Event()
    with Watch(stopped.set, 0.15, traffic) as watch:
        for _ in range(6):
            time.sleep(0.05)
            traffic.seen = time.monotonic()
        assert not watch.late
        watch.sign()
        for _ in range(6):
            time.sleep(0.05)
            traffic.seen = time.monotonic()
        assert watch.late
    assert stopped.is_set()


def test_models_of_one_address_share_its_traffic():
    one, other = traffic_at("http://a/v1"), traffic_at("http://a/v1")
    assert one is other
    assert one is not traffic_at("http://b/v1")
