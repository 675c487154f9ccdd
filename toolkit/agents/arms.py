"""Turn a ModelRequest into what one of the three arms sends, and a Reply into a message with calls.

    native        the server gets the tools and reads the calls itself
    prompted      the protocol writes the tools into the prompt, and its syntax reads the calls
    constrained   as prompted, and decoding is held to a JSON Schema made from the tools

Pure: no model is called here. Not here: the calling (`toolkit.agents.drivers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from toolkit.agents.requests import ModelRequest
from toolkit.errors import ModelError, UpdateError
from toolkit.messages import ChatMessage, ChatRole, Part, TextContent, ToolCall
from toolkit.models.base import Fault, Options, Reply
from toolkit.tools import Tool

if TYPE_CHECKING:
    from toolkit.prompting.protocols import Arm, Protocol

_GIVEN_ID = attrgetter("id")
_TRIED = ("truncated", "bad_json")  # rejected beside good calls, these were meant as calls too


@dataclass(slots=True)  # not frozen: made each turn, and freezing trebles the cost of making one
class Question:
    """Hold what is sent to the model for one request.

    Attributes:
        messages: the exact prompt.
        tools: tools for the server; None in the prompted and constrained arms.
        schema: what decoding is held to, or None.
        options: `Options`, or a dict laid over the model's own.
        tool_choice: for servers that enforce it.
        offered: the tools this turn may call, whichever way they are shown.
    """

    messages: tuple[ChatMessage, ...]
    tools: list[Tool] | None
    schema: dict[str, Any] | None
    options: Any
    tool_choice: str | None
    offered: tuple[Tool, ...]


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
    def of(cls, value: Any) -> Choice:
        """Read "auto", "none", "any", "no-parallel", a tool's name, a server's dict that names one, or None for auto.

        >>> Choice.of({"type": "function", "function": {"name": "add"}})
        Choice(wanted='add', single=False)

        Raises:
            UpdateError: a dict that names no tool, or something else.
        """
        if value is not None and not isinstance(value, str):
            value = _named(value)
        return _CHOICES.get(value) or cls(value or "auto")


def _named(value: Any) -> str:
    """Return the tool that a tool choice in a server's form names."""
    inner = value.get("function", value) if isinstance(value, Mapping) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if isinstance(name, str) and name:
        return name
    raise UpdateError(
        f"tool_choice={value!r} names no tool. Give a tool's name, 'any', 'none', 'auto' or 'no-parallel'."
    )


AUTO = Choice()
_CHOICES: dict[str | None, Choice] = {None: AUTO, "auto": AUTO, "no-parallel": Choice("auto", single=True)}


@dataclass(slots=True)
class Reading:
    """Hold what was read out of a reply.

    Attributes:
        text: the words for the user, or the raw reply where a call was tried and could not be read.
        calls: the calls, each with an id.
        invalid: calls that could not be read: [{"name", "id", "reason", "text"}].
        extraction: provenance, in the arms that read text.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    invalid: tuple[dict[str, Any], ...] = ()
    extraction: Any = None


@dataclass(frozen=True, slots=True)
class ArmSettings:
    """Hold how requests are put to the model."""

    arm: Arm
    protocol: Protocol | None
    options: Options | dict[str, Any] | None = None  # laid over the model's own defaults


def ask(request: ModelRequest, settings: ArmSettings, choice: Choice, extra: tuple[Tool, ...] = ()) -> Question:
    """Return what is sent for a request.

    Args:
        request: the innermost request, after all middleware.
        settings: the agent's arm, protocol and options.
        choice: the tool choice in force.
        extra: the response tool, if an answer in a given shape is wanted; it forces a call.
    """
    shown = extra if choice.wanted == "none" else (*request.tools, *extra) if extra else request.tools
    wanted = "any" if extra and choice.wanted in ("auto", "none") else choice.wanted
    if not shown and wanted == "any":
        wanted = "auto"
    said = request.messages if request.system_message is None else (request.system_message, *request.messages)
    options = settings.options
    if request.model_settings:
        own = options.to_dict() if isinstance(options, Options) else options or {}
        options = {**own, **request.model_settings}
    if settings.arm == "native":
        sent = None if wanted == "auto" else wanted
        return Question(said, list(shown) or None, None, options, sent, shown)
    assert settings.protocol is not None
    messages = settings.protocol.render(shown, said, wanted, arm=settings.arm, parallel=not choice.single)
    schema = None
    if settings.arm == "constrained":
        schema = settings.protocol.response_schema(shown, wanted, parallel=not choice.single)
    return Question(tuple(messages), None, schema, options, None, shown)


def read(reply: Reply, question: Question, settings: ArmSettings, turn: int, *, apart: bool = False) -> Reading:
    """Read a reply.

    Args:
        reply: what the server gave.
        question: what it answers.
        settings: the agent's arm and protocol.
        turn: number of the turn, for ids of calls that have none.
        apart: whether an id that a server gave to several calls of the turn is kept for the first alone; needed where
            calls may be answered before they run, which goes by id.

    Raises:
        ModelError: the server failed (`reply.fault`), other than by not reading its model's call.
    """
    fault = reply.fault
    if fault is not None and fault.kind not in ("parse", "schema_not_honoured"):
        raise ModelError(f"Model {reply.model!r} failed: {fault.kind}: {fault.message}", fault)
    if settings.arm == "native":
        return _read_native(reply, turn, apart) if fault is None else _read_unread(reply, question, fault, turn)
    assert settings.protocol is not None
    extraction = settings.protocol.extract(reply.text, question.offered, finish_reason=reply.finish_reason)
    text = extraction.text
    if settings.arm == "constrained" and not extraction.calls:
        text = settings.protocol.answer(reply.text)
    return _reading(extraction, text, reply.text, turn)


def _read_unread(reply: Reply, question: Question, fault: Fault, turn: int) -> Reading:
    """Read a reply in which the server could not read its own model's call; we may."""
    from toolkit.extraction import extract

    extraction = extract(reply.text, tools=question.offered, finish_reason=reply.finish_reason)
    if extraction.status != "called":
        invalid = ({"name": "", "id": _id(turn, 0), "reason": fault.message, "text": reply.text},)
        return Reading(reply.text, (), invalid, extraction)
    return _reading(extraction, extraction.text, reply.text, turn)


def _read_native(reply: Reply, turn: int, apart: bool) -> Reading:
    calls: tuple[ToolCall, ...] = tuple(reply.tool_calls)
    if not all(map(_GIVEN_ID, calls)):
        calls = tuple(call if call.id else replace(call, id=_id(turn, n)) for n, call in enumerate(calls))
    if apart and len({call.id for call in calls}) < len(calls):
        calls = _told_apart(calls)
    raw = reply.raw
    return Reading(reply.text, calls, tuple(raw["invalid_tool_calls"]) if "invalid_tool_calls" in raw else ())


def _reading(extraction: Any, text: str, raw: str, turn: int) -> Reading:
    calls = _with_ids(extraction.calls, turn)
    tried = extraction.status in ("broken", "truncated")
    rejected = [r for r in extraction.rejected if tried or (calls and r.reason in _TRIED)]
    invalid = [
        {
            "name": r.name or "",
            "id": _id(turn, len(calls) + n),
            "reason": r.detail or r.reason.replace("_", " "),
            "text": raw[r.span[0] : r.span[1]],
        }
        for n, r in enumerate(rejected)
    ]
    if tried and not invalid:
        reason = "it was cut off" if extraction.status == "truncated" else "it is not in the asked form"
        invalid = [{"name": "", "id": _id(turn, len(calls)), "reason": reason, "text": raw}]
    return Reading(raw if tried else text, calls, tuple(invalid), extraction)


def _with_ids(calls: Iterable[ToolCall], turn: int) -> tuple[ToolCall, ...]:
    return tuple(c if c.id is not None else replace(c, id=_id(turn, n)) for n, c in enumerate(calls))


def _told_apart(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Give each call an id of its own: some servers give one id to all calls of a turn."""
    taken: set[str | None] = set()
    found = []
    for number, call in enumerate(calls):
        known = call.id
        while known in taken:
            known = f"{known}_{number}"
        taken.add(known)
        found.append(call if known == call.id else replace(call, id=known))
    return tuple(found)


def _id(turn: int, index: int) -> str:
    return f"call_{turn}_{index}"


def as_message(reading: Reading, name: str | None, known: str) -> ChatMessage:
    """Return the assistant message for a reading; calls that could not be read are noted in its meta."""
    meta: dict[str, Any] = {"id": known}
    if reading.invalid:
        meta["invalid_calls"] = list(reading.invalid)
    text = reading.text if reading.text or not reading.calls else None
    calls = reading.calls
    if len(calls) != 1 or type(calls[0]) is not ToolCall:  # the history holds bare calls; the trace has the rest
        calls = tuple(c if type(c) is ToolCall else ToolCall(c.tool_name, c.arguments, c.id) for c in calls)
    parts: tuple[Part, ...] = calls if text is None else (TextContent(text), *calls)
    return ChatMessage(ChatRole.ASSISTANT, parts, name, meta)
