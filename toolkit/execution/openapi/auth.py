"""Put credentials where the security schemes of an OpenAPI document want them.

Handled: API keys in header, query and cookie; HTTP bearer (`bearerFormat` is a hint for people and is ignored) and
basic. A required scheme without a credential is an error before anything is sent.

Not here: holding and hiding credentials (`toolkit.secrets`).
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.errors import ConfigError, ToolInvocationError, UserError
from toolkit.execution.openapi.http import HttpRequest
from toolkit.execution.openapi.request import cookie_pairs, header_value, query_pairs
from toolkit.secrets import Mask, Secret, as_secret, header_text

_SUPPORTED = ("apiKey header", "apiKey query", "apiKey cookie", "http bearer", "http basic")

Credentials = Secret | Mapping[str, Secret] | None


def as_credentials(value: Any, schemes: Mapping[str, Any] | None = None) -> Credentials:
    """Read credentials: None, text, a Secret, or {scheme name: text or Secret}.

    Raises:
        ConfigError: none of these, or none of the `schemes` of the document; the message does not show the value.
    """
    if not isinstance(value, Mapping):
        return as_secret(value)
    found = {str(name): as_secret(item) for name, item in value.items()}
    if schemes is not None and (unknown := [name for name in found if name not in schemes]):
        raise ConfigError(f"credentials name scheme {unknown[0]!r}; the document has: {', '.join(schemes) or 'none'}.")
    return {name: secret for name, secret in found.items() if secret is not None}


def mask_of(credentials: Credentials) -> Mask:
    """Return what hides all credentials that are known by now, in whatever a service answers to whichever call."""
    values = []
    for secret in credentials.values() if isinstance(credentials, Mapping) else [credentials]:
        with contextlib.suppress(UserError):
            value = secret.resolve_value() or "" if secret else ""
            values += [
                value,
                value.partition(":")[2],
                value.partition(" ")[2],
            ]  # the password, and the token of a Bearer
    return Mask(values)


def sign(
    request: HttpRequest,
    security: Sequence[Mapping[str, Any]],
    schemes: Mapping[str, Any],
    credentials: Credentials,
) -> HttpRequest:
    """Return the request with the credentials in place.

    The first alternative for which every scheme has a credential counts; `{}` (anonymous) comes last.

    Args:
        request: what is to be sent.
        security: the requirements in force; empty for none.
        schemes: the document's security schemes, by name.
        credentials: one Secret for whichever scheme is required, or one for each scheme by name.

    Raises:
        ToolInvocationError: no alternative can be met; the message says what is missing, never a value.
    """
    if credentials and not schemes:
        raise ToolInvocationError("Nothing was sent: the document has no security scheme to use the credentials with.")
    problems = []
    for requirement in sorted(security, key=lambda item: not item):
        if problem := _unmet(requirement, schemes, credentials):
            problems.append(problem)
            continue
        for name in requirement:
            secret = _for(name, credentials)
            request = _placed(request, name, schemes[name], _open(secret, name) if secret else "")
        return request
    if problems:
        raise ToolInvocationError(f"Nothing was sent: {' Or: '.join(dict.fromkeys(problems))}")
    return request


def _unmet(requirement: Mapping[str, Any], schemes: Mapping[str, Any], credentials: Credentials) -> str:
    """Say why an alternative cannot be met; empty if it can."""
    by_name = isinstance(credentials, Mapping)
    for name in requirement:
        if name not in schemes:
            return f"security scheme {name!r} is required and not described in the document."
        if credentials is not None and not by_name and len(requirement) > 1:
            return f"schemes {sorted(requirement)} are required together. Give credentials={{scheme: secret}}."
        if _for(name, credentials) is None:
            return f"security scheme {name!r} needs a credential. Give credentials=Secret.from_env_var('…')."
        if not by_name and _kind(schemes[name]) not in _SUPPORTED:
            return f"security scheme {name!r} is of type {_kind(schemes[name])}, which is not supported."
    return ""


def _for(name: str, credentials: Credentials) -> Secret | None:
    return credentials.get(name) if isinstance(credentials, Mapping) else credentials


def _open(secret: Secret, name: str) -> str:
    try:
        return header_text(secret.resolve_value() or "", f"the credential of security scheme {name!r}")
    except UserError as error:
        raise ToolInvocationError(f"Nothing was sent: {error}") from None


def _kind(scheme: Any) -> str:
    """Name a scheme's kind, such as `apiKey header`, `http bearer` or `oauth2`."""
    if not isinstance(scheme, Mapping):
        return "unknown"
    detail = {"apiKey": scheme.get("in"), "http": str(scheme.get("scheme", "")).lower()}.get(str(scheme.get("type")))
    return f"{scheme.get('type')} {detail}" if detail else str(scheme.get("type"))


def _placed(request: HttpRequest, name: str, scheme: Any, value: str) -> HttpRequest:
    """Put one credential where its scheme wants it."""
    kind = _kind(scheme)
    if kind not in (*_SUPPORTED, "oauth2", "openIdConnect"):
        raise ToolInvocationError(f"Nothing was sent: security scheme {name!r} ({kind}) is not supported.")
    if kind == "http basic":
        if ":" not in value:
            raise ToolInvocationError("Nothing was sent: HTTP basic needs a credential of the form 'user:password'.")
        coded = b"Basic " + base64.b64encode(value.encode())
        return request.having("fields", [("Authorization", coded)])
    key = str(scheme.get("name"))
    if kind == "apiKey header":
        return request.having("fields", [(key, header_value(key, value))])
    if kind == "apiKey query":
        return request.having("query", query_pairs(key, value, "form", True))
    if kind == "apiKey cookie":
        return request.having("cookies", cookie_pairs(key, value, True))
    # a bearer token; one for oauth2 or openIdConnect is given by name, so an access token got elsewhere is meant
    token = value[7:].strip() if value[:7].lower() == "bearer " else value
    return request.having("fields", [("Authorization", f"Bearer {token}".encode())])
