"""Read what an MCP tool answered: its text or its data, or the error that it reports.

Not here: the connection that the answer came over (`toolkit.execution.mcp`).
"""

from __future__ import annotations

import concurrent.futures
import json
from typing import Any

from toolkit.errors import ToolInvocationError


def read_result(name: str, result: Any) -> Any:
    """Return what a tool said: its text, or its structured content where the text is the same in JSON.

    Raises:
        ToolInvocationError: the tool reported an error.
    """
    text = "\n".join(filter(None, (_block(block) for block in result.content)))
    if result.is_error:
        raise ToolInvocationError(f"MCP tool {name!r} reported an error: {text or 'it gave no reason.'}")
    structured = result.structured_content
    if structured is None or (text and _says(text) != structured):
        return text
    return (
        structured["result"]
        if not text and isinstance(structured, dict) and set(structured) == {"result"}
        else structured
    )


def _says(text: str) -> Any:
    """Return the JSON that a text holds, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _block(block: Any) -> str:
    """Return one block of a result as text; what is no text is named with its type and size."""
    if block.type == "text":
        return str(block.text)
    inner = getattr(block, "resource", None)
    if inner is not None and hasattr(inner, "text"):
        return str(inner.text)
    kind = getattr(block, "mime_type", None) or getattr(inner, "mime_type", None) or "unknown type"
    where = getattr(block, "uri", None) or getattr(inner, "uri", "")
    size = len(getattr(block, "data", "") or getattr(inner, "blob", "") or "")
    return f"[{block.type} {kind} {where or f'{size} base64 characters'}]"


def reason_of(error: BaseException) -> str:
    """Return the innermost reason in words; anyio wraps errors in groups."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, (TimeoutError, concurrent.futures.TimeoutError)):
        return "it did not answer in time"
    return f"{type(error).__name__}: {error}".rstrip(": .")
