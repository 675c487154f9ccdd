"""Hold a credential so that it reaches the wire and nothing else: Secret, and what hides values in texts.

A Secret shows where its value comes from, never the value: not in its repr, its dict, a pickle or an error.

Not here: where a credential is put in a request (`toolkit.execution.openapi.auth`).
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus

from toolkit.errors import ConfigError, UserError

HIDDEN = "[hidden]"
_SHORTEST = 4  # hiding one or two characters would blank out half of every text


class _Sealed:
    """Keep a token out of reach of vars(), asdict(), repr and pickle."""

    __slots__ = ("_open",)

    def __init__(self, value: Any) -> None:
        self._open: Callable[[], Any] = lambda: value

    def open(self) -> Any:
        return self._open()

    def __repr__(self) -> str:
        return HIDDEN

    def __deepcopy__(self, memo: Any) -> _Sealed:
        return self

    def __reduce__(self) -> Any:
        raise ConfigError("A Secret made from a token cannot be stored. Use Secret.from_env_var instead.")


@dataclass(frozen=True)
class Secret:
    """Stand for a credential; make one with `Secret.from_env_var` or `Secret.from_token`.

    Attributes:
        env_vars: names of environment variables, the first that is set counts; empty for a token.
        strict: whether an unset variable is an error; otherwise the value is None.
    """

    env_vars: tuple[str, ...] = ()
    strict: bool = True
    _token: _Sealed | None = field(default=None, repr=False)

    @classmethod
    def from_env_var(cls, env_vars: str | Iterable[str], *, strict: bool = True) -> Secret:
        """Name the environment variable (or several, first set one wins) that holds the credential.

        It is read when a request needs it, so it may be set later.
        """
        names = (env_vars,) if isinstance(env_vars, str) else tuple(env_vars)
        if not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigError(f"Secret.from_env_var needs the name of an environment variable, not {env_vars!r}.")
        return cls(names, strict)

    @classmethod
    def from_token(cls, token: str) -> Secret:
        """Wrap a credential that is at hand; such a Secret cannot be written to a dict or a pickle."""
        if not isinstance(token, str) or not token:
            raise ConfigError("Secret.from_token needs a text that is not empty.")
        return cls((), True, _Sealed(token))

    def resolve_value(self) -> str | None:
        """Return the credential itself, to be put on the wire.

        Raises:
            UserError: strict, and no variable is set.
        """
        if self._token is not None:
            return str(self._token.open())
        found = next((os.environ[name] for name in self.env_vars if os.environ.get(name)), None)
        if found is None and self.strict:
            names = " or ".join(self.env_vars)
            raise UserError(f"Environment variable {names} is not set. Set it before the call, e.g. export {names}=…")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the names of the variables as plain JSON data.

        Raises:
            ConfigError: it wraps a token, which must not be written anywhere.
        """
        if self._token is not None:
            raise ConfigError("A Secret made from a token cannot be stored. Use Secret.from_env_var instead.")
        return {"type": "env_var", "env_vars": list(self.env_vars), "strict": self.strict}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Secret:
        """Build a Secret from what `to_dict` gave."""
        if data.get("type") != "env_var":
            raise ConfigError(f"Only secrets of type 'env_var' can be read from a dict, not {data.get('type')!r}.")
        return cls.from_env_var(data["env_vars"], strict=bool(data.get("strict", True)))

    def __repr__(self) -> str:
        return f"Secret(env {' or '.join(self.env_vars)})" if self.env_vars else f"Secret({HIDDEN})"


def as_secret(value: Any) -> Secret | None:
    """Read a credential: None, text or a Secret.

    Raises:
        ConfigError: none of these; the message does not show the value.
    """
    if value is None or isinstance(value, Secret):
        return value
    if isinstance(value, str):
        return Secret.from_token(value)
    raise ConfigError(f"A credential must be text or a Secret, not a {type(value).__name__}.")


def hide(text: str, values: Iterable[str]) -> str:
    """Replace every credential in a text, in each spelling that a URL, header or JSON text gives it.

    >>> hide("GET /a?key=s3cr%2Ft", ["s3cr/t"])
    'GET /a?key=[hidden]'
    """
    for spelling in sorted({s for value in values for s in _spellings(value)}, key=len, reverse=True):
        text = text.replace(spelling, HIDDEN)
    return text


def hide_all(value: Any, values: Iterable[str]) -> Any:
    """Replace every credential in all texts of JSON data.

    >>> hide_all({"a": ["key s3cr/t"]}, ["s3cr/t"])
    {'a': ['key [hidden]']}
    """
    values = list(values)
    if isinstance(value, str):
        return hide(value, values)
    if isinstance(value, dict):
        return {hide_all(name, values): hide_all(item, values) for name, item in value.items()}
    return [hide_all(item, values) for item in value] if isinstance(value, list) else value


def _spellings(value: str) -> list[str]:
    if len(value) < _SHORTEST:
        return []
    coded = base64.b64encode(value.encode()).decode()
    forms = [value, quote(value, safe=""), quote(value), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]]
    return [*forms, coded, coded.rstrip("=")]


class Mask:
    """Hide credentials in texts and JSON data; its repr shows nothing, and it is false where there is none to hide."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values = _Sealed(tuple(values))

    def __call__(self, value: Any) -> Any:
        """Return the text or data without the credentials."""
        return hide_all(value, self._values.open())

    def __bool__(self) -> bool:
        return bool(self._values.open())

    def __repr__(self) -> str:
        return f"Mask({len(self._values.open())} credentials)"
