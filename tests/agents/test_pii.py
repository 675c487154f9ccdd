"""Personal data are hidden in what the user, the model and tools say, in linear time."""

from __future__ import annotations

import asyncio
import time

import pytest

import toolkit as tk
from toolkit.agents.builtin import PIIFoundError, PIIRedaction
from toolkit.errors import ConfigError


def call(name="add", cid="c1", **arguments):
    return tk.ToolCall(name, arguments, cid)


def agent(lines, middleware, tools=(), **more):
    return tk.Agent(tk.ScriptedModel(lines), tools, middleware=[middleware], **more)


def both_ways(make):
    """Run sync and async; the answers must agree."""
    one, two = make().run("go"), asyncio.run(make().arun("go"))
    said = [
        [(m.role, m.text, [(r.result, r.error) for r in m.tool_call_results]) for m in t.messages] for t in (one, two)
    ]
    assert said[0] == said[1]
    return one


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


SECRETS = "ann@example.org 4111-1111-1111-1111 10.1.2.3 aa:bb:cc:dd:ee:ff https://e.org/x 1234-5678-9012-3456 999.1.1.1"


HIDDEN = {
    "email": "ann@example.org",
    "credit_card": "4111-1111-1111-1111",
    "ip": "10.1.2.3",
    "mac_address": "aa:bb:cc:dd:ee:ff",
    "url": "https://e.org/x",
}


@pytest.mark.parametrize("kind", HIDDEN)
def test_pii_hides_what_it_is_for_and_nothing_else(kind):
    clean = PIIRedaction(kind).hide(SECRETS)
    assert clean == SECRETS.replace(HIDDEN[kind], f"[REDACTED_{kind.upper()}]")


def test_pii_strategies_and_places():
    digest = PIIRedaction("email", "hash").hide("ann@e.org ann@e.org").split()
    assert digest[0] == digest[1] != PIIRedaction("email", "hash").hide("bob@e.org")
    with pytest.raises(PIIFoundError, match="personal data"):
        agent(["ok"], PIIRedaction("email", "block")).run("to ann@e.org")
    who = tk.Tool("who", "", {"type": "object"}, lambda: "ann@e.org")
    everywhere = PIIRedaction("email", apply_to_output=True, apply_to_tool_results=True)
    trace = both_ways(lambda: agent([call("who"), "It is ann@e.org"], everywhere, [who]))
    assert trace.tool_results[0].result == "[REDACTED_EMAIL]"
    assert trace.text == "It is [REDACTED_EMAIL]"


MASKED = {
    "email": "to ann@****.org",
    "credit_card": "****-****-****-1111 ************0005 **** **** **** 1111",
    "ip": "*.*.*.3",
    "mac_address": "**:**:**:**:**:ff **-**-**-**-**-ff",
    "url": "[MASKED_URL] [MASKED_URL]",
    "badge": "****1234 ****",
}


SHOWN = {
    "email": "to ann@mail.example.org",
    "credit_card": "4111-1111-1111-1111 378282246310005 4111 1111 1111 1111",
    "ip": "10.1.2.3",
    "mac_address": "aa:bb:cc:dd:ee:ff aa-bb-cc-dd-ee-ff",
    "url": "https://e.org/x e.org/x",
    "badge": "B-1234 B-12",
}


@pytest.mark.parametrize("kind", MASKED)
def test_a_mask_leaves_what_people_know_it_by(kind):
    detector = r"B-\d+" if kind == "badge" else None
    assert PIIRedaction(kind, "mask", detector=detector).hide(SHOWN[kind]) == MASKED[kind]


@pytest.mark.parametrize(
    ("kind", "text", "left"),
    [
        ("url", "see d.com/path now", "see * now"),
        ("url", "www.g and ftp://f.org/x", "* and ftp://*"),
        ("url", "www.https://e.org/x", "*"),
        ("url", "www.e.org?q=ann www.e.org:8080/x www.e.org, ok?", "* * *, ok?"),
        ("url", "see example.com and/or e.g. this.", "see example.com and/or e.g. this."),
        ("credit_card", "4111 1111-11111111", "*"),
        ("credit_card", "30569309025904 3056 930902 5904 4222222222222", "* * *"),
        ("email", "ann@my_host.org", "*"),
        ("ip", "01.2.3.4", "*"),
    ],
    ids=str,
)
def test_pii_finds_more_shapes(kind, text, left):
    assert PIIRedaction(kind).hide(text).replace(f"[REDACTED_{kind.upper()}]", "*") == left


def test_pii_of_ones_own():
    assert PIIRedaction("badge", detector=r"B-\d+").hide("B-12 x") == "[REDACTED_BADGE] x"
    assert PIIRedaction("first", detector=lambda text: [(0, 1)]).hide("abc") == "[REDACTED_FIRST]bc"
    for wrong in ({"kind": "badge"}, {"kind": "email", "strategy": "burn"}):
        with pytest.raises(ConfigError):
            PIIRedaction(**wrong)


def test_spans_that_overlap_are_hidden_as_one():
    hidden = PIIRedaction("x", detector=lambda text: [(0, 10), (3, 5), (12, 12), (-3, 2)]).hide("abcdefghijSECRET")
    assert hidden == "[REDACTED_X]SECRET"


SEEN = {
    "text": ("ann@e.org", "[REDACTED_EMAIL]"),
    "list": ([{"to": ["ann@e.org", 1]}, None], [{"to": ["[REDACTED_EMAIL]", 1]}, None]),
    "key": ({"ann@e.org": True}, {"[REDACTED_EMAIL]": True}),
}


@pytest.mark.parametrize(("given", "hidden"), SEEN.values(), ids=SEEN)
def test_arguments_of_calls_and_raw_results_are_looked_at(given, hidden):
    tool = tk.Tool(
        "send", "", {"type": "object", "properties": {"to": {}}}, lambda to: to, outputs_to_string={"raw_result": True}
    )
    everywhere = PIIRedaction("email", apply_to_output=True, apply_to_tool_results=True)
    trace = tk.Agent(tk.ScriptedModel([call("send", to=given), "ok"]), [tool], middleware=[everywhere]).run("go")
    assert trace.tool_calls[0].arguments == {"to": hidden}
    assert trace.tool_results[0].origin.arguments == {"to": hidden}
    results = PIIRedaction("email", apply_to_tool_results=True)
    trace = tk.Agent(tk.ScriptedModel([call("send", to=given), "ok"]), [tool], middleware=[results]).run("go")
    assert trace.tool_results[0].result == hidden
    assert trace.tool_calls[0].arguments == {"to": given}


def test_numbers_can_be_personal_too():
    gate = PIIRedaction("credit_card", "block", apply_to_output=True)
    with pytest.raises(PIIFoundError):
        tk.Agent(tk.ScriptedModel([call(amount=4111111111111111), "ok"]), [pay], middleware=[gate]).run("go")


@pytest.mark.parametrize("text", ["a" * 200_000, "a." * 100_000, "@a" * 100_000, "a@" + "a." * 100_000], ids=range(4))
def test_addresses_are_looked_for_in_linear_time(text):
    start = time.perf_counter()
    PIIRedaction("email").hide(text)
    assert time.perf_counter() - start < 2
