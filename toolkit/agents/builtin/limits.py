"""Stop a run after so many model or tool calls: ModelCallLimit, ToolCallLimit.

The run's count starts anew with each run; the thread's count is a state field, so it goes on where a run is given
the state of the one before (`agent.run(trace)` or `agent.run({"messages": …, "thread_model_calls": 3})`).
Not here: the agent's own limits (`max_model_calls`), which raise.
"""

from __future__ import annotations

from typing import Any

from toolkit.agents.builtin.history import last_calls
from toolkit.agents.middleware import AgentMiddleware, AgentState, Update, hook_config
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import StateField
from toolkit.agents.wording import say
from toolkit.errors import ConfigError, LimitError, check_number, check_word
from toolkit.messages import ChatMessage, ToolCall

_MODEL_CALLS = {
    "model_calls_before": StateField(default=0, private=True),
    "thread_model_calls": StateField(default=0),
}
_TOOL_CALLS = {"run_tool_calls": StateField(default=dict, private=True), "thread_tool_calls": StateField(default=dict)}


class CallLimit(AgentMiddleware):
    """Hold the limits of either kind; see `ModelCallLimit` and `ToolCallLimit`."""

    ways: tuple[str, ...]  # what may be asked for at the limit; the first is the default

    def __init__(
        self, *, run_limit: int | None = None, thread_limit: int | None = None, exit_behavior: str | None = None
    ) -> None:
        if run_limit is None and thread_limit is None:
            raise ConfigError("Give run_limit, thread_limit or both.")
        check_number("run_limit", run_limit, optional=True)
        check_number("thread_limit", thread_limit, optional=True)
        check_word("exit_behavior", exit_behavior or self.ways[0], self.ways)
        self.run_limit, self.thread_limit, self.exit_behavior = run_limit, thread_limit, exit_behavior or self.ways[0]


class ModelCallLimit(CallLimit):
    """Stop before a model call that would be one too many, also where a later hook jumps back to the model.

    >>> import toolkit as tk
    >>> model = tk.ScriptedModel([tk.ToolCall("now", {}), "never said"])
    >>> def now() -> str:
    ...     '''Tell the time.'''
    ...     return "noon"
    >>> tk.Agent(model, tools=[now], middleware=[ModelCallLimit(run_limit=1)]).run("time?").text
    'Stopped: all 1 model calls are used up.'

    Args:
        run_limit: calls in one run.
        thread_limit: calls over runs that hand on their state.
        exit_behavior: "end" ends with a message that says so; "error" raises `LimitError`.

    Raises:
        ConfigError: no limit, or an unknown exit_behavior.
    """

    ways = ("end", "error")
    state_schema = _MODEL_CALLS

    def before_agent(self, state: AgentState, runtime: Runtime) -> Update:
        """Note what earlier runs used."""
        return {"model_calls_before": state["thread_model_calls"]}

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Stop if a limit is reached; else count a call that `after_model` did not see, since a later hook jumped."""
        counted = self._counted(state, runtime)
        used = ((self.run_limit, runtime.model_calls), (self.thread_limit, counted["thread_model_calls"]))
        for limit, count in used:
            if limit is None or count < limit:
                continue
            text = say("model_limit", limit=limit)
            if self.exit_behavior == "error":
                raise LimitError(text)
            return {**counted, "jump_to": "end", "messages": [ChatMessage.from_assistant(text)]}
        return counted if counted["thread_model_calls"] != state["thread_model_calls"] else None

    def after_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Count the call; a second such limit writes the same number."""
        return self._counted(state, runtime)

    def after_agent(self, state: AgentState, runtime: Runtime) -> Update:
        """Count a last call after which another hook jumped."""
        return self._counted(state, runtime)

    def _counted(self, state: AgentState, runtime: Runtime) -> dict[str, int]:
        return {"thread_model_calls": state["model_calls_before"] + runtime.model_calls}


class ToolCallLimit(CallLimit):
    """Refuse tool calls above a number, for one tool or for all together.

    >>> import toolkit as tk
    >>> def now() -> str:
    ...     '''Tell the time.'''
    ...     return "noon"
    >>> model = tk.ScriptedModel([tk.ToolCall("now", {}), tk.ToolCall("now", {}), "It is noon."])
    >>> trace = tk.Agent(model, tools=[now], middleware=[ToolCallLimit(run_limit=1)]).run("time?")
    >>> [result.error for result in trace.tool_results]
    [False, True]

    Args:
        tool_name: the tool to count; None counts all.
        run_limit: calls in one run.
        thread_limit: calls over runs that hand on their state.
        exit_behavior: "continue" answers surplus calls with an error, "end" also ends the run, "error" raises
            `LimitError` before any call of the turn runs.

    Raises:
        ConfigError: no limit, a run_limit above the thread_limit, or an unknown exit_behavior.
    """

    ways = ("continue", "end", "error")
    may_be_numbered = needs_tools = True
    state_schema = _TOOL_CALLS

    def __init__(
        self,
        *,
        tool_name: str | None = None,
        run_limit: int | None = None,
        thread_limit: int | None = None,
        exit_behavior: str | None = None,
    ) -> None:
        super().__init__(run_limit=run_limit, thread_limit=thread_limit, exit_behavior=exit_behavior)
        self.tool_name = tool_name
        self.tools_named = (tool_name,) if tool_name else ()
        if run_limit is not None and thread_limit is not None and run_limit > thread_limit:
            raise ConfigError(f"run_limit {run_limit} is above thread_limit {thread_limit}. Give one that is not.")

    @property
    def name(self) -> str:
        """Return a name that tells limits of different tools apart."""
        return f"ToolCallLimit[{self.tool_name}]" if self.tool_name else "ToolCallLimit"

    @hook_config(can_jump_to=["end"])
    def after_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Let calls pass up to the limit and answer the rest."""
        calls = last_calls(state["messages"])
        if not calls:
            return None
        mine = [call for call in calls if self.tool_name in (None, call.tool_name)]
        key = f"{self.tool_name or '*'} {self.run_limit}/{self.thread_limit}"  # two limits count apart
        run, thread = state["run_tool_calls"].get(key, 0), state["thread_tool_calls"].get(key, 0)
        limits = [(n, used) for n, used in ((self.run_limit, run), (self.thread_limit, thread)) if n is not None]
        room = max(0, min(limit - used for limit, used in limits))
        over = len(mine) > room
        text = say("tool_limit", name=self.tool_name or "", limit=min(limit for limit, _ in limits)) if over else ""
        if over and self.exit_behavior == "error":
            raise LimitError(text)
        ran = 0 if over and self.exit_behavior == "end" else len(mine[:room])
        counted = {
            "run_tool_calls": {**state["run_tool_calls"], key: run + len(mine)},
            "thread_tool_calls": {**state["thread_tool_calls"], key: thread + ran},
        }
        return {**counted, **self._answer(calls, mine[room:], text)} if over else counted

    def _answer(self, calls: list[ToolCall], refused: list[ToolCall], text: str) -> dict[str, Any]:
        answers = [ChatMessage.from_tool(text, call, error=True) for call in refused]
        if self.exit_behavior != "end":
            return {"messages": answers}
        others = [call for call in calls if not any(call is other for other in refused)]
        answers += [ChatMessage.from_tool(say("not_run"), call, error=True) for call in others]
        return {"messages": [*answers, ChatMessage.from_assistant(text)], "jump_to": "end"}
