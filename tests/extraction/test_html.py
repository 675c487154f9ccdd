"""The HTML view escapes what the model wrote and marks calls and repairs."""

from __future__ import annotations

from toolkit.extraction import extract

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(1)">'
TOOLS = [{"name": "f"}]


def test_everything_is_escaped() -> None:
    call = f'{{"name": "f", "arguments": {{"{HOSTILE[:24]}": "{HOSTILE[:20]}"}}}}'
    text = f"<think>{HOSTILE}</think>{HOSTILE}<tool_call>{call}</tool_call>"
    shown = extract(text, TOOLS)._repr_html_() + extract(HOSTILE * 3)._repr_html_()
    assert "<script" not in shown
    assert "<img" not in shown


def test_calls_and_repairs_are_marked() -> None:
    shown = extract('Hi <tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>', TOOLS)._repr_html_()
    assert "trailing_comma" in shown
    assert "hermes" in shown
    assert "background:" in shown
    assert "script" not in shown


def test_long_replies_are_cut_in_the_view() -> None:
    assert len(extract("x" * 1_000_000)._repr_html_()) < 50_000


def test_the_line_repr_is_short() -> None:
    found = extract("<tool_call>" + '{"name": "f", "arguments": {}}' * 40 + "</tool_call>", TOOLS)
    assert len(repr(found)) <= 100
