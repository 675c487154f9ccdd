"""Run one tool, with arguments that a model wrote: OneTool, which makes them fit where that loses nothing.

Not here: the wrappers around it (`toolkit.agents.tool_calls`), checking arguments (`toolkit.execution`).
"""

from __future__ import annotations

from typing import Any

from toolkit.agents.requests import Command
from toolkit.errors import ToolArgumentsError, closest
from toolkit.execution.arguments import as_object
from toolkit.execution.invoker import ToolInvoker
from toolkit.extraction.coerce import Coercion
from toolkit.messages import ToolCall
from toolkit.tools import Tool


class OneTool(ToolInvoker):
    """Run one tool; a Command that it returns is passed on as it is."""

    passed_on = (Command,)

    def __init__(self, tool: Tool, timeout_s: float | None) -> None:
        super().__init__([tool], timeout_s=timeout_s)
        self.shares_state = self.ready[tool.name].shares_state

    def fitted(self, call: ToolCall) -> ToolCall:
        """Return the call with arguments that fit: coerced without loss, unknown names left out.

        Raises:
            ToolArgumentsError: they cannot be made to fit.
        """
        ready = self.find(call)
        try:
            ready.checked(call.arguments)
        except ToolArgumentsError:
            fitted = fit(ready.tool, call.arguments)
            ready.checked(fitted)
            return ToolCall(call.tool_name, fitted, call.id)
        return call


def fit(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Coerce arguments to a tool's schema without loss, and leave out names that are nothing like those it has.

    >>> add = Tool("add", "", {"type": "object", "properties": {"x": {"type": "integer"}}})
    >>> fit(add, {"x": "1", "zzz": 9})
    {'x': 1}
    """
    given = as_object(arguments, tool.name)
    schema = tool.parameters
    if "properties" in schema and not (schema.get("additionalProperties") or schema.get("patternProperties")):
        unsaid = [name for name in tool.properties if name not in given]  # one of them may be meant by a misspelt name
        given = {name: v for name, v in given.items() if name in tool.properties or closest(str(name), unsaid, n=1)}
    fitted = Coercion(tool.parameters).arguments(given)
    # a number where text is wanted is a mistake the model should hear of
    return {n: given[n] if isinstance(v, str) and not isinstance(given[n], str) else v for n, v in fitted.items()}
