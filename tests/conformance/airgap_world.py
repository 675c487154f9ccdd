"""Play a scenario of an airgap file with AirgapChat, and note what can be seen of it.

Not here: what the original did (`replay_airgap`), what the default mode should do (`airgap_fit`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import toolkit as tk
from toolkit.models.base import Chunk

Facts = dict[str, Any]
UNASKED = {"temperature": 0.0123, "num_predict": 4567}  # values that no scenario asks for, so that asking shows
ROLES = {"user": "human", "assistant": "ai"}
MORE = "That is all."  # said once the replies are used up; the default mode asks more often than the original


class Base(tk.ChatModel):
    """The base model: says the replies in order, whatever they are, and notes what it was given."""

    name = "base"

    def __init__(self, replies: list[Any], more: str | None = None) -> None:
        self.replies = list(replies)
        self.more = more
        self.seen: list[dict[str, Any]] = []

    def stream(self, messages: Any, *, options: Any = None, **request: Any) -> Iterator[Chunk]:
        self.seen.append({"messages": list(messages), "options": options, **request})
        return self._play()

    def complete_stream(self, prompt: str, *, options: Any = None, **request: Any) -> Iterator[Chunk]:
        return self.stream([tk.ChatMessage.from_user(prompt)], options=options, **request)

    def _play(self) -> Iterator[Chunk]:
        said = self.replies.pop(0) if self.replies or self.more is None else self.more
        if problem := raised(said):
            raise RuntimeError(problem)
        text = said.get("content", said) if isinstance(said, dict) else said
        if self.more is not None:  # only the original's rules can meet a reply that is no text
            text = blocks_text(text)
        yield Chunk(reply=tk.Reply(text))

    def fingerprint(self) -> dict[str, Any]:
        return {"backend": "base"}


def raised(said: Any) -> str | None:
    """Return what a reply of the base model raises, if it is no reply."""
    return said.get("raise") or said.get("error") if isinstance(said, dict) else None


def blocks_text(content: Any) -> str:
    """Return the text of a content, whether it is text or a list of blocks."""
    if isinstance(content, dict):
        content = content.get("content", content)
    if isinstance(content, list):
        return "".join(block.get("text", "") if isinstance(block, dict) else str(block) for block in content)
    return str(content)


def make_tool(spec: Any, log: list[Any]) -> Any:
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


def run(scenario: Facts, mode: str) -> Facts:
    """Run a scenario and return what can be seen of it, in the format's words; `refused` are tools not taken."""
    base, log = Base(scenario.get("replies", ()), MORE if mode == "default" else None), []
    chat = tk.AirgapChat(base, mode=mode, **UNASKED)
    seen: Facts = {}
    if scenario.get("tools") is not None:
        try:
            bound = chat.bind_tools([make_tool(spec, log) for spec in scenario["tools"]])
        except tk.ConfigError as error:
            return {"refused": str(error), "calls": [], "tool_log": log}
        seen["bind_tools_returns_self"], chat = bound is chat, bound
    try:
        seen["final"] = ask(chat, scenario)
    except (tk.ToolkitError, RuntimeError, IndexError, TypeError, AttributeError) as error:
        seen["error"] = f"{type(error).__name__}: {error}"
    seen["calls"] = [request_facts(request, chat.options) for request in base.seen]
    seen["tool_log"] = log
    return seen


def asked_for(scenario: Facts) -> Facts:
    """Return the keyword arguments of the run."""
    kwargs = next((scenario[k] for k in ("kwargs", "generate_kwargs", "invoke_kwargs") if k in scenario), {})
    return {**kwargs, **({"stop": scenario["stop"]} if scenario.get("stop") is not None else {})}


def method_of(scenario: Facts) -> str:
    return str(scenario.get("method") or scenario.get("via") or "invoke").strip("_")


def messages_of(scenario: Facts, mode: str) -> list[Facts]:
    """Return the messages in OpenAI's form: the format has LangChain's words for calls, and bare text among blocks."""
    messages = [dict(message) for message in scenario["messages"]]
    for message in messages:
        if calls := message.get("tool_calls"):
            names = {"args": "arguments"}
            message["tool_calls"] = [{names.get(k, k): v for k, v in c.items() if k != "type"} for c in calls]
        if mode == "default" and isinstance(message["content"], list):  # the original shows blocks as they are
            blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in message["content"]]
            message["content"] = blocks
    return messages


def ask(chat: tk.AirgapChat, scenario: Facts) -> Any:
    """Ask by the scenario's method and return the text of the reply."""
    bound = chat.bind(**scenario["bind"]) if scenario.get("bind") else chat
    messages, kwargs, method = messages_of(scenario, chat.mode), asked_for(scenario), method_of(scenario)
    if method == "astream":
        return asyncio.run(last_chunk(bound.astream(messages, **kwargs))).reply.text
    if "stream" in method:
        return list(bound.stream(messages, **kwargs))[-1].reply.text
    if method.startswith("a"):
        return asyncio.run(bound.ainvoke(messages, **kwargs)).text
    return bound.invoke(messages, **kwargs).text


async def last_chunk(chunks: Any) -> Any:
    return [chunk async for chunk in chunks][-1]


def request_facts(request: Facts, plain: Facts) -> Facts:
    """Return one request in the format's words: every option that differs from the chat's own was asked for."""
    given, usual = tk.Options.of(request["options"]), tk.Options.of(plain).to_dict()
    options, stop = given.to_dict(), given.stop
    asked = {key: value for key, value in options.items() if key != "stop" and usual.get(key) != value}
    kwargs = {"max_tokens" if key == "num_predict" else key: value for key, value in asked.items()}
    kwargs |= {key: request[key] for key in ("tools", "tool_choice", "schema") if request.get(key) is not None}
    messages = [[ROLES.get(str(m.role), str(m.role)), said(m)] for m in request["messages"]]
    return {"messages": messages, "stop": list(stop) or None, "kwargs": kwargs}


def said(message: tk.ChatMessage) -> str:
    """Return the words of a message; those of a tool's message are its result."""
    result = message.tool_call_result
    return blocks_text(result.result) if result else message.text or ""
