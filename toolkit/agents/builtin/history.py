"""What was said last, and which messages belong together?

Not here: changing a history (`context_editing`, `summarization`).
"""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.messages import ChatMessage, ChatRole, ToolCall


def last_calls(messages: Sequence[ChatMessage]) -> list[ToolCall]:
    """Return the calls of the last assistant message."""
    return next((m.tool_calls for m in reversed(messages) if m.is_from(ChatRole.ASSISTANT)), [])


def last_question(messages: Sequence[ChatMessage]) -> str:
    """Return what the user said last; empty where nobody asked.

    >>> last_question([ChatMessage.from_user("Rain?"), ChatMessage.from_assistant("Yes.")])
    'Rain?'
    """
    return next((m.text or "" for m in reversed(messages) if m.is_from(ChatRole.USER)), "")


def asking(messages: Sequence[ChatMessage], place: int) -> int | None:
    """Return the place of the message whose calls the results at `place` answer.

    None where there is none: only the last assistant message before them counts.
    """
    said = (n for n in reversed(range(place)) if messages[n].is_from(ChatRole.ASSISTANT))
    before = next(said, None)
    if before is None:
        return None
    calls = {call.id for call in messages[before].tool_calls}
    return before if any(result.origin.id in calls for result in messages[place].tool_call_results) else None


def whole(messages: Sequence[ChatMessage], cut: int) -> int:
    """Return the cut moved so that no result loses its call: before the calls, or behind results of none."""
    while cut < len(messages) and messages[cut].is_from(ChatRole.TOOL):
        before = asking(messages, cut)
        if before is not None:
            return before
        cut += 1
    return cut
