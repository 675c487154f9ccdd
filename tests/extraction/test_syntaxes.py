"""Each syntax has a name, a kind, a line about it and an example; the registry holds them all."""

from __future__ import annotations

import re

import pytest

from toolkit.extraction import extract
from toolkit.extraction.drafts import Syntax
from toolkit.extraction.scan import split_first, triggers
from toolkit.extraction.syntaxes import load, table

TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
CALLS = [one for one in load() if one.kind == "call"]
MARKS = [one for one in load() if one.kind != "call"]


UNOPENED = {  # examples of what is read although its first sign is missing
    '"name": "f", "arguments": {"a": 1}}': ("missing_open_brace",),
    'f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>': ("missing_open_tag",),
    'functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>': ("missing_open_tag",),
}


def named(one: Syntax) -> str:
    return one.name


def test_the_table_names_each_syntax_with_one_line() -> None:
    rows = table()
    assert {"hermes", "tool_call_line", "qwen3_coder", "harmony", "react", "bare_json", "llama_pythonic"} <= rows.keys()
    assert all(line.startswith("Read ") and len(line) < 130 for line in rows.values())


@pytest.mark.parametrize("syntax", load(), ids=named)
def test_openers_begin_with_a_literal_and_capture_nothing(syntax: Syntax) -> None:
    first, _ = split_first(syntax.opener)
    assert re.compile(first).match(first.replace("\\n", "\n").replace("\\", ""))
    assert re.compile(syntax.opener).groups == 0


@pytest.mark.parametrize("syntax", load(), ids=named)
def test_an_opener_has_no_alternatives_beside_its_first_character(syntax: Syntax) -> None:
    depth = 0
    for piece in re.findall(r"\\.|\[(?:\\.|[^\]])*\]|[()|]", syntax.opener):
        depth += {"(": 1, ")": -1}.get(piece, 0)
        assert piece != "|" or depth > 0, "put the alternatives in a group: the first character is split off"


@pytest.mark.parametrize("syntax", CALLS, ids=named)
@pytest.mark.parametrize("protocol", ["auto", "its own"])
@pytest.mark.parametrize("before", ["", "I look.\n"], ids=["alone", "behind a line"])
def test_the_example_of_a_call_syntax_is_read(syntax: Syntax, protocol: str, before: str) -> None:
    found = extract(before + syntax.example, TOOLS, protocol if protocol == "auto" else syntax.name)
    [call] = found.calls
    assert (call.tool_name, call.arguments, found.rejected) == ("f", {"a": 1}, ())
    assert call.syntax in syntax.labels
    assert call.repairs == UNOPENED.get(syntax.example, ())
    assert found.text in (before.strip(), f"{before}I look.")  # the recipient in a line has words before it


@pytest.mark.parametrize("syntax", MARKS, ids=named)
def test_the_example_of_a_mark_holds_no_call_and_leaves_no_tag(syntax: Syntax) -> None:
    found = extract(syntax.example, TOOLS)
    assert (found.calls, found.rejected) == ((), ())
    assert not re.search(r"[<\[◁]", found.text)
    if syntax.kind == "thought":
        assert found.thinking == "hm"


def test_one_choice_of_syntaxes_is_compiled_once() -> None:
    assert triggers(frozenset({"hermes"})) is triggers(frozenset({"hermes"}))
