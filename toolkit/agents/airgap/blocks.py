"""How are tool results written down so that no user and no tool can forge them, or forge a call?

Each result is one JSON line in a block that opens and closes with a token. The token is a digest of the
conversation up to the user's last words: a text cannot hold its own digest, and the same conversation gives the same
token, so recordings replay and the prefix cache holds. The words stand in `prompts/airgap_chat/`.

Not here: the rounds themselves (`toolkit.agents.airgap.rounds`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from toolkit import resources
from toolkit.extraction.types import ExtractedCall, Extraction, Rejected
from toolkit.messages import ChatMessage, ChatRole, ToolCallResult
from toolkit.prompting import templates
from toolkit.prompting.disarming import SEALED, Disarming

_FENCE = re.compile(r"^[ \t]*(```|~~~)[\s\S]*?(?:^[ \t]*\1|\Z)", re.MULTILINE)
_REPAIR = "airgap_repair"  # key in a message's meta: our own words about a reply that could not be read


def run_token(history: Iterable[ChatMessage]) -> str:
    """Return the token of the run that this conversation starts: 16 hex digits of its digest."""
    said = json.dumps([[str(m.role), m.texts, [c.id for c in m.tool_calls]] for m in history], ensure_ascii=False)
    return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()[:16]


def repair_message(reason: str) -> ChatMessage:
    """Return the message that tells the model why its reply was no call."""
    return ChatMessage.from_user("", meta={_REPAIR: reason})


def as_turns(history: Sequence[ChatMessage], disarm: Disarming, limit: int, last: bool = False) -> list[ChatMessage]:
    """Return the conversation with results as blocks, and with nothing that passes for a block in users' words.

    Args:
        history: the conversation; results of neighbouring calls share one turn.
        disarm: what takes calls and blocks out of results; the protocol does so in users' words.
        limit: most characters of one result's JSON.
        last: whether the model must answer now, without another call.
    """
    turns: list[ChatMessage] = []
    token, place = run_token(()), 0
    while place < len(history):
        message = history[place]
        end = place + 1
        if message.is_from(ChatRole.TOOL):
            while end < len(history) and history[end].is_from(ChatRole.TOOL):
                end += 1
            results = [result for item in history[place:end] for result in item.tool_call_results]
            items = [item_of(result, disarm, limit) for result in results]
            turns.append(_block(items, token, last and end == len(history)))
        elif _REPAIR in message.meta:
            item = {"error": disarm(message.meta[_REPAIR])}
            turns.append(_block([item], token, repair=True))
        else:
            if message.is_from(ChatRole.USER):
                token = run_token(history[:end])
            turns.append(message)
        place = end
    return turns


def _block(items: list[dict[str, Any]], token: str, last: bool = False, repair: bool = False) -> ChatMessage:
    path = resources.path("prompts/airgap_chat/tool_results.jinja")
    values = {"items": items, "token": token, "last": last, "repair": repair}
    text = templates.fill(path.read_text("utf-8"), values, str(path)).strip()
    return ChatMessage.from_user(text, dict(SEALED))


def item_of(result: ToolCallResult, disarm: Disarming, limit: int) -> dict[str, Any]:
    """Return one result as the object that its block shows.

    Text that holds a JSON object or list is shown as such, or as text if it reads as a call; a result over the limit is
    cut and says so.
    """
    value = disarm.value(_decoded(result.result))
    text = templates.as_json(value)
    if not isinstance(value, str) and (disarmed := disarm.json(value)) != text:
        value = text = disarmed
    key = "error" if result.error else "result"
    item: dict[str, Any] = {"tool": disarm(result.origin.tool_name), key: value}
    if len(text) > limit:
        start = value if isinstance(value, str) else text
        item[key] = start[:limit]
        item["cut"] = f"{limit} of {len(start)} characters shown"
    return item


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return json.loads(templates.as_json(value))
    try:
        found = json.loads(value, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, (dict, list)) else value


def without_quoted(found: Extraction, history: Iterable[ChatMessage]) -> Extraction:
    """Take out the calls that the reply copied, marker and all, from a user's or a tool's text."""
    foreign = [_squeezed(text) for m in history for text in _foreign_texts(m)]
    quoted = [call for call in found.calls if any(_squeezed(_source(found, call)) in text for text in foreign)]
    left = _turned_down(found, quoted, "quoted", "the call was copied from the user's text or a result")
    return left if left.calls or not quoted else replace(left, status="broken")


def without_fenced(found: Extraction) -> Extraction:
    """Take out the calls in code fences, as examples stand there; without other calls the reply is the answer."""
    fences = [match.span() for match in _FENCE.finditer(found.source)]
    fenced = [c for c in found.calls if any(start < c.span[1] and c.span[0] < end for start, end in fences)]
    left = _turned_down(found, fenced, "fenced", "it stands in a code fence")
    return left if left.calls or not fenced else replace(left, text=found.source, status="abstained")


def _turned_down(found: Extraction, calls: Sequence[ExtractedCall], reason: str, detail: str) -> Extraction:
    gone = {id(call) for call in calls}
    rejected = [Rejected(call.span, call.syntax, reason, detail, call.tool_name) for call in calls]
    kept = tuple(call for call in found.calls if id(call) not in gone)
    return replace(found, calls=kept, rejected=(*found.rejected, *rejected)) if gone else found


def _foreign_texts(message: ChatMessage) -> list[str]:
    if message.is_from(ChatRole.USER):
        return message.texts
    return [str(result.result) for result in message.tool_call_results]


def _source(found: Extraction, call: ExtractedCall) -> str:
    start, end = call.span
    return found.source[start:end] or "\0"  # a native call has no text that could have been copied


def _squeezed(text: str) -> str:
    return "".join(text.split()).casefold()
