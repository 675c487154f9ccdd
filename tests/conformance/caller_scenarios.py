"""Run and compare scenarios of kind x_caller: OpenAIFunctionCaller.

Not here: invokers, probes and OpenAPI.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from invoker_oracle import canonical
from invoker_verdict import Verdict
from invoker_world import error_of

import toolkit as tk


def weather(city):
    return {"city": city, "temp": 20}


def uni():
    return "é"


def bad():
    raise ValueError("boom")


def set_():
    return {1, 2}


FUNCTIONS = {"weather": weather, "uni": uni, "bad": bad, "set": set_}
BAD_JSON = "JSONDecodeError"


def run_caller(scenario: dict) -> dict:
    """Run one scenario; return what came, in the file's own form."""
    messages = []
    for message in scenario["messages"]:
        said = message["content"] if isinstance(message["content"], str) else json.dumps(message["content"])
        messages.append(tk.ChatMessage.from_assistant(said, meta=dict(message.get("meta", {}))))
    before = list(messages)
    try:
        caller = tk.OpenAIFunctionCaller(available_functions={name: FUNCTIONS[name] for name in scenario["functions"]})
        found = caller.run(messages=messages)
    except Exception as error:
        return {"error": error_of(error)}
    (key,) = found
    seen = [{"role": str(m.role), "content": m.content, "name": m.name} for m in found[key]]
    return {"output_key": [key], "messages": seen, "input_list_mutated": messages != before or found[key] is messages}


# ------------------------------------------------------------------ what the repaired caller should say
def asked(message: dict) -> list[dict] | None:
    """Return the calls a message asks for; None for a plain reply."""
    if message.get("meta", {}).get("finish_reason") != "tool_calls":
        return None
    content = message["content"]
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except ValueError:
            return [{"unreadable": content}]
    return content if isinstance(content, list) else [{"unreadable": content}]


def reply(call: dict, functions: list[str]) -> tuple[str, str, Any]:
    """Return (what becomes of a call, its name, the text or the words its message must hold)."""
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return "unreadable", "", ["expected", "got"]
    name, arguments = function["name"], function.get("arguments")
    try:
        given = json.loads(arguments) if isinstance(arguments, str) and arguments.strip() else arguments or {}
    except ValueError:
        given = None
    given = {} if given is None and arguments in (None, "null") else given
    if not isinstance(given, dict):
        return "unreadable", name, [name, "expected", "got"]
    if name not in functions:
        return "unknown", name, [name, *functions]
    try:
        inspect.signature(FUNCTIONS[name]).bind(**given)
    except TypeError:
        return "arguments", name, [name, "expected", "got"]
    try:
        return "ok", name, canonical(FUNCTIONS[name](**given), quote=True)
    except Exception as error:
        return "raised", name, [name, type(error).__name__, str(error)]


def compare_caller(scenario: dict, ours: dict) -> Verdict:
    """Compare one scenario, after checking that ours is the repaired behaviour."""
    verdict, observed = Verdict(), scenario["observed"]
    if not verdict.check("error" not in ours, f"ours raised {ours.get('error')}"):
        return verdict
    calls = [call for message in scenario["messages"] for call in asked(message) or ()]
    replies = [reply(call, scenario["functions"]) for call in calls]
    given = len(scenario["messages"])
    key = "function_replies" if any(asked(m) is not None for m in scenario["messages"]) else "assistant_replies"
    _check_ours(ours, key, replies, given, verdict)
    if verdict.differ:
        return verdict
    if "error" in observed:
        _escaped(scenario, observed["error"], replies, verdict)
        return verdict
    first = asked(scenario["messages"][0]) if scenario["messages"] else None
    elsewhere = len(calls) - len(first or ())
    if elsewhere:
        verdict.on_purpose("B-W19", "calls of every message are run, not only those of the first")
    else:
        verdict.check(observed["output_key"] == ours["output_key"], f"output {observed['output_key']}")
    if observed.get("input_list_mutated") and not ours["input_list_mutated"]:
        verdict.on_purpose("B-W19", "the given list stays as it is")
    theirs, mine = observed["messages"], ours["messages"]
    verdict.check(theirs[:given] == mine[:given], "the given messages come back changed")
    for seen, our, fate in zip(theirs[given:], mine[given:], replies, strict=False):
        _answers(seen, our, fate, verdict)
    if not elsewhere:
        verdict.check(len(theirs) == len(mine), f"{len(theirs) - given} replies, ours {len(mine) - given}")
    return verdict


def _check_ours(ours: dict, key: str, replies: list, given: int, verdict: Verdict) -> None:
    verdict.check(ours["output_key"] == [key], f"our output is {ours['output_key']}, not {key}")
    verdict.check(not ours["input_list_mutated"], "ours changed the given list")
    added = ours["messages"][given:]
    verdict.check(len(added) == len(replies), f"ours gave {len(added)} replies to {len(replies)} calls")
    for message, (kind, name, want) in zip(added, replies, strict=False):
        if kind == "ok":
            same = (message["role"], message["name"], message["content"]) == ("function", name, want)
            verdict.check(same, f"our reply {message} is not {want!r}")
        else:
            holds = message["role"] == "assistant" and all(word in message["content"] for word in want)
            verdict.check(holds, f"our reply {message} does not say {want}")


def _escaped(scenario: dict, error: dict, replies: list, verdict: Verdict) -> None:
    """Explain an exception that the observed caller let out."""
    texts = [(c.get("function") or {}).get("arguments") for m in scenario["messages"] for c in asked(m) or ()]
    empty = any(text is None or not str(text).strip() for text in texts)
    kinds = {kind for kind, _, _ in replies}
    if error["type"] == BAD_JSON and "unreadable" in kinds:
        verdict.on_purpose("B-W1", "arguments that are no JSON object are refused with what was expected and got")
    elif error["type"] in (BAD_JSON, "TypeError") and empty:
        verdict.on_purpose("B-W10", "empty arguments mean {}")
    elif error["type"] in ("KeyError", "IndexError", "TypeError", "AttributeError"):
        verdict.on_purpose("B-W19", "messages without a finish reason, or none at all, are plain replies")
    else:
        verdict.check(False, f"theirs raised {error['type']}, ours did not")


def _answers(theirs: dict, mine: dict, fate: tuple, verdict: Verdict) -> None:
    kind = fate[0]
    if kind == "ok" and theirs["role"] != "function":
        verdict.on_purpose("B-W3", "a result that JSON lacks becomes its str()")
        return
    if not verdict.check(theirs["role"] == mine["role"], f"{theirs['role']} message, ours {mine['role']}"):
        return
    verdict.check(theirs["name"] == mine["name"], "another name")
    if kind == "ok":
        same = theirs["content"] == mine["content"]
        if not same and verdict.check(json.loads(theirs["content"]) == json.loads(mine["content"]), "another value"):
            verdict.on_purpose("B-W3", "non-ASCII is kept")
    elif kind == "unknown" and not all(word in theirs["content"] for word in fate[2]):
        verdict.on_purpose("B-W19", "the unknown function and the valid ones are named")
    elif kind == "unreadable":
        verdict.on_purpose("B-W1", "what cannot be read is answered with what was expected and got")
