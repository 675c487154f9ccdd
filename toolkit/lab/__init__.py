"""Explore in a notebook with widgets: Playground, ChatBox, ask_in_notebook.

`playground` (the widget) · `session` (what it edits, without widgets) · `views` (HTML of prompt, result, tokens) ·
`chat` (talk with an agent) · `approval` (allow a call, change it, or answer it).
Needs the extra `notebook`; nothing else in the toolkit imports it.
"""

from typing import Any

__all__ = ["ChatBox", "Playground", "ask_in_notebook"]


def __getattr__(name: str) -> Any:
    if name == "Playground":
        from toolkit.lab.playground import Playground

        return Playground
    if name == "ChatBox":
        from toolkit.lab.chat import ChatBox

        return ChatBox
    if name == "ask_in_notebook":
        from toolkit.lab.approval import ask_in_notebook

        return ask_in_notebook
    raise AttributeError(f"module 'toolkit.lab' has no attribute {name!r}")
