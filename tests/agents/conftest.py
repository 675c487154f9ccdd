"""Shared pieces of the agent tests."""

from __future__ import annotations

import pytest

import toolkit as tk
from toolkit.messages import to_openai


@pytest.fixture
def add() -> tk.Tool:
    def add(x: int, y: int) -> int:
        """Add two numbers."""
        return x + y

    return tk.Tool.from_function(add)


@pytest.fixture
def boom() -> tk.Tool:
    def boom() -> str:
        """Fail."""
        raise ValueError("kaput")

    return tk.Tool.from_function(boom)


@pytest.fixture(scope="session")
def faults():
    """Return a function that says what a strict server would of a request, in OpenAI's wire form."""
    return _faults


def _faults(messages):
    """Return what a strict server would say of a request, in OpenAI's wire form."""
    found, wanted = [], []
    for wire in (wire for message in messages for wire in to_openai(message)):
        if wire["role"] == "tool":
            if not wanted or wire["tool_call_id"] != wanted[0]:
                found.append(f"result {wire['tool_call_id']!r} where {wanted} was due")
            wanted = wanted[1:]
            continue
        if wanted:
            found.append(f"no result of {wanted}")
        wanted = [call["id"] for call in wire.get("tool_calls", ())]
        if len(set(wanted)) < len(wanted) or not all(wanted):
            found.append(f"ids {wanted}")
    return found + ([f"no result of {wanted}"] if wanted else [])
