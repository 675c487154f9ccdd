"""What of an outcome counts? Bring ours and theirs to one form, in which equal means that both did the same.

Left out is what only a library's way of writing makes: blanks, the classes and words of its own errors and notices,
ids it makes up, the order in which threads race. What the scenario itself says stays as it is. Every function here
treats both sides alike, and leaves what it made once as it is the second time.

Not here: playing and judging (`replay`).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

Data = dict[str, Any]
# parts that some files tell and others leave out
OPTIONAL = {"bind_tools_returns_self", "calls", "tool_log", "output_keys", "generation_kwargs_keys"}

# ---------------------------------------------------------------------- texts
OVER = r"(?:thread|run) limit exceeded \(\d+/\d+ calls\).*"
USED = r"\d+ calls? (?:is|are) used up\."
FAILED = r"(?:.* with error: )?Failed to invoke [Tt]ool `(.*?)` with parameters"
# what a text says -> how the libraries say it; of the groups nothing may differ
WORDS: tuple[tuple[str, str], ...] = (
    ("no tool", r'Error: (.*) is not a valid tool, try one of .*|There is no tool "(.*?)".*'),
    ("no tool", r"Tool '?(\w+)'? not found.*|No (?:tool|function) is called '(.*?)'.*"),
    ("no tool", r"I'm sorry, I tried to run a function that did not exist.*"),
    ("not offered", r'Tool "(.*?)" is not available now.*'),
    ("failed", r"Error invoking tool '([^']*)' with kwargs .*|Arguments of '([^']*)'(?: do not fit)?: .*"),
    ("failed", rf"{FAILED} .*\. Error: fn\(\) (?:got an unexpected|missing) .*|{FAILED} .*\. Error: (.*)"),
    ("failed", rf"{FAILED} [^.]*\.?|Tool '([^']*)' failed with TypeError: fn\(\) .*"),
    ("failed", r"Tool '([^']*)' failed(?: with|:) \w+: (.*)|Seems there was an error while running the function: (.*)"),
    ("not merged", r"Failed to merge tool outputs .*|Tool '.*' ran, but its result could not be written.*"),
    ("no text", r"Failed to convert tool result .*|Tool '.*' ran, but (?:the|its) result.*"),
    ("unreadable", r"Tool call .* could not be executed - .*|This call could not be read: .*"),
    ("unreadable", r"The calls cannot be read: .*"),
    ("answer", r"Returning structured response: (\{.*\})|The answer was taken: (\{.*\})"),
    ("no answer", r'The answer does not fit: .*|Call "(.*)" once, with one final answer\.'),
    ("summary", r"(?:Here is a summary of the conversation to date|Summary of the conversation so far):(.*)"),
    ("todos", r"Updated todo list to (\[.*\])|The list is kept: (\[.*\])"),
    ("todos twice", r"Error: The `write_todos` tool should never .*|Not kept\. Call write_todos once, .*"),
    ("model failed", r"Model call failed after \d+ attempts? with (.*)"),
    ("model failed", r"The model could not be asked: (.*) \(\d+ tr(?:y|ies)\)\."),
    ("tool failed", r"Tool '(.*)' failed after \d+ attempts? with (.*)\. Please try again\."),
    ("tool failed", r'Tool "(.*)" failed \d+ times?: (.*)\.'),
    ("model limit", r"Model call limits exceeded: \w+ limit .*|Stopped: all \d+ model calls are used up\."),
    (
        "limit",
        rf"Tool call limit (?:exceeded\. Do not make .*|reached: {OVER})|No tool may be called again; all {USED}",
    ),
    ("limit", rf"Tool call limit exceeded\. Do not call '(.*)' again\.|'(.*)' tool call limit reached: {OVER}"),
    ("limit", rf'Tool "(.*)" may not be called again; its {USED}'),
    ("not run", r"Execution stopped before this tool call .*|Not run: the run was stopped first\."),
)


def said(text: str) -> str:
    """Say what a library says in its own words as `<what: parts>`; leave every other text as it is, but for blanks.

    >>> said('There is no tool "ad". Call one of: add.') == said("Error: ad is not a valid tool, try one of [add].")
    True
    """
    for word, pattern in WORDS:
        if found := re.fullmatch(pattern, text, re.DOTALL):
            parts = [data(part).strip() for part in found.groups() if part and part.strip()]
            return f"<{word}: {', '.join(parts)}>" if parts else f"<{word}>"
    text = re.sub(r"(?<![\d.])(\d+)\.0(?!\d)", r"\1", text)  # 3.0 is 3 in JSON
    text = re.sub(r"0x[0-9a-fA-F]+|0xADDR|\b(?=\d*[a-f])(?:[0-9a-f]{16}){1,2}\b", "0x", text)  # addresses, ids
    return " ".join(text.split())


def data(text: str) -> str:
    """Write a JSON or Python value one way, and leave other texts as they are."""
    for read in (json.loads, ast.literal_eval):
        try:
            return json.dumps(read(text), ensure_ascii=False, sort_keys=True)
        except (ValueError, SyntaxError):
            continue
    return text


def content(value: Any) -> str:
    """Return the text of a message's content, which may be a list of text blocks, or such a list as JSON."""
    given = value
    if isinstance(value, str) and value.startswith("[{"):
        try:
            given = json.loads(value)
        except ValueError:
            return said(value)
    if isinstance(given, list) and given and all(map(is_text, given)):
        return said("".join(b if isinstance(b, str) else b["text"] for b in given))
    return said(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def is_text(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")


# ---------------------------------------------------------------------- middleware
SCRIPTED = ("ValueError", "KeyError", "RuntimeError", "TypeError", "ToolException")
LIMITS = ("GraphRecursionError", "ToolCallLimitExceededError", "ModelCallLimitExceededError", "LimitError", "limit")
CRASHES = ("KeyError", "AttributeError", "AssertionError")  # falling over is not the same as saying what is wrong
ASKING = ("SummarizationMiddleware", "LLMToolSelectorMiddleware", "LLMToolEmulator")


def middleware(seen: Data, scenario: Data) -> Data:
    """Bring the notes of a middleware scenario, or the facts of a probe, to the form that is compared."""
    if scenario.get("kind") == "probe":
        return {"facts": facts(seen.get("facts", seen))}
    own = set(strings(scenario))
    classes = {text.partition(":")[0] for text in own}
    events = [re.sub(r":caught:(\w+)", lambda m: m[0] if m[1] in classes else ":caught:*", e) for e in seen["events"]]
    found: Data = {
        "events": sorted(events) if scenario.get("unordered_events") else events,
        "model_calls": [model_call(call, asked_apart(scenario)) for call in seen["model_calls"]],
    }
    state = seen.get("final_state") or {}
    if state := {k: v for k, v in state.items() if v is not None and k not in COUNTS}:
        found["final_state"] = state
    if seen.get("error"):
        found["error"] = error(seen["error"], own)
    if "final_messages" in seen:
        free = {(scenario.get("response_format") or {}).get("title"), "write_todos"}
        found["final_messages"] = [message(m, free) for m in seen["final_messages"]]
    return found


COUNTS = ("thread_model_calls", "thread_tool_calls")  # shown here, kept by a checkpointer there


def strings(value: Any) -> Iterator[str]:
    """Yield every string of a scenario's definition."""
    if isinstance(value, str):
        yield value
    for inner in value if isinstance(value, list) else ():
        yield from strings(inner)
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key not in ("observed", "expected", "description", "name", "why"):
            yield from strings(inner)


def error(seen: Data, own: set[str]) -> Data:
    """Keep the error that a scenario raises itself; of the libraries' own only the kind."""
    kind, text = seen["type"], seen.get("message", "").strip("'\"")
    if kind in SCRIPTED and (text == "script exhausted" or f"{kind}:{text}" in own):
        return {"type": kind, "message": text}
    return {"type": "limit" if kind in LIMITS else kind if kind in CRASHES else "refused"}


def asked_apart(scenario: Data) -> set[str]:
    """Return the models that only ready-made middleware asks, with a prompt of the library's own."""
    given = [m for m in scenario.get("middlewares", []) if m.get("builtin") in ASKING]
    named = [a for m in given for a in [*m.get("args", []), m.get("kwargs", {}).get("model")]]
    return {name[7:] for name in named if isinstance(name, str) and name.startswith("$model:")}


def model_call(seen: Data, apart: set[str]) -> Data:
    if seen["model"] in apart:
        return {"model": seen["model"]}
    lines = [line.split(":", 1) for line in seen["messages"]]
    found = {**seen, "messages": [f"{kind}:{content(text)}" for kind, text in lines]}
    choice = found.pop("tool_choice", None) or "auto"
    if choice == "none":  # then we do not show the tools either, since servers ignore the choice
        found.pop("tools", None)
    named = choice["function"]["name"] if isinstance(choice, dict) else choice
    return found | ({} if named == "auto" else {"tool_choice": named})


def message(seen: Data, free: set[str | None]) -> Data:
    """Bring a message to the form; whether a notice about an answer or a list is an error is the library's affair."""
    left = ("status",) if seen.get("name") in free else ()
    return {k: content(v) if k == "content" else v for k, v in seen.items() if k not in left}


def facts(seen: Any) -> Any:
    """Bring what a probe found to the form: an error counts as an error, and lists have no order."""
    if isinstance(seen, dict):
        if isinstance(seen.get("error"), str):
            return "error"
        return {k: facts(v) for k, v in seen.items() if k not in ("warnings", "state_schema")}
    if isinstance(seen, list):
        return sorted(map(facts, seen), key=str)
    return "error" if isinstance(seen, str) and seen.endswith("Error") else seen


# ---------------------------------------------------------------------- invoker
REFUSED = ("ValueError", "TypeError", "ConfigError", "SchemaGenerationError", "JsonRefError", "OpenAPIClientError")


def invoker(seen: Data, scenario: Data) -> Data:
    """Bring the outcome of a tool execution, a call of an API, or a probe to the form that is compared."""
    found = plain(seen)
    kept = json.dumps({key: value for key, value in seen.items() if key not in ("request", "requests")})
    secrets = [scenario[key] for key in ("credentials", "run_credentials") if len(scenario.get(key) or "") > 1]
    if any(secret in kept for secret in secrets):
        found["leak"] = True
    racing = scenario["kind"] != "x_invoker" and scenario.get("init", {}).get("max_workers") != 1
    if racing and "events" in found:  # calls on threads, so that their order means nothing
        found["events"] = sorted(found["events"])
    if scenario["kind"].startswith("x_openapi") and "error" in found:
        found["error"] = "refused"
    if "request" in found:
        found["request"] = request(found["request"])
    if "requests" in found:
        found["requests"] = [request(sent) for sent in found["requests"]]
    for answer in found.get("service_response", ()):
        answer["content"] = answer_of(answer["content"])
    return found


def plain(value: Any) -> Any:
    """Bring texts, errors, schemas and tools as data to one form, wherever they stand."""
    if isinstance(value, str):
        return re.sub(r"^[\w.<>]+\.(?:_fc_)?(\w+|<\w+>)$", r"\1", said(value))  # of an import path the last name
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"type", "data"}:  # a tool, as core 2.x writes it
        return plain(value["data"])
    if {"type", "message"} <= value.keys() <= {"type", "message", "cause"}:
        return failure(value)
    found = {k: plain(v) for k, v in value.items() if v is not None}
    return found | ({"required": sorted(value["required"])} if isinstance(value.get("required"), list) else {})


def failure(seen: Data) -> str:
    """Return what kind of failure an error is, and what a tool raised."""
    kind, cause = seen["type"], seen.get("cause")
    if kind == "ToolInvocationError" and cause != "TypeError":
        return f"{kind} from {cause}"
    return "refused" if kind in REFUSED else "ToolArgumentsError" if kind == "ToolInvocationError" else kind


def request(sent: Data) -> Data:
    """Write a request one way: texts in query, headers and cookies, pairs in order, header names in small letters."""
    given = sent.get("params") or []
    given = given.items() if isinstance(given, dict) else given
    pairs = [(k, v) for k, value in given for v in (value if isinstance(value, list) else [value])]
    headers = {k.lower(): word(v) for k, v in (sent.get("headers") or {}).items()}
    cookies = {k: word(v) for k, v in (sent.get("cookies") or {}).items()}
    found = {**sent, "params": sorted([k, word(v)] for k, v in pairs), "headers": headers, "cookies": cookies}
    return {key: value for key, value in found.items() if value not in ([], {}, None)}


def word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def answer_of(text: str) -> Any:
    """Read what a service answered; of an error only that it is one."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return "error" if isinstance(found, dict) and "error" in found else json.dumps(found, sort_keys=True)


# ---------------------------------------------------------------------- airgap
ROLES = {"user": "human", "assistant": "ai"}


def airgap(seen: Data, scenario: Data) -> Data:
    """Bring a run of an airgap chat, or the facts of a probe, to the form that is compared."""
    found = {**seen, **({"error": True} if seen.get("error") else {})}
    if "calls" in seen:
        found["calls"] = [airgap_call(call) for call in seen["calls"]]
    return found


def airgap_call(seen: Data) -> Data:
    kwargs = dict(seen.get("kwargs") or {})
    stop = kwargs.pop("stop", None) if seen.get("stop") is None else seen["stop"]
    turns = [[ROLES.get(role, role), airgap_text(text)] for role, text in seen["messages"]]
    return {"messages": turns, "stop": [stop] if isinstance(stop, str) else stop or None, "kwargs": kwargs}


def airgap_text(value: Any) -> str:
    if isinstance(value, list):
        return content(value)
    return said(re.sub(r"(\w+): Error - [^\n]*", r"\1: Error", value))


# ---------------------------------------------------------------------- two modes
KINDS = {"JSONDecodeError": "ValueError", "Miss": "KeyError"}


def two_mode(seen: Data, scenario: Data) -> Data:
    """Bring both columns to the form: the data of an action, or, for the published rule, why there are none."""
    found = {}
    for column, told in seen.items():
        found[column] = {"tool": told["tool"]}
        if told["tool"]:
            found[column]["context"] = told.get("context")
        elif column == "faithful":
            found[column]["why"] = KINDS.get(told.get("why"), told.get("why"))
    return found
