"""Decide what an agent does next: one generator without I/O.

It yields what is to be done and receives what came of it:

    RunHook(hook, given)     -> what the hook returned
    CallModel(request)       -> ModelResponse; commands of the wrappers are in `run.commands`
    RunTools(calls)          -> one outcome a call, in the order of the calls: its answer, or what it raised; none
                                behind one that raised, where calls run one by one

Stages are named as jumps are: "model" is one turn, from the first before_model on; "tools" runs the calls of the
last assistant message that have no result; "end" is the after_agent chain.
Not here: doing it (`toolkit.agents.performer`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from toolkit.agents.pairs import with_calls
from toolkit.agents.plan import Hook
from toolkit.agents.refusals import answer_unread, police
from toolkit.agents.repeats import same_call
from toolkit.agents.requests import Command, ModelRequest, Pause, ToolAnswer
from toolkit.agents.run import Run
from toolkit.agents.state import RemoveMessage
from toolkit.agents.turns import AUTO
from toolkit.agents.wording import say
from toolkit.errors import AgentError, UpdateError
from toolkit.messages import ChatMessage, ToolCall, ToolCallResult
from toolkit.traces import Trace, unanswered


@dataclass(slots=True)
class RunHook:
    """Want one hook run, with what it is given."""

    hook: Hook
    given: tuple[Any, ...]


@dataclass(slots=True)
class CallModel:
    """Want a model called, through the wrappers."""

    request: ModelRequest


@dataclass(slots=True)
class RunTools:
    """Want calls run, each through the wrappers."""

    calls: list[ToolCall]


Step = RunHook | CallModel | RunTools
Stage = Generator[Step, Any, str | None]


def agent_steps(run: Run, given: Mapping[str, Any]) -> Generator[Step, Any, Trace]:
    """Yield the steps of a run and return its finished trace; whatever fails is told to the error hooks and noted.

    Args:
        run: the run.
        given: the input state.

    Raises:
        LimitError: a limit is used up.
        UpdateError: a hook, wrapper or tool returned something unusable.
    """
    try:
        run.start(given)
        chains = run.chains
        stage = (yield from _chain(run, chains.before_agent)) if chains.before_agent else None
        stage = stage or ((yield from _first(run)) if unanswered(run.state.messages) else "model")
        while stage != "over":
            if stage == "model":
                jump = (yield from _chain(run, chains.before_model)) if chains.before_model else None
                stage = jump or (yield from _turn(run)) or "end"
            elif stage == "tools":
                stage = (yield from _tools(run)) or "model"
            else:
                stage = (yield from _chain(run, chains.after_agent)) or "over"
    except Pause:
        run.stop_reason = "paused"
    except GeneratorExit:  # dropped by its driver; no further step can be taken
        raise
    except BaseException as error:
        yield from _told(run, error)
        run.trace.next_stage = run.runtime.stage
        run.trace.fail(error, run.state.messages, run.state.output())
        raise
    run.trace.next_stage = run.runtime.stage if run.stop_reason == "paused" else "model"
    run.trace.finish(run.state.messages, run.stop_reason, run.state.output())
    return run.trace


def _told(run: Run, error: BaseException) -> Generator[Step, Any, None]:
    """Tell the error hooks what ended the run."""
    for hook in run.chains.on_error:
        try:
            yield RunHook(hook, (error, run.state.view(), run.runtime))
        except Exception as fault:  # of an error hook; it must not hide the error it was told of
            run.trace.record("error", hook.label, error=f"{type(fault).__name__}: {fault}")


def _chain(run: Run, hooks: tuple[Hook, ...]) -> Stage:
    """Run node hooks one by one; the first jump skips the rest."""
    for hook in hooks:
        state = run.state.view()
        if hook.when is not None and not hook.when(state):
            continue
        update = yield RunHook(hook, (state, run.runtime))
        if update is not None:
            jump = run.merge(update, hook.label, hook.targets)
            if jump is not None:
                run.stop_reason = "jump" if jump == "end" else run.stop_reason
                return jump
    return None


def _first(run: Run) -> Stage:
    """Tell where to begin: calls at the end of the given history are run, once `after_model` has seen them."""
    if run.runtime.stage != "tools" and run.chains.after_model:
        run.runtime.stage = "after_model"
        run.keep()
        return (yield from _chain(run, run.chains.after_model)) or "tools"
    return "tools"


def _turn(run: Run) -> Stage:
    """Ask the model once, run the after_model chain, and tell where to go."""
    run.check_limits()
    if run.state.any_invalid:
        answer_unread(run)
    if not run.state.in_order:
        run.pair()
    run.runtime.stage = "model"
    if run.trace.has_file:
        run.keep()
    run.stop_reason = "done"
    run.offered = None
    run.state.values.pop("structured_response", None)
    run.commands.clear()
    response = yield CallModel(run.request())
    jump = run.take(response)
    if not run.state.in_order:
        run.pair(waiting=True)
    if jump is None and run.chains.after_model:
        run.runtime.stage = "after_model"
        run.keep()
        jump = yield from _chain(run, run.chains.after_model)
    elif jump == "end":
        run.stop_reason = "jump"
    return jump if jump is not None else _exit(run)


def _exit(run: Run) -> str:
    """Tell where a turn leads (the order of the tests is part of the behaviour)."""
    turn = run.state.last_assistant()
    if turn is None:
        return "end"
    calls = run.called if turn is run.said else turn.tool_calls
    if not calls and not turn.meta.get("invalid_calls"):
        return _without_call(run, turn)
    if not (run.setup.plan.has_tools or run.answers):
        return "end"
    if run.choice is not AUTO:
        police(run, turn)
    run.calls = calls if run.state.messages[-1] is turn and not run.extra else pending(run, turn, calls)
    if run.calls:
        run.asked_again = 0
        return "tools"
    if _structured(run):
        return "end"
    if run.answers and calls and not _nothing_ran(run, turn):
        return _answer_again(run, turn)
    return _ask_again(run, "invalid_calls") if _nothing_ran(run, turn) else "model"


def _structured(run: Run) -> bool:
    return run.state.values.get("structured_response") is not None


def _without_call(run: Run, turn: ChatMessage) -> str:
    """End the run, or ask once more where a call, an answer in a given shape, or any answer at all is missing."""
    if run.offered is None or _structured(run):
        return "end"
    wanted = run.choice.wanted
    if run.answers:
        return _answer_again(run, turn, say("answer_needed", names=run.answers.names))
    if wanted not in ("auto", "none") and run.offered:
        return _ask_again(run, "tool_choice", say("call_needed", wanted="" if wanted == "any" else wanted))
    if (turn.text or "").strip():
        return "end"
    run.trace.record("refused", reason="empty_answer", number=run.runtime.model_calls)
    stage = _ask_again(run, "empty_answer", say("empty_answer"))
    if stage == "model":  # some servers refuse a turn that holds nothing
        run.state.add(RemoveMessage(turn.meta["id"]))
    return stage


def _answer_again(run: Run, turn: ChatMessage, text: str = "") -> str:
    """Ask again for the answer in its shape; the reason is `text`, or is in the results of the turn.

    Raises:
        AgentError: the agent is told to raise at once.
    """
    if run.settings.on_bad_answer == "raise":
        told = "; ".join(str(result.result) for m in run.state.after(turn) for result in m.tool_call_results)
        raise AgentError(f"The model gave no answer in the shape of response_format: {text or told}")
    return _ask_again(run, "response_format", text)


def _ask_again(run: Run, stop_reason: str, text: str = "") -> str:
    """Go round again with a reason, but only so often in a row."""
    if run.asked_again >= run.settings.max_reasks:
        run.stop_reason = stop_reason
        return "end"
    run.asked_again += 1
    if text:
        run.state.add([ChatMessage.from_user(text)])
    return "model"


def _nothing_ran(run: Run, turn: ChatMessage) -> bool:
    """Tell whether every call of the turn was unreadable or refused, so that only a reason was sent back."""
    refused = run.last_turn is turn
    return refused or (not turn.tool_calls and bool(turn.meta.get("invalid_calls")))


def pending(run: Run, turn: ChatMessage, calls: list[ToolCall]) -> list[ToolCall]:
    """Return those of a turn's calls that have no result yet; a denied call has one (Source: langchain#40492)."""
    if run.state.messages[-1] is not turn:
        answered = run.state.answered(turn)
        calls = [call for call in calls if call.id not in answered]
    if run.extra:
        names = {tool.name for tool in run.extra}
        calls = [call for call in calls if call.tool_name not in names]
    return calls


def _tools(run: Run) -> Stage:
    """Run the pending calls of the last assistant message and merge what came of them."""
    calls, run.calls = run.calls, []
    if not calls:  # a hook jumped here
        turn = run.state.last_assistant()
        if turn is None:
            raise UpdateError("A jump to 'tools' needs an assistant message with calls; the history has none.")
        calls = pending(run, turn, turn.tool_calls)
    if not calls:
        return "model"
    run.runtime.stage = "tools"
    if run.trace.has_file:
        run.keep()
    once = _distinct(calls) if run.settings.dedupe else calls
    outcomes = yield RunTools(once)
    jump = _merged(run, calls, outcomes if once is calls else _for_all(calls, once, outcomes))
    if run.repeats is not None:
        run.repeats.add(once, outcomes)
    if jump is not None:
        return jump
    if run.setup.plan.any_direct and _all_direct(run):
        run.stop_reason = "return_direct"
        return "end"
    return "end" if run.extra and _gave_answer(run) else "model"


def _merged(run: Run, calls: list[ToolCall], outcomes: list[ToolAnswer | BaseException]) -> str | None:
    """Put what came of the calls into the state, and return a jump; what one raised goes on when the others are in."""
    jump, failed = None, None
    for call, outcome in zip(calls, outcomes):  # noqa: B905 - one each; being strict costs more than the loop
        if type(outcome) is ChatMessage:
            run.state.put(outcome)
        elif isinstance(outcome, Command):
            jump = run.merge(outcome, f"Tool {call.tool_name!r}") or jump
        elif isinstance(outcome, BaseException):
            failed = outcome if failed is None or isinstance(failed, Pause) else failed
        else:
            run.state.add([outcome])
    if run.runtime.edits:
        _show_edits(run)
    if not run.state.in_order:
        run.pair(waiting=failed is not None)
    if failed is not None:
        raise failed
    return jump


def _show_edits(run: Run) -> None:
    """Put the calls that ran in the place of the model's, or it would take a result for that of its own call."""
    edits, turn = run.runtime.edits, run.state.last_assistant()
    if turn is not None:
        for answer in run.state.after(turn):
            parts = [
                replace(part, origin=edits.get(part.origin.id, part.origin))
                if isinstance(part, ToolCallResult)
                else part
                for part in answer.parts
            ]
            run.state.put(ChatMessage(answer.role, tuple(parts), answer.name, answer.meta))
        run.state.put(with_calls(turn, [edits.get(call.id, call) for call in turn.tool_calls]))
    edits.clear()


def _gave_answer(run: Run) -> bool:
    """Tell whether this turn held the structured answer too; beside a call that failed it does not count."""
    turn = run.state.last_assistant()
    if turn is None:
        return False
    names = {tool.name for tool in run.extra}
    results = [(call, result) for call in turn.tool_calls for result in run.state.results(turn, call)]
    return any(call.tool_name in names for call, _ in results) and not any(result.error for _, result in results)


def _distinct(calls: list[ToolCall]) -> list[ToolCall]:
    found: list[ToolCall] = []
    for call in calls:
        if not any(same_call(call, other) for other in found):
            found.append(call)
    return found


def _for_all(
    calls: list[ToolCall], once: list[ToolCall], outcomes: list[ToolAnswer | BaseException]
) -> list[ToolAnswer | BaseException]:
    """Return an outcome for each call; a call that was left out as a double gets the first one's result."""
    found: list[ToolAnswer | BaseException] = []
    for call in calls:
        place = next(n for n, other in enumerate(once) if same_call(call, other))
        if place >= len(outcomes):  # one before it raised
            break
        outcome = outcomes[place]
        if once[place] is not call and not isinstance(outcome, BaseException):
            result = outcome.tool_call_result if isinstance(outcome, ChatMessage) else None
            same = result.result if result else "Done by the identical call."
            outcome = ChatMessage.from_tool(same, call, bool(result and result.error))
        found.append(outcome)
    return found


def _all_direct(run: Run) -> bool:
    turn = run.state.last_assistant()
    if turn is None:
        return False
    known = run.setup.plan.by_name
    names = [(call.tool_name, _ran(run, turn, call)) for call in turn.tool_calls]
    ran = [known[name] for name in (ran if ran in known else called for called, ran in names) if name in known]
    return bool(ran) and all(tool.return_direct for tool in ran)


def _ran(run: Run, turn: ChatMessage, call: ToolCall) -> str:
    """Return the name of the tool that ran for a call; a wrapper may have put another in its place."""
    for message in run.state.after(turn):
        if message.meta.get("ran") and any(result.origin.id == call.id for result in message.tool_call_results):
            return str(message.meta["ran"])
    return call.tool_name
