"""Explore in a notebook with widgets: Playground, ChatBox, ask_in_notebook.

`playground` (try a recipe) · `chat` (talk with an agent) · `approval` (allow a call, change it, or answer it).
Needs the extra `notebook`; nothing else in the toolkit imports it.
"""

from importlib import import_module
from typing import Any

from toolkit.errors import UserError, install_hint

_HOMES = {"Playground": "playground", "ChatBox": "chat", "ask_in_notebook": "approval"}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'toolkit.lab' has no attribute {name!r}")
    try:
        return getattr(import_module(f"toolkit.lab.{_HOMES[name]}"), name)
    except ImportError as error:
        raise UserError(f"{name} needs more ({error}). {install_hint('notebook')}") from None
