"""Explore in a notebook with widgets: Playground.

`playground` (the widget) · `session` (what it edits, without widgets) · `views` (HTML of prompt, result, tokens).
Needs the extra `notebook`; nothing else in the toolkit imports it.
"""

from typing import Any

__all__ = ["Playground"]


def __getattr__(name: str) -> Any:
    if name == "Playground":
        from toolkit.lab.playground import Playground

        return Playground
    raise AttributeError(f"module 'toolkit.lab' has no attribute {name!r}")
