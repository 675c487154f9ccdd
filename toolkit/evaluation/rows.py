"""Turn what came of one request or run into one row of a result: head, facts.

Not here: tables of rows (`toolkit.evaluation.results`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from toolkit.asking import Asked
from toolkit.evaluation.cases import Case
from toolkit.evaluation.trajectories import answer_of, calls_made, replies_in
from toolkit.messages import ToolCall
from toolkit.models.base import Reply
from toolkit.recipes import Recipe
from toolkit.traces import Trace

Row = dict[str, Any]

# what servers tell of a reply, or not
_SAID = (
    "prompt_tokens", "cached_tokens", "completion_tokens", "queue_seconds", "prompt_seconds", "write_seconds"
)  # fmt: skip
NO_FACTS: Row = {
    **dict.fromkeys(("calls", "status", "read_from", "syntax", "repairs", "text", "finish_reason", "disarmed"), ""),
    **dict.fromkeys(_SAID),
    **dict.fromkeys(("seconds", "load_seconds"), 0.0),
    "from_store": False,
}


def head(recipe: Recipe, case: Case, repeat: int) -> Row:
    """Return what was asked, and how."""
    return {
        "recipe": recipe.name,
        "recipe_hash": recipe.hash,
        "model": recipe.model,
        "arm": recipe.arm,
        "protocol": "" if recipe.arm == "native" else recipe.loaded_protocol.name,
        "case": case.id,
        "domain": case.domain,
        "tags": " ".join(case.tags),
        "repeat": repeat,
        "expects_call": case.expects_call,
        "question": case.question,
        "expected": _as_text(case.expect if case.scenario else list(case.calls))
        if case.scenario or case.calls
        else "no call",
    }


def facts_of_reply(asked: Asked) -> Row:
    """Return what one reply held and cost."""
    reply, found = asked.reply, asked.extraction
    return {
        "calls": _calls(found.calls),
        "status": found.status,
        "read_from": found.read_from,
        "syntax": " ".join(dict.fromkeys(call.syntax for call in found.calls)),
        "repairs": " ".join(found.repairs),
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "disarmed": sent_as(asked.disarmed),
        **_costs([reply]),
    }


def facts_of_run(trace: Trace) -> Row:
    """Return what a run did and cost; tokens and seconds are sums over its model calls."""
    made, replies = calls_made(trace), replies_in(trace)
    found = [event.data.get("extraction") for event in trace.of_kind("model_reply")]
    read = [extraction for extraction in found if extraction is not None]
    return {
        "calls": _calls([result.origin for result in made]),
        "status": "called" if made else "abstained",
        "read_from": " ".join(dict.fromkeys(extraction.read_from for extraction in read if extraction.calls)),
        "syntax": " ".join(dict.fromkeys(call.syntax for extraction in read for call in extraction.calls)),
        "repairs": " ".join(dict.fromkeys(repair for extraction in read for repair in extraction.repairs)),
        "text": answer_of(trace),
        "finish_reason": replies[-1].finish_reason if replies else "",
        "disarmed": "",
        **_costs(replies),
        "requests": len(replies),
        "trajectory": _as_text(
            [{**_call(done.origin), "error" if done.error else "result": str(done.result)} for done in made]
        ),
        "stop_reason": trace.stop_reason,
    }


def sent_as(disarmed: Sequence[tuple[str, str]]) -> str:
    """Return the texts that were sent otherwise than they were given, as they were sent."""
    return "\n".join(sent for _, sent in disarmed)


def _call(call: ToolCall) -> Row:
    return {"name": call.tool_name, "arguments": call.arguments}


def _calls(calls: Sequence[ToolCall]) -> str:
    return _as_text(list(map(_call, calls))) if calls else ""


def _costs(replies: Sequence[Reply]) -> Row:
    row: Row = {}
    for key in _SAID:  # None where the server said nothing
        known = [count for reply in replies if (count := getattr(reply, key)) is not None]
        row[key] = sum(known) if known else None
    row["seconds"] = sum(reply.seconds for reply in replies)
    row["load_seconds"] = sum(reply.load_seconds for reply in replies)
    return {**row, "from_store": bool(replies) and all(reply.from_store for reply in replies)}


_as_text = json.JSONEncoder(ensure_ascii=False).encode  # making one takes as long as using it


def storable(row: Row) -> Row:
    """Replace lone surrogates, which a model can write and no table can hold."""
    odd = {k: v for k, v in row.items() if type(v) is str and not v.isascii()}
    return {**row, **{k: v.encode("utf-8", "replace").decode() for k, v in odd.items()}}
