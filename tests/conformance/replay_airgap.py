"""Does AirgapChat do what the original AirgapChatOpenAI was seen to do? Replay a file of observed scenarios.

    python tests/conformance/replay_airgap.py FILE.json [--mode compat|default]

Format: {"scenarios": [{"name", "messages": [{"role", "content"}], "tools": [{"name", "description", "returns" or
"raise", "style": "invoke" or "call"}], "replies": [what the base model says, in order], "stop", "kwargs", "bind",
"method", "observed": {"final", "tool_log": [[name, args]], "calls": [{"messages": [[role, content]], "stop",
"kwargs"}], "error"}}]}. A scenario of kind "probe" has facts about the object in place of a run. In compat mode all
should agree; the repaired default is expected to do what stands under `expected_by_default`.
Options and output: see `replay`.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import meaning
from replay import Family, arguments, replay
from scripted import Speaker

import toolkit as tk

Data = dict[str, Any]
UNASKED = {"temperature": 0.0123, "num_predict": 4567}  # values that no scenario asks for, so that asking shows
USUAL = tk.Options.of(UNASKED).to_dict()
MORE = "That is all."  # said once the replies are used up; the default mode asks more often than the original


def base(replies: list[Any], more: str | None) -> Speaker:
    """Return the base model: it says the replies in order, whatever they are."""
    left = iter(replies)

    def answer(request: Data) -> tk.Reply:
        said = next(left, more)
        told = said if isinstance(said, dict) else {"content": said, "raise": said is None}
        if problem := told.get("raise") or told.get("error"):
            raise RuntimeError(problem)
        text = told.get("content", said)
        return tk.Reply(text if more is None else words(text), model="model")

    return Speaker(answer)


def words(content: Any) -> str:
    """Return the text of a content, whether it is text or a list of blocks."""
    if isinstance(content, list):
        return "".join(block.get("text", "") if isinstance(block, dict) else str(block) for block in content)
    return str(content)


def tool(spec: Any, log: list[Any]) -> Any:
    """Build an object with only the attributes that the scenario gives it."""
    if not isinstance(spec, dict):
        return spec

    def work(values: Any) -> Any:
        log.append([spec.get("name"), values])
        if "raise" in spec:
            raise RuntimeError(spec["raise"])
        return spec.get("returns")

    called = spec.get("style") in ("call", "callable", "function")
    method = {"__call__": lambda self, /, **kw: work(kw)} if called else {"invoke": lambda self, args: work(args)}
    shown = {key: spec[key] for key in ("name", "description") if key in spec}
    return type("ScenarioTool", (), {**shown, **method})()


def messages_of(scenario: Data, mode: str) -> list[Data]:
    """Return the messages in OpenAI's form: the format has LangChain's words for calls, and bare text among blocks."""
    messages = [dict(message) for message in scenario["messages"]]
    for message in messages:
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{"id": c.get("id"), "name": c["name"], "arguments": c.get("args")} for c in calls]
        if mode == "default" and isinstance(message["content"], list):  # the original shows blocks as they are
            blocks = message["content"]
            message["content"] = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    return messages


def ask(chat: Any, messages: Any, method: str, kwargs: Data) -> str:
    """Ask by a method and return the text of the reply."""

    async def last(chunks: Any) -> Any:
        return [chunk async for chunk in chunks][-1]

    if method == "astream":
        return asyncio.run(last(chat.astream(messages, **kwargs))).reply.text
    if "stream" in method:
        return list(chat.stream(messages, **kwargs))[-1].reply.text
    if method.startswith("a"):
        return asyncio.run(chat.ainvoke(messages, **kwargs)).text
    return chat.invoke(messages, **kwargs).text


def play(scenario: Data, mode: str) -> Data:
    """Run a scenario and return what can be seen of it, in the form of `observed`; `refused` are tools not taken."""
    if scenario.get("kind") == "probe":
        return facts(scenario["observed"], mode)
    model, log = base(scenario.get("replies", []), MORE if mode == "default" else None), []
    chat: Any = tk.AirgapChat(model, mode=mode, **UNASKED)
    seen: Data = {}
    if scenario.get("tools") is not None:
        try:
            bound = chat.bind_tools([tool(spec, log) for spec in scenario["tools"]])
        except tk.ConfigError as error:
            return {"refused": type(error).__name__, "calls": [], "tool_log": log}
        seen["bind_tools_returns_self"], chat = bound is chat, bound
    asked = chat.bind(**scenario["bind"]) if scenario.get("bind") else chat
    stop = {"stop": scenario["stop"]} if scenario.get("stop") is not None else {}
    kwargs = {**(scenario.get("kwargs") or {}), **stop}
    method = str(scenario.get("method") or "invoke").strip("_")
    try:
        seen["final"] = ask(asked, messages_of(scenario, mode), method, kwargs)
    except (tk.ToolkitError, RuntimeError, IndexError, TypeError, AttributeError) as error:
        seen["error"] = f"{type(error).__name__}: {error}"
    return seen | {"calls": [request_seen(request) for request in model.requests], "tool_log": log}


def request_seen(request: Data) -> Data:
    """Return one request in the format's words: every option that differs from the usual ones was asked for."""
    options = {k: v for k, v in request["options"].items() if k != "transport" and v != USUAL.get(k)}
    stop = options.pop("stop", None)
    kwargs = {"max_tokens" if key == "num_predict" else key: value for key, value in options.items()}
    kwargs |= {key: request[key] for key in ("tools", "tool_choice", "schema") if request.get(key) is not None}
    return {
        "messages": [[str(m.role), said(m)] for m in request["messages"]],
        "stop": stop and list(stop),
        "kwargs": kwargs,
    }


def said(message: tk.ChatMessage) -> str:
    """Return the words of a message; those of a tool's message are its result."""
    result = message.tool_call_result
    return words(result.result) if result else message.text or ""


# ---------------------------------------------------------------------- probes
def facts(asked: Data, mode: str) -> Data:
    """Look at the object and tell the facts that were asked for; some of them name what is to be bound."""
    chat = tk.AirgapChat(base(["TOOL_CALL: t {}", "end"], None), mode=mode)
    spec = {"name": "t", "description": "d", "returns": 1}
    found = {
        "only_tool_kwargs_returns_self": chat.bind(tools=[1], tool_choice="auto", parallel_Tool_calls=True) is chat,
        "empty_bind_returns_self": chat.bind() is chat,
    }
    if "kept" in asked:
        bound = chat.bind(**asked["kept"], tools=[1], tool_choice="auto")
        found["kept"] = dict(bound.kwargs if hasattr(bound, "kwargs") else bound.options)
    if "second_bind_replaces" in asked:
        try:
            found["second_bind_replaces"] = list(chat.bind_tools([]).bind_tools(asked["second_bind_replaces"]).tools)
        except tk.UserError:
            found["second_bind_replaces"] = "refused"
    if "stream_bypasses" in asked:
        bound = chat.bind_tools([tool(spec, [])])
        found["stream_bypasses"] = ask(bound, "hi", "stream", {}) == "TOOL_CALL: t {}"
    return {key: value for key, value in found.items() if key in asked}


def family(mode: str) -> Family:
    key = "expected_by_default" if mode == "default" else "expected"
    return Family("airgap", partial(play, mode=mode), meaning.airgap, expected=key)


if __name__ == "__main__":
    parser = arguments()
    parser.add_argument("--mode", choices=("compat", "default"), default="compat")
    options = parser.parse_args()
    sys.exit(replay(options, family(options.mode)))
