"""What public reports show of values: escapes that are none, blanks that were escaped, members run into one text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.extraction import extract

TOOL = {
    "name": "put",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "id": {"type": "string"}},
        "required": ["text"],
    },
}


def in_json(raw: str) -> str:
    return f'<tool_call>{{"name": "put", "arguments": {{"text": "{raw}"}}}}</tool_call>'


def in_text(raw: str) -> str:
    return json.dumps({"name": "put", "arguments": f'{{"text": "{raw}"}}'})


def in_python(raw: str) -> str:
    return f'[put(text="{raw}")]'


def in_line(raw: str) -> str:
    return f'TOOL_CALL: put {{"text": "{raw}"}}'


WAYS = [in_json, in_text, in_python, in_line]
NEVER_ESCAPED = {
    "drive, openclaw#88918": r"E:\new\temp\bin\setup.exe",
    "home, claude-code#87251": r"C:\Users\rita\notes\fotos",
    "no drive, jsonrepair#8": r"src\main\net\tools\base.py",
    "variable": r"%APPDATA%\npm\node_modules\.bin",
    "hidden folder": r"C:\.config\nvim\tmp",
    "registry, openclaw#88940": r"HKLM\SOFTWARE\node\bin",
    "host, vscode-json#20": r"\\nas\share\new\reports",
    "regex": r"\bport\b\s+\d{2}",
    "regex with a slash": r"^\/api\/v\d+\/new$",
    "formula": r"\alpha \beta \nu \times \theta \frac{1}{2}",
    "formula in a text, wrong-notebook#3": r"\(216\text{cm}\) + \boldsymbol{x}",
    "brace, altk-evolve#318": r"\frac{a}{b} \underbrace{x} \nabla",
    "rows, json_repair#207": r"\begin{pmatrix} a\\b\\c \end{pmatrix}",
    "matrix": r"\begin{matrix} 1 & 2 \\ 3 & 4 \end{matrix}",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("raw", NEVER_ESCAPED.values(), ids=NEVER_ESCAPED)
def test_where_one_escape_is_unknown_none_is_one(raw: str, way: Any) -> None:
    call = extract(way(raw), [TOOL]).calls[0]
    assert call.arguments == {"text": raw}
    assert "invalid_escape" in call.repairs


ESCAPED = {
    "lines of code": (r"import re\nre.findall(x)\n\n# \d+", "import re\nre.findall(x)\n\n# \\d+"),
    "indented code": (r"def f(x):\n\treturn 1  # \d\n", "def f(x):\n\treturn 1  # \\d\n"),
    "path in a letter": (r"Dear Bo,\nlook in D:\docs\temp", "Dear Bo,\nlook in D:\\docs\\temp"),
    "formula in a text": (r"The area\nis \pi r^2.\nSo \text{ok}", "The area\nis \\pi r^2.\nSo \\text{ok}"),
    "half of it escaped": (r"C:\\Users\nina\docs", r"C:\Users\nina\docs"),
    "half of a regex escaped": (r"\\d+\s*", r"\d+\s*"),
    "apostrophe of JavaScript": (r"It\'s a\nnew line", "It's a\nnew line"),
    "dollar of a shell": (r"echo \$HOME\nls", "echo \\$HOME\nls"),
    "Markdown": (r"1\. First\n2\. Second\tok", "1\\. First\n2\\. Second\tok"),
    "quotes": (r"say \"hi\" \d", 'say "hi" \\d'),
    "letters by number": (r"caf\u00e9 \d", "café \\d"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("raw", "value"), ESCAPED.values(), ids=ESCAPED)
def test_an_escape_that_was_meant_stays_one(raw: str, value: str, way: Any) -> None:
    call = extract(way(raw), [TOOL]).calls[0]
    assert call.arguments == {"text": value}
    assert "invalid_escape" in call.repairs


@settings(max_examples=200, deadline=None)
@given(st.lists(st.from_regex(r"[a-tv-z][a-z0-9]{1,8}", fullmatch=True), min_size=1, max_size=6), st.sampled_from(WAYS))
def test_any_windows_path_arrives_whole(parts: list[str], way: Any) -> None:
    path = "\\".join([r"C:\Windows", *parts])  # no escape begins with a capital letter
    assert extract(way(path), [TOOL]).calls[0].arguments == {"text": path}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60).map("It is ".__add__))
def test_what_is_escaped_as_json_wants_it_is_never_suspect(text: str) -> None:
    assert extract(in_json(json.dumps(text)[1:-1]), [TOOL]).calls[0].arguments == {"text": text}


@pytest.mark.parametrize("way", [in_json, in_python, in_line])
@pytest.mark.parametrize("text", ["du -sh \\\n  /srv", "RUN apt update \\\n && apt install", "a\\\r\nb"])
def test_a_backslash_before_a_line_break_stays(text: str, way: Any) -> None:
    """Source: hermes-agent#55620."""
    call = extract(way(text), [TOOL]).calls[0]
    assert call.arguments == {"text": text}
    assert "invalid_escape" in call.repairs


TOKENS = [
    "{",
    '"name"',
    ":",
    '"put"',
    ",",
    '"arguments"',
    ":",
    "{",
    '"text"',
    ":",
    '"a"',
    ",",
    '"id"',
    ":",
    '"7"',
    "}",
    "}",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["", "", "\\n", "\\n  ", "\\r\\n", "\\t", " "]), min_size=16, max_size=16))
def test_escaped_blanks_between_tokens_are_blanks(blanks: list[str]) -> None:
    """Source: OpenHands/software-agent-sdk#2488."""
    text = "".join(token + blank for token, blank in zip(TOKENS, [*blanks, ""], strict=True))
    text = re.sub(r"(?:\\[nrt]| )+:", ":", text)  # a key and its colon are one
    for reply in (f"<tool_call>{text}</tool_call>", text):
        calls = extract(reply, [TOOL]).calls
        assert [call.arguments for call in calls] == [{"text": "a", "id": "7"}]
        assert ("escaped_blanks" in calls[0].repairs) == ("\\" in text)


def test_escaped_blanks_stand_behind_numbers_and_in_lists() -> None:
    tool = {"name": "show", "parameters": {"type": "object", "properties": {"span": {"type": "array"}}}}
    for text in (r'{"span": \n[20, 40\n]\n\n}', r'{\n"span": [\n20,\n 40\n]}'):
        call = extract(f'<tool_call>{{"name": "show", "arguments": {text}}}</tool_call>', [tool]).calls[0]
        assert call.arguments == {"span": [20, 40]}


@pytest.mark.parametrize("comma", [",,", ", ,", ",,,", ",\n,"])
@pytest.mark.parametrize("text", ["I'm late", "a", 'say "no"', "x, y"])
def test_a_doubled_comma_breaks_a_call_and_swallows_no_key(text: str, comma: str) -> None:
    found = extract(in_json(f'{text}"{comma} "id": "7'), [TOOL])
    assert (found.calls, found.status) == ((), "broken")
    assert not extract(f'[put(text="{text}"{comma} id="7")]', [TOOL]).calls


@pytest.mark.parametrize(
    "token", ["<|im_end|>", "<|tool_call_begin|>", "<｜tool▁sep｜>", "[TOOL_CALLS]", "</tool_call>"]
)
def test_tokens_between_quotes_are_never_part_of_a_text(token: str) -> None:
    """Source: opencode#37297."""
    arguments = f'{{"text": "/srv {token} put:3 {{"text": "/srv/a.log"}}'
    server = {"function": {"name": "put", "arguments": arguments}}
    call = extract("", [TOOL], native_calls=[server]).calls[0]
    assert (call.arguments, call.notes) == ({}, ("bad_arguments",))
    assert not extract(f'<tool_call>{{"name": "put", "arguments": {arguments}}}</tool_call>', [TOOL]).calls
    whole = in_json(f"the token {token} ends it")
    assert extract(whole, [TOOL]).calls[0].arguments == {"text": f"the token {token} ends it"}
