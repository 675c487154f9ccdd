"""Hold a credential so that it reaches the wire and nothing else: Secret, and what hides credentials: Mask, scrub.

A Secret shows where its value comes from, never the value: not in its repr, its dict, a pickle or an error. Whatever
leaves the toolkit (an error, a row, a recording, a result told to a model, a dict) goes through a `Mask` where the
values are known, and through `scrub` where only their place gives them away.

Not here: where a credential is put in a request (`toolkit.execution.openapi.auth`).
"""

from __future__ import annotations

import base64
import functools
import html.entities
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

from toolkit.errors import ConfigError, UserError

HIDDEN = "[hidden]"
_SHORTEST = 4  # hiding one or two characters would blank out half of every text
_DEEPEST = 200  # levels of nesting that are looked through; what is deeper is hidden as a whole
# the last words of names under which credentials stand
_WORDS = (
    "key|apikey|token|secret|password|passwd|pwd|passphrase|authorization|auth|credential|credentials|cookie|bearer"
    "|signature|sig|jwt"
)
_NAME = re.compile(rf"(?:.*[^a-z])?(?:api)?(?:{_WORDS})", re.DOTALL)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LETTER = r"[^\s\"'\\<>,;&]"  # of a credential in a text
_NAMED = (
    r"(?i)\b((?:proxy-)?authorization|x-(?:[a-z]+-){0,2}(?:key|token|secret)|(?:api|access|secret)[_-]?key|"
    r"(?:access|refresh|id|auth)[_-]token|client[_-]secret|password|passwd)(\\?[\"']?\s{0,8}[:=]\s{0,8}"
)
_LOOKS = tuple(
    (re.compile(pattern), put)
    for pattern, put in (
        (r"(?<=://)[^/?#\s\"'<>\\]{1,512}@", f"{HIDDEN}@"),  # user and password of a URL
        (rf"(?i)([?&;](?:[\w.\[\]-]{{0,64}}?[^a-z])?(?:api)?(?:{_WORDS})=)[^&#\s\"'<>\\]+", rf"\1{HIDDEN}"),
        (rf"(?i)\b(bearer|basic)(\s{{1,8}})(?={_LETTER}{{0,512}}?[\d=_-]){_LETTER}{{6,}}", rf"\1\2{HIDDEN}"),
        (rf"{_NAMED}b?\\?[\"'])(?!\[hidden\])[^\"'\\]{{1,4096}}", rf"\1\2{HIDDEN}"),
        (rf"{_NAMED}(?:(?:bearer|basic|token)\s{{1,8}})?)(?!\[hidden\]){_LETTER}+", rf"\1\2{HIDDEN}"),
        (r"\b(?:sk-[\w-]{8,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)", HIDDEN),
    )
)


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


def header_text(value: str, what: str) -> str:
    """Return a credential as a header can carry it: without white space at its ends, as reading a file gives.

    Args:
        value: the credential.
        what: what it is, to be named in an error: "The key in OPENAI_API_KEY", say.

    Raises:
        UserError: nothing is left, or a character in it cannot be sent; the message does not show the value.
    """
    kept = value.strip()
    if not kept:
        raise UserError(f"{what} is empty. Set it to the credential.")
    if not (kept.isascii() and kept.isprintable()):
        raise UserError(f"{what} holds a character that cannot be sent: not ASCII, or a line break. Copy it anew.")
    return kept


class Mask:
    """Hide known credentials in texts and data; its repr shows nothing, and it is false where there is none to hide.

    Every spelling counts that a URL, HTML, JSON, Python or base64 gives a text, in part or as a whole.

    >>> mask = Mask(["s3cr/t"])
    >>> mask("GET /a?key=s3cr%2Ft"), mask({"a": ["key s3cr&#47;t"]})
    ('GET /a?key=[hidden]', {'a': ['key [hidden]']})

    Args:
        values: the credentials; those of less than four characters are left alone.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        kept = sorted({value.strip() for value in values if len(value.strip()) >= _SHORTEST}, key=len, reverse=True)
        self._pattern = _Sealed(_pattern([form for value in kept for form in _forms(value)]))
        self._count = len(kept)

    def __call__(self, value: Any) -> Any:
        """Return texts, bytes, dicts and lists without the credentials, and anything else as it is."""
        return _walked(value, self._hidden) if self else value

    def _hidden(self, text: str) -> str:
        return str(self._pattern.open().sub(HIDDEN, text))

    def __bool__(self) -> bool:
        return self._count > 0

    def __repr__(self) -> str:
        return f"Mask({self._count} credentials)"


def credentials_in(url: str) -> list[str]:
    """Return what an address gives away: its user, password, and what stands in its query under a secret name.

    >>> credentials_in("http://ann:p%40ss@host/x?page=2&api_key=abc")
    ['ann:p@ss', 'p@ss', 'abc']
    """
    user = re.match(r"[^/?#]*//([^/?#]*)@", url)
    found = [unquote(user[1]), unquote(user[1]).partition(":")[2]] if user else []
    pairs = parse_qsl(url.partition("#")[0].partition("?")[2])
    return [text for text in (*found, *(value for name, value in pairs if _names_a_secret(name))) if text]


def scrub(value: Any) -> Any:
    """Return texts and data without what looks like a credential by its place, for values that nobody told.

    In texts: the user of a URL, queries such as `?token=`, `Bearer …`, `api_key: …`. In data also any text or number
    under such a name, at any depth.

    >>> scrub("http://ann:pw@host/x?token=abc&page=2"), scrub({"headers": {"Authorization": "abc"}, "max_tokens": 9})
    ('http://[hidden]@host/x?token=[hidden]&page=2', {'headers': {'Authorization': '[hidden]'}, 'max_tokens': 9})
    """
    return _walked(value, _scrubbed, by_name=True)


def scrub_logs() -> None:
    """Scrub what HTTP clients log of addresses from now on; twice is once."""
    for name in ("httpx", "httpx2", "mcp.client.streamable_http"):
        logging.getLogger(name).addFilter(_scrub_record)


def _scrub_record(record: logging.LogRecord) -> bool:
    record.msg, record.args = scrub(record.getMessage()), ()
    return True


def _scrubbed(text: str) -> str:
    for pattern, put in _LOOKS:
        text = pattern.sub(put, text)
    return text


def _names_a_secret(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(_CAMEL.sub("_", name[-100:]).lower()) is not None


def _walked(value: Any, hide: Callable[[str], str], by_name: bool = False, depth: int = 0) -> Any:
    """Return a copy of data with `hide` applied to every text; `by_name` hides what stands under a secret name too."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, bytes):
        return hide(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if depth > _DEEPEST and isinstance(value, (Mapping, list, tuple)):
        return HIDDEN
    if isinstance(value, Mapping):
        named = {key for key, item in value.items() if by_name and _names_a_secret(key) and _is_leaf(item)}
        hidden = {key: HIDDEN if key in named else _walked(value[key], hide, by_name, depth + 1) for key in value}
        return {_walked(key, hide): item for key, item in hidden.items()}
    if isinstance(value, (list, tuple)):
        items = [_walked(item, hide, by_name, depth + 1) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _is_leaf(value: Any) -> bool:
    """Tell whether a value may be a credential; what holds further names is looked through instead."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_leaf, value))
    return isinstance(value, (str, bytes, int, float)) and value not in ("", b"")


Spellings = list[tuple[str, str]]  # of one character: the first letter of each, and a pattern for the rest


def _pattern(forms: list[list[Spellings]]) -> re.Pattern[str] | None:
    """Return one pattern for all forms; it begins with a set of letters, which is searched for at C speed."""
    if not forms:
        return None
    first = "".join(sorted({letter for form in forms for letter, _ in form[0]}))
    branches = []
    for form in forms:
        begun = "|".join(f"(?<={re.escape(letter)}){rest}" for letter, rest in form[0])
        branches.append(f"(?:{begun}){''.join(map(_alternatives, form[1:]))}")
    return re.compile(f"[{re.escape(first)}](?:{'|'.join(branches)})(?:=|%3[dD])*")


def _alternatives(spellings: Spellings) -> str:
    found = "|".join(re.escape(letter) + rest for letter, rest in spellings)
    return f"(?:{found})" if len(spellings) > 1 else found


def _forms(value: str) -> list[list[Spellings]]:
    """Return a value, character by character: as text, and in base64 wherever in a longer text it may stand."""
    forms = [[_spellings(letter) for letter in value]]
    raw = value.encode("utf-8", "replace")
    for shift in range(3):
        coded = base64.b64encode(bytes(shift) + raw).decode().rstrip("=")
        start, whole = (0, 2, 3)[shift], (shift + len(raw)) % 3 == 0
        letters = [_IN_BASE64.get(letter, [(letter, "")]) for letter in coded[start:]]
        # the last letter is another one where more text follows
        forms += [letters] if whole else [letters, letters[:-1]]
    return [form for form in forms if len(form) >= _SHORTEST]


# base64 made for URLs has other letters; in a URL or in JSON these two may be escaped
_IN_BASE64: dict[str, Spellings] = {
    "+": [("+", ""), ("-", ""), ("%", "(?:25){0,3}2[bB]"), ("\\", r"\\{0,3}u002[bB]")],
    "/": [("/", ""), ("_", ""), ("%", "(?:25){0,3}2[fF]"), ("\\", r"\\{0,3}(?:/|u002[fF])")],
}


@functools.lru_cache(512)
def _spellings(letter: str) -> Spellings:
    """Return one character in every spelling of it."""
    code, slashes = ord(letter), r"\\{0,3}"
    if letter.isascii() and letter.isalnum():
        digits = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{code:02x}")
        entity = f"(?:amp;)?#(?:0?{code}|[xX]0?{digits});?"
        return [(letter, ""), ("%", f"(?:25)?{digits}"), ("\\", f"{slashes}(?:u00|x){digits}"), ("&", entity)]
    names = "".join(
        f"|{name[:-1]}" for name, found in html.entities.html5.items() if found == letter and name[-1] == ";"
    )
    coded = "%".join(f"(?:25){{0,3}}(?i:{byte:02x})" for byte in letter.encode("utf-8", "replace"))
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    pairs = r"\\{1,4}".join(f"u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    octets = r"\\{1,4}".join(f"x(?i:{byte:02x})" for byte in letter.encode("utf-8", "replace"))
    found = [
        (letter, ""),
        ("\\", f"{slashes}(?:{re.escape(letter)}|{pairs}|{octets}|U(?i:{code:08x}))"),
        ("%", coded),
        ("&", f"(?:amp;){{0,2}}(?:#0{{0,6}}{code}|#[xX]0{{0,6}}(?i:{code:x}){names});?"),
    ]
    if code < 256:
        found += [("\\", f"{slashes}x(?i:{code:02x})"), ("%", f"(?i:{code:02x})")]
    short = {"\n": "n", "\t": "t", "\r": "r", "\b": "b", "\f": "f"}.get(letter)
    return found + ([("+", "")] if letter == " " else []) + ([("\\", f"{slashes}{short}")] if short else [])
