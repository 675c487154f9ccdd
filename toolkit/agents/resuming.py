"""Where does a run begin that goes on from another? Start, and what people decided meanwhile.

    agent.run("Pay 900", trace_file="run.jsonl")              # with HumanApproval(ask="pause") it stops before the call
    trace = Trace.load("run.jsonl")                           # tomorrow, in another process
    agent.run(trace, decisions={trace.pending[0].id: "yes"})  # or "no: why", "respond: text", {"amount": 50}

The same goes for a run that was killed: results that were there are kept, and the calls without one are run. But: a
call whose tool was at work is not run again if the tool is no mere reader (`Tool.effect`); the model is told so.
Not here: pausing (`toolkit.agents.requests.Pause`), what an answer may be (`toolkit.execution.approval`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.agents.pairs import with_calls, with_ids
from toolkit.agents.wording import say
from toolkit.errors import ConfigError
from toolkit.execution.approval import Decision
from toolkit.messages import ChatMessage, ChatRole, ToolCall, as_messages
from toolkit.traces import Event, Trace, unanswered


@dataclass(slots=True)
class Start:
    """Hold the input of a run.

    Attributes:
        state: the input state, with `messages`.
        stage: where it goes on; see `Trace.next_stage`.
        approved: ids of calls that may run without another question.
        updates: changes of the state that came with results before a crash, and are not in it yet.
    """

    state: Mapping[str, Any]
    stage: str = "model"
    approved: frozenset[str | None] = frozenset()
    updates: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, question: Any, state: Mapping[str, Any], decisions: Any = None) -> Start:
        """Return the start for whatever `Agent.run` was given.

        Raises:
            ConfigError: decisions about calls that do not wait.
        """
        stage, updates = "model", tuple[Mapping[str, Any], ...]()
        if isinstance(question, Trace):
            late = _cut_off(question)
            updates = tuple(event.data["update"] for event in late if event.data.get("update"))
            messages = [*question.messages, *([] if decisions is not None else _in_doubt(question, late))]
            given, stage = {**question.state, "messages": messages, **state}, question.next_stage
        elif isinstance(question, Mapping) and "role" not in question and "_role" not in question:
            given = {"messages": [], **question, **state}
        else:
            given = {"messages": as_messages(question), **state}
        if decisions is None:
            return cls(given, stage, updates=updates)
        messages, approved = _decided(as_messages(given["messages"]), decisions)
        return cls({**given, "messages": messages}, stage, approved, updates)


def _cut_off(trace: Trace) -> list[Event]:
    """Return what happened in the turn whose calls were at work when the process was killed."""
    if trace.stop_reason != "unfinished" or trace.next_stage != "tools":
        return []
    replies = [n for n, event in enumerate(trace.events) if event.kind == "model_reply" and event.source == "agent"]
    return trace.events[replies[-1] if replies else 0 :]


def _in_doubt(trace: Trace, late: list[Event]) -> list[ChatMessage]:
    """Return answers for calls that were at work, so that nothing is paid twice.

    Source: agent-framework#3938, leviath#96.
    """
    begun = {event.data["id"] for event in late if event.kind == "started"}
    return [ChatMessage.from_tool(say("in_doubt"), call, error=True) for call in trace.pending if call.id in begun]


def _decided(messages: list[ChatMessage], decisions: Any) -> tuple[list[ChatMessage], frozenset[str | None]]:
    """Return the history with what was decided about the calls at its end, and the ids of those that may run."""
    place = next((n for n in reversed(range(len(messages))) if messages[n].is_from(ChatRole.ASSISTANT)), 0)
    if unanswered(messages):
        messages[place] = with_ids(messages[place], "call")
    calls = unanswered(messages)
    known = [call.id for call in calls]
    answers = decisions if isinstance(decisions, Mapping) else dict.fromkeys(known, decisions)
    if not calls or (strange := [key for key in answers if key not in known]):
        wrong = f"Nobody waits for a decision about {strange[0]!r}." if calls else "No call waits for a decision."
        raise ConfigError(f"{wrong} Give decisions={{call id: answer}}; {len(calls)} wait: {known}.")
    edited: dict[str | None, ToolCall] = {}
    approved: set[str | None] = set()
    for call in calls:
        if call.id in answers:
            decision = Decision.of(answers[call.id])
            if decision.kind in ("approve", "edit"):
                approved.add(call.id)
            if decision.kind == "edit":
                edited[call.id] = ToolCall(call.tool_name, dict(decision.arguments or {}), call.id)
            elif (said := answer_of(decision, call)) is not None:
                messages.append(said)
    turn = messages[place]
    messages[place] = with_calls(turn, [edited.get(call.id, call) for call in turn.tool_calls])
    return messages, frozenset(approved)


def answer_of(decision: Decision, call: ToolCall) -> ChatMessage | None:
    """Return what answers a call in the tool's place; None where the tool is to run."""
    if decision.kind == "reject":
        return ChatMessage.from_tool(say("rejected", reason=decision.text), call, error=True)
    return ChatMessage.from_tool(decision.text, call) if decision.kind == "respond" else None
