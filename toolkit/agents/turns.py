"""Turn what was read out of a reply into the assistant's message, and a tool choice into what is held to.

Not here: putting the request and reading the reply (`toolkit.asking`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.agents.pairs import distinct
from toolkit.errors import UpdateError
from toolkit.extraction.types import Extraction
from toolkit.messages import ChatMessage, ChatRole, Part, ReasoningContent, TextContent, ToolCall
from toolkit.models.base import Reply

_TRIED = ("truncated", "bad_json")  # rejected beside good calls, these were meant as calls too


@dataclass(frozen=True, slots=True)
class Choice:
    """Hold a tool choice in two parts.

    Attributes:
        wanted: "auto", "none", "any" or a tool's name.
        single: at most one call a turn.
    """

    wanted: str = "auto"
    single: bool = False

    @classmethod
    def of(cls, value: Any, single: bool = False) -> Choice:
        """Read "auto", "none", "any", a tool's name, a server's dict that names one, or None for auto.

        "no-parallel" is LangChain's word for auto with one call a turn.

        >>> Choice.of({"type": "function", "function": {"name": "add"}})
        Choice(wanted='add', single=False)

        Raises:
            UpdateError: a dict that names no tool, or something else.
        """
        if value is not None and not isinstance(value, str):
            value = _named(value)
        if value == "no-parallel":
            return ONE_CALL
        if value in (None, "auto"):
            return ONE_CALL if single else AUTO
        return cls(value, single)


def _named(value: Any) -> str:
    """Return the tool that a tool choice in a server's form names."""
    inner = value.get("function", value) if isinstance(value, Mapping) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if isinstance(name, str) and name:
        return name
    raise UpdateError(f"tool_choice={value!r} names no tool. Give a tool's name, 'any', 'none' or 'auto'.")


AUTO, ONE_CALL = Choice(), Choice("auto", single=True)


def assistant_message(found: Extraction, reply: Reply, turn: int, *, name: str | None, known: str) -> ChatMessage:
    """Return the assistant's message; calls that could not be read are noted in its meta as `invalid_calls`.

    Its text is the words for the user, or the raw reply where a call was tried and could not be read. Calls that the
    server read keep their arguments as it gave them; a tool gets them fitted to its schema.

    Args:
        found: what was read.
        reply: out of this.
        turn: number of the turn, for ids of calls that have none.
        name: stamped on the message.
        known: the message's id.
    """
    calls: Sequence[ToolCall] = reply.tool_calls
    if len(calls) != 1 or calls[0].id is None or calls[0].tool_name != found.calls[0].tool_name:
        calls = [
            ToolCall(call.tool_name, as_given.arguments, call.id or _id(turn, n))
            for n, (call, as_given) in enumerate(zip(found.calls, calls or found.calls, strict=True))
        ]
    if len(calls) > 1 and len({call.id for call in calls}) < len(calls):
        calls = distinct(calls, known)
    invalid = _invalid(found, reply, turn) if found.rejected or found.status in ("broken", "truncated") else []
    meta: dict[str, Any] = {"id": known}
    if invalid:
        meta["invalid_calls"] = invalid
    text = _words(found, reply.text) if reply.text else ""
    parts: tuple[Part, ...] = (TextContent(text), *calls) if text or not calls else tuple(calls)
    if calls and reply.thinking:  # a plan that the model forgets if it is not sent back (Source: ollama-python#533)
        parts = (ReasoningContent(reply.thinking), *parts)
    return ChatMessage(ChatRole.ASSISTANT, parts, name, meta)


def _words(found: Extraction, raw: str) -> str:
    if found.status in ("broken", "truncated"):
        return raw
    # as it was written, where nothing was taken out; reading may put another sign for half a character
    whole = not found.calls and not found.rejected and not found.thinking and len(found.text) == len(raw.strip())
    return raw if whole else found.text


def _invalid(found: Extraction, reply: Reply, turn: int) -> list[dict[str, Any]]:
    """Return the calls that were tried and could not be read: [{"name", "id", "reason", "text"}]."""
    tried, first, raw = found.status in ("broken", "truncated"), len(found.calls), reply.text
    unread: list[dict[str, Any]] = list(reply.raw.get("invalid_tool_calls", ()))  # by the server, ids and all
    rejected = [r for r in found.rejected if r.syntax != "native" and (tried or (first and r.reason in _TRIED))]
    invalid = [
        {
            "name": r.name or "",
            "id": _id(turn, first + n),
            "reason": r.detail or r.reason.replace("_", " "),
            "text": raw[r.span[0] : r.span[1]],
        }
        for n, r in enumerate(rejected)
    ]
    if tried and not invalid and not unread:
        reason = "it was cut off" if found.status == "truncated" else "it is not in the asked form"
        invalid = [{"name": "", "id": _id(turn, first), "reason": reason, "text": raw}]
    return [*unread, *invalid]


def _id(turn: int, index: int) -> str:
    return f"call_{turn}_{index}"
