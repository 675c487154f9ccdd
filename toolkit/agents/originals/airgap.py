"""How did the original AirgapChatOpenAI build its prompt, find calls and run them? Rule for rule, faults included.

The rules are those of `naas-abi-core` (one prompt, one round, calls cut at the nearest brace). Nothing here is
repaired: `AirgapChat(mode="compat")` exists so that old prompts can be compared with new ones.

Not here: the repaired rules, which are the default (`toolkit.agents.airgap.chat`).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.agents.airgap.reply import AirgapChunk, AirgapReply
from toolkit.agents.foreign import Spoken, as_chat_messages
from toolkit.messages import ChatMessage
from toolkit.models.base import ChatModel, Chunk, Reply
from toolkit.tools import Tool

KEPT_OPTIONS = ("temperature", "max_tokens", "stop")
_CALL = re.compile(r"TOOL_CALL:\s*(\w+)\s*({.*?})", re.DOTALL)


def tool_list(tools: Sequence[Any]) -> str:
    """Return the lines that announce the tools; a tool without a description is left out but can be called."""
    lines = [f"- {t.name}: {t.description}" for t in tools if hasattr(t, "name") and hasattr(t, "description")]
    listed = "".join(f"{line}\n" for line in lines)
    return f"\nAvailable tools:\n{listed}\nTo use a tool, respond with: TOOL_CALL: tool_name {{json_args}}\n"


def first_prompt(spoken: Sequence[Spoken], tools: Sequence[Any]) -> list[ChatMessage]:
    """Build the one message of the first request: system texts, tools, and the last user text alone.

    Without a user text the messages pass unchanged, and no tool is announced.
    """
    user = next((said.content for said in reversed(spoken) if said.role == "user"), None)
    if not user:
        return as_chat_messages(spoken)
    system = "".join(f"{said.content}\n" for said in spoken if said.role == "system" and isinstance(said.content, str))
    prompt = system.strip() + (tool_list(tools) if tools else "")
    return [ChatMessage.from_user(f"{prompt}\n\nUser: {user}")]


def second_prompt(first_reply: str, results: Sequence[str]) -> list[ChatMessage]:
    """Build the one message of the second request: no system text, no question, no tools."""
    lines = "\n".join(results)
    return [ChatMessage.from_user(f"{first_reply}\n\nTool results:\n{lines}\n\nProvide a final response:")]


def run_calls(text: str, tools: Sequence[Any]) -> list[str]:
    """Run every call found in the reply, in order, and return one line for each that was not skipped.

    An unknown tool is skipped without a word, but only after its arguments were read: bad JSON is an error line.
    """
    results: list[str] = []
    for name, arguments in _CALL.findall(text):
        try:
            values = json.loads(arguments)
            tool = next((tool for tool in tools if getattr(tool, "name", None) == name), None)
            if tool is not None:
                results.append(f"{name}: {_run(tool, values)}")
        except Exception as error:  # the original swallows all of them
            results.append(f"{name}: Error - {error}")
    return results


def _run(tool: Any, values: dict[str, Any]) -> Any:
    if isinstance(tool, Tool):  # our own Tool takes keywords where the original's tools take one dict
        return tool.invoke(**values)
    return tool.invoke(values) if hasattr(tool, "invoke") else str(tool(**values))


def converse(spoken: Sequence[Spoken], tools: Sequence[Any]) -> Generator[list[ChatMessage], Reply, Reply]:
    """Yield the messages of each request, receive its reply, and return the reply that the caller gets."""
    reply = yield first_prompt(spoken, tools)
    if not tools or not isinstance(reply.text, str):
        return reply
    results = run_calls(reply.text, tools)
    if not results:
        return reply
    return (yield second_prompt(reply.text, results))


def drive(model: ChatModel, spoken: Sequence[Spoken], tools: Sequence[Any], options: Mapping[str, Any]) -> AirgapReply:
    """Run the one or two requests; the answer carries no calls and no results, as the original's does not."""
    steps = converse(spoken, tools)
    prompts, replies, messages = [], [], next(steps)
    while True:
        prompts.append(tuple(messages))
        replies.append(model.chat(messages, options=options))
        try:
            messages = steps.send(replies[-1])
        except StopIteration as end:
            return AirgapReply(end.value.text, replies=tuple(replies), prompts=tuple(prompts))


def bare(reply: Reply, spoken: Sequence[Spoken]) -> AirgapReply:
    """Return the reply to the untouched messages: what async callers of the original get."""
    return AirgapReply(reply.text, replies=(reply,), prompts=(tuple(as_chat_messages(spoken)),))


def bare_chunk(chunk: Chunk, spoken: Sequence[Spoken]) -> AirgapChunk | None:
    """Return a piece of the reply to the untouched messages, as streaming callers get it; None if it has no words."""
    if chunk.reply is not None:
        return AirgapChunk(reply=bare(chunk.reply, spoken))
    return AirgapChunk(chunk.text) if chunk.text else None


@dataclass(frozen=True)
class Bound:
    """Carry options for a compat chat, as the original's `bind` gives a wrapper; each run adds them."""

    chat: Any
    kwargs: dict[str, Any]

    def bind(self, **kwargs: Any) -> Bound:
        """Return a wrapper with these options too; unlike the chat's own `bind` it drops no name that holds "tool"."""
        return Bound(self.chat, {**self.kwargs, **kwargs})

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Give the chat these tools and return the chat itself: the original's wrapper loses its options here."""
        return self.chat.bind_tools(tools, **kwargs)

    def invoke(self, messages: Any, **kwargs: Any) -> AirgapReply:
        """Answer a conversation with the bound options."""
        reply: AirgapReply = self.chat.invoke(messages, **{**self.kwargs, **kwargs})
        return reply

    async def ainvoke(self, messages: Any, **kwargs: Any) -> AirgapReply:
        """Answer a conversation with the bound options, without tools or prompt."""
        reply: AirgapReply = await self.chat.ainvoke(messages, **{**self.kwargs, **kwargs})
        return reply

    def stream(self, messages: Any, **kwargs: Any) -> Iterator[AirgapChunk]:
        """Stream the reply with the bound options, without tools or prompt."""
        yield from self.chat.stream(messages, **{**self.kwargs, **kwargs})

    async def astream(self, messages: Any, **kwargs: Any) -> AsyncIterator[AirgapChunk]:
        """Stream the reply with the bound options, without tools or prompt, and without blocking the event loop."""
        async for chunk in self.chat.astream(messages, **{**self.kwargs, **kwargs}):
            yield chunk
