"""Credentials reach the wire and nothing else."""

from __future__ import annotations

import base64
import copy
import dataclasses
import html
import json
import pickle
import re
import time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import ConfigError, UserError
from toolkit.secrets import HIDDEN, Mask, Secret, as_secret, header_text, scrub


def test_token_gives_its_value_only_when_asked() -> None:
    assert Secret.from_token("s3cret-token").resolve_value() == "s3cret-token"


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda secret: f"{secret}",
        lambda secret: repr(dataclasses.asdict(secret)),
        lambda secret: repr(vars(secret)),
        lambda secret: json.dumps(dataclasses.asdict(secret), default=repr),
        lambda secret: repr(copy.deepcopy({"a": [secret]})),
        lambda secret: repr(Exception(secret)),
    ],
    ids=["repr", "str", "format", "asdict", "vars", "json", "deepcopy", "in_an_error"],
)
def test_token_is_never_shown(show: object) -> None:
    assert "s3cret" not in show(Secret.from_token("s3cret-token"))  # type: ignore[operator]


@pytest.mark.parametrize("store", [pickle.dumps, lambda secret: secret.to_dict()], ids=["pickle", "to_dict"])
def test_token_cannot_be_stored(store: object) -> None:
    with pytest.raises(ConfigError, match=r"from_env_var") as caught:
        store(Secret.from_token("s3cret-token"))  # type: ignore[operator]
    assert "s3cret" not in str(caught.value)


def test_tokens_are_not_all_equal() -> None:
    assert Secret.from_token("one-token") != Secret.from_token("two-token")


def test_environment_variable_is_read_late(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret.from_env_var("TOOLKIT_TEST_KEY")
    monkeypatch.setenv("TOOLKIT_TEST_KEY", "late")
    assert secret.resolve_value() == "late"


def test_first_variable_that_is_set_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLKIT_TEST_A", raising=False)
    monkeypatch.setenv("TOOLKIT_TEST_B", "b")
    assert Secret.from_env_var(["TOOLKIT_TEST_A", "TOOLKIT_TEST_B"]).resolve_value() == "b"


def test_unset_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLKIT_TEST_KEY", raising=False)
    with pytest.raises(UserError, match="TOOLKIT_TEST_KEY"):
        Secret.from_env_var("TOOLKIT_TEST_KEY").resolve_value()
    assert Secret.from_env_var("TOOLKIT_TEST_KEY", strict=False).resolve_value() is None


def test_variable_survives_dict_and_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLKIT_TEST_KEY", "s3cret-value")
    secret = Secret.from_env_var("TOOLKIT_TEST_KEY")
    assert Secret.from_dict(secret.to_dict()) == secret
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert b"s3cret" not in pickle.dumps(secret)


@pytest.mark.parametrize("value", [12, b"bytes", object()], ids=["int", "bytes", "object"])
def test_anything_else_is_no_credential(value: object) -> None:
    with pytest.raises(ConfigError, match="text or a Secret"):
        as_secret(value)


SPELL = {
    "plain": lambda letter: letter,
    "percent": lambda letter: "".join(f"%{byte:02X}" for byte in letter.encode()),
    "percent_small": lambda letter: "".join(f"%{byte:02x}" for byte in letter.encode()),
    "percent_twice": lambda letter: quote(quote(letter, safe=""), safe=""),
    "plus": quote_plus,
    "html": html.escape,
    "html_twice": lambda letter: html.escape(html.escape(letter)),
    "decimal": lambda letter: f"&#{ord(letter)};",
    "hex": lambda letter: f"&#x{ord(letter):x};",
    "json": lambda letter: json.dumps(letter)[1:-1],
    "json_twice": lambda letter: json.dumps(json.dumps(letter)[1:-1])[1:-1],
    "json_code": lambda letter: "".join(f"\\u{unit}" for unit in re.findall("....", letter.encode("utf-16-be").hex())),
    "php": lambda letter: json.dumps(letter)[1:-1].replace("/", "\\/"),
    "repr": lambda letter: repr(letter)[1:-1],
    "bytes": lambda letter: repr(letter.encode())[2:-1],
}
VALUES = st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=24).filter(
    lambda value: len(value.strip()) > 3
)


@settings(deadline=None)
@given(VALUES, st.data(), st.text(max_size=20), st.text(max_size=20))
def test_every_spelling_is_hidden_letter_by_letter(value: str, data: st.DataObject, before: str, after: str) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(SPELL)), min_size=len(value), max_size=len(value)))
    spelled = "".join(SPELL[name](letter) for name, letter in zip(names, value, strict=True))
    hidden = Mask([value])(f"{before}<{spelled}>{after}")
    assert HIDDEN in hidden
    kept = value.strip()
    assert kept not in hidden.replace(HIDDEN, "\0") or kept in HIDDEN


@settings(deadline=None)
@given(VALUES, st.binary(max_size=9), st.binary(max_size=9), st.booleans())
def test_base64_is_hidden_wherever_it_stands(value: str, before: bytes, after: bytes, for_urls: bool) -> None:
    code = base64.urlsafe_b64encode if for_urls else base64.b64encode
    inner = value.strip().encode()
    hidden = Mask([value])(f"Basic {code(before + inner + after).decode()}!")
    if len(inner) > 5:
        assert HIDDEN in hidden
        assert base64.b64encode(inner[3:-2]).decode()[:6] not in hidden


def test_data_of_any_form_are_looked_through() -> None:
    mask = Mask(["s3cret-token", "", "abc"])
    deep: Any = "s3cret-token"
    for _ in range(5000):
        deep = [deep]
    data = {"s3cret-token": ("s3cret-token", [b"x s3cret-token"]), "n": 3, "none": None, "abc": "abc"}
    assert mask(data) == {HIDDEN: (HIDDEN, [b"x [hidden]"]), "n": 3, "none": None, "abc": "abc"}
    shown, levels = mask(deep), 0
    while isinstance(shown, list):
        shown, levels = shown[0], levels + 1
    assert (shown, levels > 100) == (HIDDEN, True)
    assert mask("\ud800 s3cret-token") == "\ud800 [hidden]"


def test_a_mask_shows_nothing() -> None:
    mask = Mask(["s3cret-token"])
    assert "s3cret" not in repr(mask) + repr(vars(mask)) + str(copy.deepcopy(mask))
    assert (bool(mask), bool(Mask()), bool(Mask(["abc"]))) == (True, False, False)
    with pytest.raises(ConfigError):
        pickle.dumps(mask)


@pytest.mark.parametrize("text", ["s", "\\", "&amp;", "%25", "s3", "czNj", " "], ids=repr)
def test_hiding_takes_time_in_proportion(text: str) -> None:
    mask = Mask(["s3cret-token", "user:s3cret"])
    for hide in (mask, scrub):
        times = []
        for size in (20_000, 80_000):
            long = text * (size // len(text))
            start = time.process_time()
            hide(long)
            times.append(time.process_time() - start)
        assert times[1] < 12 * times[0] + 0.05


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("openai/m@http://ann:s3cret@h/v1", "openai/m@http://[hidden]@h/v1"),
        ("see http://ann:s3@cret@h/x, or mail a@b", "see http://[hidden]@h/x, or mail a@b"),
        ("http://h/x?api_key=s3cret&page=1#a", "http://h/x?api_key=[hidden]&page=1#a"),
        ("http://h/x?a=1&access-token=s3cret", "http://h/x?a=1&access-token=[hidden]"),
        ("Illegal header value b'Bearer s3cret-1\\n'", "Illegal header value b'Bearer [hidden]\\n'"),
        ("{'headers': {'Authorization': 'Bearer s3cret'}}", "{'headers': {'Authorization': '[hidden]'}}"),
        ('{\\"api_key\\": \\"s3cret\\"}', '{\\"api_key\\": \\"[hidden]\\"}'),
        ("X-Api-Key: s3cret", "X-Api-Key: [hidden]"),
        ("it said: bad key sk-s3crets3cret", "it said: bad key [hidden]"),
        ({"headers": {"X-Key": "s3cret", "Accept": "a"}}, {"headers": {"X-Key": HIDDEN, "Accept": "a"}}),
        ({"openaiApiKey": "s3cret", "cookie": ["s3cret"]}, {"openaiApiKey": HIDDEN, "cookie": HIDDEN}),
        ([{"password": 12345, "token": ""}], [{"password": HIDDEN, "token": ""}]),
        ({"token": {"type": "string"}}, {"token": {"type": "string"}}),
        ({"max_tokens": 9, "keep_alive": "5m", "monkey": "a"}, {"max_tokens": 9, "keep_alive": "5m", "monkey": "a"}),
        ("Basic authentication needs max_tokens=9, mail a@b.c", "Basic authentication needs max_tokens=9, mail a@b.c"),
        ("ollama/qwen3:4b", "ollama/qwen3:4b"),
        (3.5, 3.5),
    ],
    ids=range(17),
)
def test_what_looks_like_a_credential_is_scrubbed(value: Any, shown: Any) -> None:
    assert scrub(value) == shown
    assert scrub(scrub(value)) == scrub(value)


@given(st.recursive(st.text() | st.integers() | st.none(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)))
def test_scrubbing_never_fails_and_ends(value: Any) -> None:
    assert scrub(scrub(value)) == scrub(value)


@pytest.mark.parametrize("value", ["s3cret\n", " s3cret\r\n"])
def test_a_key_file_may_end_with_a_line_break(value: str) -> None:
    assert header_text(value, "The key") == "s3cret"


@pytest.mark.parametrize(
    ("value", "match"), [("s3cr\net", "cannot be sent"), ("s3crét", "cannot be sent"), (" \n", "is empty")]
)
def test_a_key_that_no_header_can_carry_is_named_not_shown(value: str, match: str) -> None:
    with pytest.raises(UserError, match=f"The key in X .*{match}|The key in X {match}") as caught:
        header_text(value, "The key in X")
    assert "s3cr" not in str(caught.value)
