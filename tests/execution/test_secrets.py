"""Credentials reach the wire and nothing else."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import ConfigError, UserError
from toolkit.execution.secrets import HIDDEN, Secret, as_secret, hide


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


@pytest.mark.parametrize(
    "text",
    [
        "key=se/c%r t",
        "key=se%2Fc%25r%20t",
        "key=se%2Fc%25r+t",
        "Basic c2UvYyVyIHQ=",
        "{'k': 'se/c%r t'}",
    ],
    ids=["plain", "quoted", "plus", "base64", "repr"],
)
def test_every_spelling_is_hidden(text: str) -> None:
    assert HIDDEN in hide(text, ["se/c%r t"])


@settings(deadline=None)  # the first example pays for imports
@given(st.text(min_size=4, max_size=20), st.text(max_size=30), st.text(max_size=30))
def test_hidden_text_does_not_hold_the_value(value: str, before: str, after: str) -> None:
    hidden = hide(before + value + after, [value])
    assert value not in hidden.replace(HIDDEN, "\0") or value in HIDDEN
