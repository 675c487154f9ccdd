"""Give every failure of a tool's function one kind of exception, and let a server's tool be a function.

Not here: checking arguments (`toolkit.execution.ready`), how it is waited for (`toolkit.execution.modes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.errors import ToolError, ToolInvocationError, ToolTimeoutError
from toolkit.execution.conversion import safe_str
from toolkit.execution.modes import BLOCKING, Ended, Mode
from toolkit.execution.ready import ReadyTool
from toolkit.execution.threads import OutOfTime


def value_of(ready: ReadyTool, ended: Ended, timeout_s: float | None, mode: Mode = BLOCKING) -> Any:
    """Return what a tool's function gave.

    Raises:
        ToolInvocationError: it raised anything, `sys.exit()` included; `__cause__` is what it raised.
        ToolTimeoutError: it did not finish in time.
        KeyboardInterrupt: passed on.
    """
    value, error = ended
    if error is None:
        return value
    if isinstance(error, OutOfTime):
        raise ToolTimeoutError(f"Tool {ready.tool.name!r} did not finish within {timeout_s:g} s; it was given up.")
    if isinstance(error, (ToolError, KeyboardInterrupt)) or mode.is_cancelling(error):
        raise error
    raise ToolInvocationError(
        f"Tool {ready.tool.name!r} failed with {type(error).__name__}: {safe_str(error)}"
    ) from error


@dataclass(frozen=True)
class RemoteCall:
    """Be the function of a tool that a server runs.

    Attributes:
        server: what holds the connection; its `call(name, arguments)` returns the answer.
        name: what the server calls the tool.
    """

    server: Any
    name: str

    def __call__(self, /, **arguments: Any) -> Any:
        """Call the tool."""
        return self.server.call(self.name, arguments)

    def __repr__(self) -> str:
        return f"RemoteCall({self.name})"
