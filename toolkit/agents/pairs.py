"""Which result belongs to which call? Histories put in order, so that any server takes them.

    with_ids(message, known)     each call of a turn has an id of its own
    paired(messages)             behind each turn stand the results of its calls, one each and in their order

A call that nobody answered gets an error that says so, and a result that answers nothing is left out: a server refuses
both (Source: dify#41846, langchain#38352, agent-native#2312).
Not here: when this is done (`toolkit.agents.loop`), running calls that wait (`toolkit.agents.tool_calls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from toolkit.agents.wording import say
from toolkit.messages import ChatMessage, ChatRole, ToolCall, ToolCallResult


def distinct(calls: Iterable[ToolCall], known: str) -> list[ToolCall]:
    """Return the calls, each with an id of its own: some servers give one id to all calls of a turn, or none.

    >>> [call.id for call in distinct([ToolCall("f", {}, "a"), ToolCall("f", {}, "a"), ToolCall("f")], "m")]
    ['a', 'a_1', 'm-2']
    """
    taken: set[str | None] = set()
    found = []
    for number, call in enumerate(calls):
        own = call.id or f"{known}-{number}"
        while own in taken:
            own = f"{own}_{number}"
        taken.add(own)
        found.append(call if own == call.id else replace(call, id=own))
    return found


def with_ids(message: ChatMessage, known: str) -> ChatMessage:
    """Return the message with ids that tell its calls apart; itself where they do."""
    calls = message.tool_calls
    ids = {call.id for call in calls}
    if len(ids) == len(calls) and ids.isdisjoint((None, "")):
        return message
    return with_calls(message, distinct(calls, known))


def with_calls(message: ChatMessage, calls: Iterable[ToolCall]) -> ChatMessage:
    """Return the message with other calls in the place of its own, and further ones behind them."""
    left = iter(calls)
    parts = [next(left) if isinstance(part, ToolCall) else part for part in message.parts]
    return ChatMessage(message.role, (*parts, *left), message.name, message.meta)


@dataclass(slots=True, eq=False)
class _Turn:
    """Hold an assistant's turn and the messages that answer its calls, by call id."""

    said: ChatMessage
    answers: dict[str | None, ChatMessage] = field(default_factory=dict)


def paired(messages: Sequence[ChatMessage], *, waiting: bool = False, unread: bool = False) -> list[ChatMessage]:
    """Return the history in order; messages that were right stay the same objects.

    Args:
        messages: the history.
        waiting: whether calls of the last assistant's turn may wait for their results.
        unread: whether calls that could not be read may have results, as where calls are text.
    """
    turns: list[ChatMessage | _Turn] = []
    opened: dict[str | None, list[tuple[_Turn, ToolCall]]] = {}  # by the id that a result may name
    for message in messages:
        if message.role is ChatRole.TOOL:
            _sort_in(message, opened)
            continue
        bad = [ToolCall("", {}, b.get("id")) for b in message.meta.get("invalid_calls", ())] if unread else []
        if message.role is not ChatRole.ASSISTANT or not (message.tool_calls or bad):
            turns.append(message)
            continue
        turn = _Turn(with_ids(message, str(message.meta.get("id") or f"call_{len(turns)}")))
        turns.append(turn)
        for old, new in zip([*message.tool_calls, *bad], [*turn.said.tool_calls, *bad], strict=True):
            fresh = opened.get(old.id, [])
            opened[old.id] = [*(pair for pair in fresh if pair[0] is turn), (turn, new)]
    last = next((t for t in reversed(turns) if not isinstance(t, ChatMessage) or t.role is ChatRole.ASSISTANT), None)
    return [m for turn in turns for m in (_flat(turn, waiting and turn is last) if isinstance(turn, _Turn) else [turn])]


def _sort_in(message: ChatMessage, opened: dict[str | None, list[tuple[_Turn, ToolCall]]]) -> None:
    """Give a message of results to the turns that wait for them; what nobody waits for is dropped."""
    found: dict[int, tuple[_Turn, list[ToolCallResult]]] = {}
    for result in message.tool_call_results:
        pairs = opened.get(result.origin.id)
        if not pairs:
            continue
        turn, call = pairs.pop(0)
        named = call.id == result.origin.id and (result.origin.tool_name or not call.tool_name)
        same = result if named else replace(result, origin=call)
        found.setdefault(id(turn), (turn, []))[1].append(same)
    number = 0
    for turn, results in found.values():
        together = _follow_each_other(turn, results)
        for part in [tuple(results)] if together else [(result,) for result in results]:
            kept = len(part) == len(message.parts) and all(a is b for a, b in zip(part, message.parts, strict=True))
            meta = message.meta if number == 0 else {k: v for k, v in message.meta.items() if k != "id"}
            answer = message if kept else ChatMessage(ChatRole.TOOL, part, message.name, meta)
            turn.answers.update((result.origin.id, answer) for result in part)
            number += 1


def _follow_each_other(turn: _Turn, results: list[ToolCallResult]) -> bool:
    """Tell whether results answer calls of the turn that stand side by side, in their order."""
    calls, ids = [call.id for call in turn.said.tool_calls], [result.origin.id for result in results]
    start = calls.index(ids[0]) if ids[0] in calls else 0
    return len(ids) == 1 or calls[start : start + len(ids)] == ids


def _flat(turn: _Turn, waiting: bool) -> Iterator[ChatMessage]:
    yield turn.said
    calls = {call.id: call for call in turn.said.tool_calls}
    given: set[int] = set()
    for known in (*(known for known in turn.answers if known not in calls), *calls):  # first those of unread calls
        answer = turn.answers.get(known)
        if answer is None and not waiting:
            yield ChatMessage.from_tool(say("not_run"), calls[known], error=True)
        elif answer is not None and id(answer) not in given:
            given.add(id(answer))
            yield answer
