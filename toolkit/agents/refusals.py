"""Answer calls that are not run: those against the tool choice, and those that could not be read.

Not here: when this is done (`toolkit.agents.loop`), calls of tools that were not offered (`toolkit.agents.tool_calls`).
"""

from __future__ import annotations

from typing import Any

from toolkit.agents.pairs import with_calls
from toolkit.agents.run import Run
from toolkit.agents.tool_calls import error_message
from toolkit.agents.wording import say
from toolkit.messages import ChatMessage, TextContent, ToolCall
from toolkit.prompting.disarming import disarming


def police(run: Run, turn: ChatMessage) -> None:
    """Answer calls that are against the tool choice with the reason."""
    answered = run.state.answered(turn)
    wanted, names = run.choice.wanted, {tool.name for tool in run.extra}
    calls = [c for c in turn.tool_calls if c.id not in answered and c.tool_name not in names]
    refusals = []
    allowed = 0
    for call in calls:
        text = _objection(run, call, wanted, allowed)
        if text is None:
            allowed += 1
            continue
        refusals.append(error_message(call, text))
        run.trace.record("refused", reason="tool_choice", call=call)
    if allowed:
        run.obeyed = True
    if refusals:
        run.state.insert_after(turn, refusals)
    run.last_turn = turn if refusals and calls and not allowed else None


def _objection(run: Run, call: ToolCall, wanted: str, allowed: int) -> str | None:
    if run.offered is None:  # no model was asked for this turn; a middleware wrote it
        return None
    if wanted == "none":
        return say("forbidden_call")
    if wanted not in ("auto", "any", call.tool_name):
        return say("wrong_tool", name=call.tool_name, wanted=wanted)
    if run.choice.single and allowed:
        return say("surplus_call", name=call.tool_name)
    return None


def _invalid_calls(turn: ChatMessage) -> list[tuple[ToolCall, dict[str, Any]]]:
    return [(ToolCall(bad.get("name") or "", {}, bad.get("id")), bad) for bad in turn.meta.get("invalid_calls", ())]


def _invalid(bad: dict[str, Any]) -> str:
    return say("invalid_call", reason=bad.get("reason") or bad.get("error") or "it is no valid JSON")


def answer_unread(run: Run) -> None:
    """Put the reason right after each turn whose calls could not be read, before the model is asked again.

    A server of the native arm takes only a result whose call stands in the history (Source: pydantic-ai#4430), so the
    call is put there without arguments. What has no name is told as the user. Tokens in the text of a call that broke
    would break each later prompt too, so they are disarmed (Source: opencode#37297).
    """
    for turn in [m for m in run.state.messages if m.meta.get("invalid_calls")]:
        answered = run.state.answered(turn)
        unread = [(call, _invalid(bad)) for call, bad in _invalid_calls(turn) if call.id not in answered]
        texts = [error_message(call, text) for call, text in unread]
        for text in texts:
            run.trace.record("refused", reason="invalid_call", result=text.tool_call_result)
        if run.unread_answered or not unread:
            run.state.insert_after(turn, texts)
            continue
        known = {call.id for call in turn.tool_calls}
        named = [call for call, _ in unread if call.tool_name and call.id not in known]
        whole = with_calls(turn, [*turn.tool_calls, *named])
        disarm = disarming(())
        parts = tuple(TextContent(disarm(one.text)) if isinstance(one, TextContent) else one for one in whole.parts)
        run.state.put(ChatMessage(whole.role, parts, whole.name, {**turn.meta, "invalid_calls": []}))
        said = [ChatMessage.from_user(text) for call, text in unread if call not in named]
        place = next(m for m in run.state.messages if m.meta.get("id") == turn.meta["id"])
        run.state.insert_after(place, [*(error_message(c, t) for c, t in unread if c in named), *said])
