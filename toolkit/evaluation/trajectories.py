"""Give the verdict on a whole run: score_run.

Three parts are looked at, as far as the case asks: the calls made, the final state, the final answer. All must be
right. The outcomes are those of single requests:

    right_call        all parts are right
    wrong_call        calls were made, and a part is wrong; or a limit was used up, or a tool's error ended the run
    broken_call       the run ended in a call that could not be read
    right_abstention  nothing was to be changed, nothing was, and the answer is right
    wrong_abstention  no call was made though something was to be done; or only the answer is wrong where nothing was
    overflow, degenerate, server_fault    as for single requests

Pure: works on traces from files too. Not here: single requests (`toolkit.evaluation.scoring`), playing a case
(`toolkit.evaluation.play`).
"""

from __future__ import annotations

from typing import Any

from toolkit.evaluation.cases import Case
from toolkit.evaluation.matching import describe, matches, state_differences
from toolkit.evaluation.scenarios import Scenario
from toolkit.evaluation.scoring import LEFT_OUT, Verdict, call_differences, degenerate
from toolkit.messages import ToolCall, ToolCallResult
from toolkit.models.base import Reply
from toolkit.traces import Trace


def calls_made(trace: Trace) -> list[ToolCallResult]:
    """Return every call that was begun, each with its result; an error where the run ended in it.

    Calls of one turn stand in the order in which the model wrote them, also where they ran at once.
    """
    made: list[tuple[tuple[int, int], ToolCallResult]] = []  # ((turn, place in it), result)
    at: dict[Any, int] = {}  # number and id of a call -> where it is; numbers come again in the user's next turn
    turn = 0
    ids: list[str | None] = []  # of the turn's calls
    for event in trace.events:
        if event.kind == "model_reply" and event.data.get("calls"):
            turn, ids = turn + 1, [_call(call).id for call in event.data["calls"]]
        elif event.kind == "tool_call":
            call = _call(event.data["call"])
            at[event.data["number"], call.id] = len(made)
            place = ids.index(call.id) if call.id in ids else len(ids)
            made.append(((turn, place), ToolCallResult("", call, error=True)))
        elif event.kind == "tool_result" and event.data.get("result") is not None:
            result = _result(event.data["result"])
            where = at[event.data["number"], result.origin.id]
            made[where] = made[where][0], result
    return [result for _, result in sorted(made, key=lambda one: one[0])]


def _call(value: Any) -> ToolCall:
    return value if isinstance(value, ToolCall) else ToolCall.from_dict(value)


def _result(value: Any) -> ToolCallResult:
    return value if isinstance(value, ToolCallResult) else ToolCallResult.from_dict(value)


def replies_in(trace: Trace, source: str | None = None) -> list[Reply]:
    """Return every reply of the run, in order; of one source, such as "agent", where that is given."""
    events = [event for event in trace.of_kind("model_reply") if source in (None, event.source)]
    found = [event.data.get("reply") for event in events]
    return [reply if isinstance(reply, Reply) else Reply.from_dict(reply) for reply in found if reply is not None]


def answer_of(trace: Trace) -> str:
    """Return what the user reads at the end: the last words, or the result of a tool that returns directly."""
    if trace.stop_reason == "return_direct" and trace.tool_results:
        return str(trace.tool_results[-1].result)
    return trace.text


def score_run(case: Case, trace: Trace, state: Any) -> Verdict:
    """Give the verdict on a run.

    Args:
        case: what was to be done; its tools say which of them only read.
        trace: the run, all turns of the user in one.
        state: the final state of the world.
    """
    made, said = calls_made(trace), answer_of(trace)
    # a single request may be run as a whole too
    asks = case.scenario or Scenario(further="reads" if case.calls else "none")
    answered = [] if matches(asks.answer, said) else [f"expected {describe(asks.answer)}, got {said[:200]!r}"]
    wrong = {
        "calls": _wrong_calls(case, asks.further, made),
        "state": None if asks.state is None else state_differences(asks.state, state),
        "answer": None if asks.answer is None else answered,
    }
    parts = {f"{part}_right": None if found is None else not found for part, found in wrong.items()}
    ended = _end(trace, made)
    if ended is not None:
        return Verdict(ended.outcome, ended.detail, dict.fromkeys(parts) if ended.outcome in LEFT_OUT else parts)
    first = next((f"{part}: {'; '.join(found)}" for part, found in wrong.items() if found), None)
    if first is None:
        return Verdict("right_call" if case.expects_call else "right_abstention", "", parts)
    acted = bool(made) if case.expects_call else bool(wrong["calls"] or wrong["state"])
    return Verdict("wrong_call" if acted else "wrong_abstention", first, parts)


def _wrong_calls(case: Case, further: str, made: list[ToolCallResult]) -> list[str] | None:
    if not case.calls and further == "any":
        return None
    made = sorted(made, key=lambda result: result.error)  # an expected call is first sought among those that worked
    tools = {tool.name: tool for tool in case.tools}
    spare = set()
    for place, result in enumerate(made):
        tool = tools.get(result.origin.tool_name)
        changed = not result.error and tool is not None and tool.effect != "reads"
        if further == "any" or (further == "reads" and not changed):
            spare.add(place)
    return call_differences(case.calls, [result.origin for result in made], tools, spare)


def _end(trace: Trace, made: list[ToolCallResult]) -> Verdict | None:
    """Return the verdict where the run did not come to an answer."""
    error, last = trace.error or "", next(reversed(replies_in(trace, "agent")), Reply())
    if error.startswith("LimitError:"):
        return Verdict("wrong_call" if made else "wrong_abstention", f"limit: {error}")
    if error and tool_raised(trace):
        return Verdict("wrong_call", f"calls: a tool's error ended the run: {error}")
    acted = any(event.data.get("calls") for event in trace.of_kind("model_reply")[-1:])
    if last.fault and last.fault.kind != "parse" and not (acted and last.fault.kind == "schema_not_honoured"):
        kind, message = last.fault.kind, last.fault.message
        return Verdict("overflow", message) if kind == "overflow" else Verdict("server_fault", f"{kind}: {message}")
    if error:
        return Verdict("server_fault", error)
    if trace.stop_reason == "invalid_calls":
        return Verdict("broken_call", f"answer: a call that cannot be read: {trace.text[:200]!r}")
    if not made and trace.of_kind("model_reply") and (found := degenerate(last)):
        return Verdict("degenerate", found)
    return None


def tool_raised(trace: Trace) -> bool:
    """Tell whether a run ended in the middle of a call."""
    return len(trace.of_kind("tool_call")) > len(trace.of_kind("tool_result"))
