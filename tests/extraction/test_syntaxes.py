"""Each syntax has a name, a line about it and an example; the registry holds them all."""

from __future__ import annotations

import pytest

from toolkit.extraction.scan import split_first, triggers
from toolkit.extraction.syntaxes import load, table


def test_the_table_names_each_syntax_with_one_line() -> None:
    rows = dict(table())
    assert {"hermes", "tool_call_line", "qwen3_coder", "harmony", "react", "bare_json", "llama_pythonic"} <= rows.keys()
    assert all(line.startswith(("Read", "r")) and len(line) < 130 for line in rows.values())


@pytest.mark.parametrize("name", sorted(load()))
def test_openers_begin_with_a_literal_and_capture_nothing(name: str) -> None:
    import re

    one = load()[name]
    first, _ = split_first(one.opener)
    assert re.compile(first).match(first.replace("\\n", "\n").replace("\\", ""))
    assert re.compile(one.opener).groups == 0


def test_one_choice_of_syntaxes_is_compiled_once() -> None:
    assert triggers(frozenset({"hermes"})) is triggers(frozenset({"hermes"}))
