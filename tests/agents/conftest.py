"""Shared pieces of the agent tests."""

from __future__ import annotations

import pytest

import toolkit as tk


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
