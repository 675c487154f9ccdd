"""Credentials go where the document wants them, or nothing is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from toolkit.errors import ConfigError, ToolInvocationError
from toolkit.execution.openapi.auth import as_credentials, mask_of, sign
from toolkit.execution.openapi.http import HttpRequest
from toolkit.secrets import Secret

HEADER = {"type": "apiKey", "in": "header", "name": "X-Key"}
QUERY = {"type": "apiKey", "in": "query", "name": "key"}
COOKIE = {"type": "apiKey", "in": "cookie", "name": "sid"}
BEARER = {"type": "http", "scheme": "bearer"}
BASIC = {"type": "http", "scheme": "Basic"}


PLAIN = HttpRequest("GET", "https://h/x")


def signed(security: list[Any], schemes: dict[str, Any], credentials: Any, request: HttpRequest = PLAIN) -> HttpRequest:
    return sign(request, security, schemes, as_credentials(credentials))


@pytest.mark.parametrize(
    ("scheme", "secret", "expected"),
    [
        (HEADER, "tok/en 1", {"fields": (("X-Key", b"tok/en 1"),)}),
        (QUERY, "tok/en 1", {"query": (("key", "tok%2Fen%201"),)}),
        (COOKIE, "tok;en", {"cookies": (("sid", "tok%3Ben"),)}),
        (BEARER, "token", {"fields": (("Authorization", b"Bearer token"),)}),
        (BASIC, "user:pass", {"fields": (("Authorization", b"Basic dXNlcjpwYXNz"),)}),
    ],
    ids=["header", "query", "cookie", "bearer", "basic"],
)
def test_places(scheme: dict[str, Any], secret: str, expected: dict[str, Any]) -> None:
    assert signed([{"s": []}], {"s": scheme}, secret) == replace(PLAIN, **expected)
    mask = mask_of(as_credentials(secret))
    assert mask(f"it said {secret}!") == "it said [hidden]!"
    assert mask(f"it said {secret.partition(':')[2] or secret}!") == "it said [hidden]!"


@pytest.mark.parametrize("form", ["JWT", "Token {}", "opaque", None])
def test_bearer_format_does_not_swallow_the_token(form: Any) -> None:  # B-W17
    found = signed([{"s": []}], {"s": {**BEARER, "bearerFormat": form}}, "the-token")
    assert found.fields == (("Authorization", b"Bearer the-token"),)


def test_bearer_is_not_written_twice() -> None:
    assert signed([{"s": []}], {"s": BEARER}, "Bearer abcd").fields == (("Authorization", b"Bearer abcd"),)


@pytest.mark.parametrize("credentials", [None, {"other": "x"}], ids=["none", "another"])
def test_missing_credential_is_an_error_before_sending(credentials: Any) -> None:  # B-W15
    with pytest.raises(ToolInvocationError, match=r"Nothing was sent: security scheme 's' needs a credential"):
        signed([{"s": []}], {"s": BEARER, "other": BEARER}, credentials)


def test_unset_environment_variable_is_an_error_before_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLKIT_TEST_KEY", raising=False)
    with pytest.raises(ToolInvocationError, match="TOOLKIT_TEST_KEY"):
        signed([{"s": []}], {"s": BEARER}, Secret.from_env_var("TOOLKIT_TEST_KEY"))


def test_no_requirement_sends_no_credential() -> None:  # B-W13: an operation's [] is honoured by the caller
    assert signed([], {"s": BEARER}, "token") == PLAIN


def test_alternatives_take_the_first_that_can_be_met() -> None:
    schemes = {"a": HEADER, "b": BEARER}
    assert signed([{"a": []}, {"b": []}], schemes, {"b": "token"}).fields == (("Authorization", b"Bearer token"),)


def test_the_required_scheme_counts_not_the_first_one() -> None:
    found = signed([{"b": []}], {"a": HEADER, "b": BEARER}, "token")
    assert found.fields == (("Authorization", b"Bearer token"),)


def test_schemes_that_belong_together() -> None:
    found = signed([{"a": [], "b": []}], {"a": HEADER, "b": QUERY}, {"a": "key-a", "b": "key-b"})
    assert (found.headers, found.query) == ((("X-Key", b"key-a"),), (("key", "key-b"),))
    with pytest.raises(ToolInvocationError, match="required together"):
        signed([{"a": [], "b": []}], {"a": HEADER, "b": QUERY}, "one-key")


def test_anonymous_alternative() -> None:
    assert signed([{}, {"s": []}], {"s": BEARER}, None) == PLAIN
    assert signed([{}, {"s": []}], {"s": BEARER}, "token").fields == (("Authorization", b"Bearer token"),)


@pytest.mark.parametrize(
    "scheme",
    [
        {"type": "oauth2"},
        {"type": "openIdConnect"},
        {"type": "mutualTLS"},
        {"type": "http", "scheme": "digest"},
        "junk",
    ],
    ids=["oauth2", "openid", "tls", "digest", "junk"],
)
def test_other_schemes_are_refused_without_showing_the_credential(scheme: Any) -> None:
    with pytest.raises(ToolInvocationError, match="not supported") as caught:
        signed([{"s": []}], {"s": scheme}, "s3cret-token")
    assert "s3cret" not in str(caught.value)


def test_access_token_got_elsewhere_can_be_given_by_name() -> None:
    assert signed([{"s": []}], {"s": {"type": "oauth2"}}, {"s": "token"}).fields == (
        ("Authorization", b"Bearer token"),
    )


@pytest.mark.parametrize(
    ("scheme", "secret", "match"),
    [
        (HEADER, "s3cret\r\nX-Evil: 1", "cannot be sent"),
        (BEARER, "s3cret-é", "cannot be sent"),
        (BASIC, "s3cret", "user:password"),
        (BEARER, " ", "is empty"),
    ],
    ids=["crlf", "non_ascii", "no_colon", "blank"],
)
def test_unusable_credentials_are_not_shown(scheme: Any, secret: str, match: str) -> None:
    with pytest.raises(ToolInvocationError, match=match) as caught:
        signed([{"s": []}], {"s": scheme}, secret)
    assert "s3cret" not in str(caught.value)


def test_line_break_at_the_end_of_a_key_is_dropped() -> None:
    assert signed([{"s": []}], {"s": HEADER}, "key-1\n").fields == (("X-Key", b"key-1"),)


def test_credentials_that_the_document_has_no_use_for() -> None:
    with pytest.raises(ToolInvocationError, match="no security scheme") as caught:
        signed([], {}, "s3cret-token")
    assert "s3cret" not in str(caught.value)


def test_unknown_scheme_name() -> None:
    with pytest.raises(ConfigError, match="'nope'; the document has: s"):
        as_credentials({"nope": "x"}, {"s": BEARER})


def test_undescribed_scheme() -> None:
    with pytest.raises(ToolInvocationError, match="not described"):
        signed([{"ghost": []}], {"s": BEARER}, "token")


def test_arguments_cannot_replace_the_credential() -> None:
    request = HttpRequest("GET", "https://h/x", (("key", "mine"),), (("x-key", b"mine"),), (("sid", "mine"),))
    real = {"a": "real", "b": "real", "c": "real"}
    result = signed([{"a": [], "b": [], "c": []}], {"a": HEADER, "b": QUERY, "c": COOKIE}, real, request)
    assert (result.query, result.fields, result.cookies) == (
        (("key", "real"),),
        (("X-Key", b"real"),),
        (("sid", "real"),),
    )


def test_repr_shows_nothing() -> None:
    assert repr(signed([{"s": []}], {"s": BEARER}, "s3cret-token")) == "HttpRequest(GET https://h/x)"
    assert repr(mask_of(as_credentials({"a": "s3cret-token", "b": "another"}))) == "Mask(2 credentials)"
