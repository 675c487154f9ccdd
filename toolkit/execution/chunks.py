"""Tell a listener about each finished call while others still run: ResultChunk.

Not here: pieces of a model's reply (`toolkit.models`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolkit.execution.conversion import safe_str
from toolkit.execution.modes import Mode
from toolkit.messages import ToolCallResult

CLOSING_REASON = "tool_call_results"


@dataclass(frozen=True, slots=True)
class ResultChunk:
    """Report one finished call, or the end of all.

    Attributes:
        index: place of the result in `tool_messages`; None in the closing chunk.
        tool_call_result: the result; None in the closing chunk.
        start: whether a result begins here; it always does, since results come whole.
        finish_reason: `tool_call_results` in the closing chunk, else None.
    """

    index: int | None = None
    tool_call_result: ToolCallResult | None = None
    start: bool = False
    finish_reason: str | None = None

    @property
    def content(self) -> str:
        """Return no text: the result is in `tool_call_result`."""
        return ""


Callback = Callable[[ResultChunk], Any]  # may be async


async def tell(callback: Callback, chunk: ResultChunk, mode: Mode, *, strict: bool) -> None:
    """Hand a chunk to the listener; its failure is raised where `strict`, else only warned of."""
    try:
        await mode.settle(callback(chunk))
    except Exception as error:
        if strict:
            raise
        warnings.warn(f"streaming_callback failed with {type(error).__name__}: {safe_str(error)}", stacklevel=4)
