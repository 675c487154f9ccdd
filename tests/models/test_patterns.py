"""Patterns for llama.cpp's grammar match what the ones given match, in the words that the grammar knows."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ConfigError
from toolkit.models import load_model
from toolkit.models.patterns import for_grammar, grammar_pattern

ANY = "[ -!#-\\[\\]-~\x80-\U0010ffff]"


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("^[A-C]{3}-[0-9]{2}$", "^[A-C]{3}-[0-9]{2}$"),
        (r"^\d{4}$", "^[0-9]{4}$"),
        (r"^\w+$", "^[0-9A-Z_a-z]+$"),
        ("abc", f"^{ANY}*abc{ANY}*$"),
        ("^abc", f"^abc{ANY}*$"),
        ("^a$|^b$", "^(a|b)$"),
        ("^(?:ab|cd)+?$", "^(ab|cd)+$"),
        (r"^(?<year>\d{4})$", "^([0-9]{4})$"),
        (r"^a\.b\/c$", r"^a\.b/c$"),
        (r'^say "hi"$', r'^say \\"hi\\"$'),
        (r"^C:\\x$", r"^C:\\\\x$"),
        (r"^\u0041\x42$", "^AB$"),
        (r"^[\]^-]$", r"^[\x2D\]\x5E]$"),
        (r"^a\nb$", r"^a\\nb$"),
        ('^["]$', r'^(\\")$'),
    ],
)
def test_what_can_be_said_is_rewritten(given, sent):
    assert grammar_pattern(given) == sent


@pytest.mark.parametrize(
    ("pattern", "why"),
    [(r"^\bab$", "word boundary"), (r"^\p{L}+$", "class of Unicode"), ("^(?=a)b$", "look-around"), ("^(?!a)b$", "look"),
     ("^(?<=a)b$", "look"), (r"^(a)\1$", "back reference"), ("^(^a|b)$", "anchor in the middle"), ("(?i)a", "flags")],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_by_name(pattern, why):
    with pytest.raises(ConfigError, match=why):
        grammar_pattern(pattern)
    assert for_grammar({"pattern": pattern}, "keep") == {"pattern": pattern}
    assert for_grammar({"pattern": pattern}, "drop") == {}


atoms = st.sampled_from(["a", "b", "7", r"\d", r"\w", ".", "[ab]", "[^b]", r"[\d_]", r"\.", "-", r"\D", "[a-c7]", " "])
counts = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "{1,}", "+?"])
regexes = st.recursive(
    st.builds(str.__add__, atoms, counts),
    lambda inner: (
        st.builds("".join, st.lists(inner, min_size=1, max_size=3))
        | st.builds("({})".format, inner)
        | st.builds("(?:{}|{})".format, inner, inner)
    ),
    max_leaves=5,
)
patterns = st.builds("{}{}{}".format, st.sampled_from(["", "^"]), regexes, st.sampled_from(["", "$"]))


@given(patterns | st.builds("{}|{}".format, patterns, patterns), st.text("ab7_. -é", max_size=6))
def test_the_same_texts_match(pattern, text):
    rewritten = grammar_pattern(pattern)
    assert bool(re.fullmatch(rewritten[1:-1], text)) == bool(re.search(pattern, text, re.ASCII))
    assert not re.search(r"\\[dwsDWSb]|\(\?", rewritten)
    assert grammar_pattern(rewritten) == rewritten


def test_schemas_are_rewritten_where_they_are_schemas():
    schema = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "pattern": r"^\d$"},
            "pair": {"type": "array", "prefixItems": [{"pattern": r"^\d$"}], "items": False, "default": ["pattern"]},
            "word": {"enum": [{"pattern": r"\d"}], "anyOf": [{"pattern": "^a$"}, {"const": {"pattern": "x"}}]},
        },
        "additionalProperties": False,
    }
    found = for_grammar(schema)
    assert found["properties"]["pattern"]["pattern"] == "^[0-9]$"
    assert found["properties"]["pair"] == {
        "type": "array",
        "prefixItems": [{"pattern": "^[0-9]$"}],
        "default": ["pattern"],
    }
    assert found["properties"]["word"] == schema["properties"]["word"]
    assert found["additionalProperties"] is False
    assert list(found) == list(schema)


CODE = {"type": "object", "properties": {"code": {"type": "string", "pattern": r"^\d{2}$"}}, "required": ["code"]}


def test_ollama_gets_what_its_grammar_holds(fake_ollama):
    model = load_model("ollama/qwen3:4b")
    fake_ollama.says('{"code": "42"}').says('{"code": "x"}')
    assert model.chat("Hi", schema=CODE).fault is None
    assert fake_ollama.requests[0]["format"]["properties"]["code"]["pattern"] == "^[0-9]{2}$"
    assert model.chat("Hi", schema=CODE).fault.kind == "schema_not_honoured"  # checked against the schema as given
    with pytest.raises(ConfigError, match="word boundary"):
        model.chat("Hi", schema={"type": "string", "pattern": r"^\bab$"})
    assert len(fake_ollama.requests) == 2


@pytest.mark.embedded
@pytest.mark.parametrize(
    "pattern", [r"^\d{2}$", "abc", "^a$|^b$", r"^[\w-]{3}$", r'^"\\$', r"^\s?x\.y$", "^[^a-z]{2}$"]
)
def test_llama_cpp_holds_decoding_to_what_is_rewritten(embedded_weights, pattern):
    model = load_model(f"embedded/{embedded_weights}", num_ctx=512, num_predict=24)
    reply = model.chat("Say it", schema={"type": "string", "pattern": pattern, "maxLength": 9})
    if reply.finish_reason == "stop":
        assert reply.fault is None
        assert re.search(pattern, json.loads(reply.text), re.ASCII)
