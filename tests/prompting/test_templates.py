"""Templates show plain data: whatever a folder from the net holds, it cannot run, reach or blow up anything."""

import pytest

import toolkit as tk
from toolkit.errors import ConfigError
from toolkit.prompting.sandbox import MOST_ROUNDS
from toolkit.prompting.templates import fill, plain

RAN = []


@tk.tool(effect="dangerous")
def erase(path: str = "/") -> str:
    """Erase a path."""
    RAN.append(path)
    return "gone"


@pytest.mark.parametrize(
    "source",
    [
        "{{ tools[0].function() }}",
        "{{ tools[0]() }}",
        "{{ tools[0].invoke() }}",
        "{{ tools[0].from_dict({'name': 'x', 'function': 'os.system'}).function('true') }}",
        "{{ tools.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ '{0.__class__}'.format(tools) }}",
        "{{ tools.append(1) }}",
        "{{ tools[0].parameters.update({'x': 1}) }}",
        "{{ call.to_dict() }}",
        "{{ lipsum.__globals__ }}",
        "{{ cycler.__init__.__globals__.os }}",
    ],
)
def test_nothing_behind_the_data_can_be_reached(source):
    before = erase.parameters["properties"].copy()
    with pytest.raises(ConfigError, match=r"Template 't.jinja' failed"):
        fill(source, {"tools": [erase], "call": tk.ToolCall("erase", {"path": "/"})}, "t.jinja")
    assert RAN == []
    assert erase.parameters["properties"] == before


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(10 ** 9) %}x{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 'a' * 10 ** 11 }}",
        "{{ 9 ** 99999999 }}",
        "{{ [1] * 10000000 }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    ],
    ids=["long loop", "nested loops", "long text", "tower", "long list", "endless macro"],
)
def test_repetition_is_bounded(source):
    with pytest.raises(ConfigError, match="failed"):
        fill(source, {})


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ tools[0].name }}: {{ tools[0].description }}", "erase: Erase a path."),
        ("{{ tools[0] | signature }}", 'erase(path?: string = "/")'),
        ("{{ tools[0].properties.path.type }} {{ tools[0].required | length }}", "string 0"),
        ("{% for t in tools %}{{ loop.index }}{{ loop.cycle('a', 'b') }}{% endfor %}", "1a"),
        ("{{ 'ab'.upper() }} {{ ['x', 'y'] | join('-') }} {{ '%s' % 3 }} {{ 'a' * 3 }}", "AB x-y 3 aaa"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}", "<1>"),
        ("{% set n = namespace(k=0) %}{% for i in range(3) %}{% set n.k = n.k + i %}{% endfor %}{{ n.k }}", "3"),
        ("{{ call.tool_name }} {{ call.arguments | json }}", 'erase {"path": "ü"}'),
    ],
    ids=["fields", "signature", "schema", "loop", "methods", "macro", "namespace", "call"],
)
def test_what_prompts_need_works(source, text):
    assert fill(source, {"tools": [erase], "call": tk.ToolCall("erase", {"path": "ü"})}) == text


def test_the_budget_is_for_all_loops_together():
    half = MOST_ROUNDS // 2
    loop = f"{{% for i in range({half}) %}}{{% endfor %}}"
    assert fill(loop * 2, {}) == ""
    with pytest.raises(ConfigError, match="rounds together"):
        fill(loop * 3, {})


def test_plain_data_holds_no_function():
    shown = plain({"tools": [erase], 3: (1, {2})})
    assert not hasattr(shown["tools"][0], "function")
    assert shown["3"] == [1, [2]]
