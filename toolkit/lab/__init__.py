"""Explore in a notebook with widgets: Playground, ChatBox.

`playground` (the widget) · `session` (what it edits, without widgets) · `views` (HTML of prompt, result, tokens) ·
`chat` (talk with an agent).
Needs the extra `notebook`; nothing else in the toolkit imports it.
"""

from typing import Any

__all__ = ["ChatBox", "Playground"]


def __getattr__(name: str) -> Any:
    if name == "Playground":
        from toolkit.lab.playground import Playground

        return Playground
    if name == "ChatBox":
        from toolkit.lab.chat import ChatBox

        return ChatBox
    raise AttributeError(f"module 'toolkit.lab' has no attribute {name!r}")
