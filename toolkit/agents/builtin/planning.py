"""Give the model a list of things to do, which it keeps itself: Planning.

Not here: a planner of our own; the list is the model's.
"""

from __future__ import annotations

from toolkit.agents.builtin.history import last_calls
from toolkit.agents.builtin.wrappers import ModelWrapper
from toolkit.agents.middleware import AgentState, Update
from toolkit.agents.requests import ModelRequest
from toolkit.agents.runtime import Runtime
from toolkit.agents.state import StateField
from toolkit.agents.wording import say
from toolkit.execution.state import State
from toolkit.messages import ChatMessage
from toolkit.tools import Tool

_PARAMETERS = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "description": "The whole list, in order.",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string", "description": "What is to be done."},
                    "status": {"enum": ["pending", "in_progress", "completed"]},
                },
                "required": ["content", "status"],
            },
        }
    },
    "required": ["todos"],
}


class Planning(ModelWrapper):
    """Offer a tool `write_todos` and keep its list in the state field `todos`.

    A list in the input is kept too, since so a thread hands it on (`agent.run(trace)`); of its items only what the
    tool declares is kept.

    >>> import toolkit as tk
    >>> call = tk.ToolCall("write_todos", {"todos": [{"content": "look", "status": "pending"}]})
    >>> trace = tk.Agent(tk.ScriptedModel([call, "done"]), middleware=[Planning()]).run("go")
    >>> trace.state["todos"]
    [{'content': 'look', 'status': 'pending'}]

    Args:
        system_prompt: put after the agent's own; by default `prompts/agents/planning.jinja`.
    """

    def __init__(self, system_prompt: str | None = None) -> None:
        self.system_prompt = say("planning") if system_prompt is None else system_prompt
        self.state_schema = {"todos": StateField()}
        self.tools = (Tool("write_todos", say("write_todos"), _PARAMETERS, write_todos),)

    def after_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Refuse several lists at once: which would be the list?"""
        calls = [call for call in last_calls(state["messages"]) if call.tool_name == "write_todos"]
        if len(calls) < 2:
            return None
        return {"messages": [ChatMessage.from_tool(say("one_list"), call, error=True) for call in calls]}

    def changed(self, request: ModelRequest) -> ModelRequest:
        """Say when to keep a list."""
        text = "\n\n".join(part for part in (request.system_prompt, self.system_prompt) if part)
        return request.override(system_prompt=text)


def write_todos(todos: list[dict[str, str]], state: State) -> str:
    """Keep the list and say so; what an item holds beside content and status is dropped."""
    kept = [{key: item[key] for key in ("content", "status")} for item in todos]
    state.set("todos", kept)
    return say("todos_kept", todos=kept)
