"""Read the address of a model server as people write it.

Not here: speaking to it (`connection`).
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any
from urllib.parse import unquote, urlsplit

_USER = re.compile(r"^((?:\w+://)?)([^/@\s]*)@")
_ROUTE = re.compile(
    r"/(?:api|v1)(?:/(?:chat(?:/completions)?|completions|generate|tags|show|version|ps|pull|embed(?:dings)?|models))?/*$"
)


def ollama_address(told: str) -> tuple[str, tuple[str, str] | None]:
    """Return the address of an Ollama server without credentials and routes, and user and password where it has them.

    >>> ollama_address("http://ada:p%40w@host:11434/api/chat")
    ('http://host:11434', ('ada', 'p@w'))
    >>> ollama_address("11435")
    ('127.0.0.1:11435', None)
    """
    told = told.strip().strip("\"'")
    who = _USER.match(told)
    if who:
        told = who[1] + told[who.end() :]
    told = _ROUTE.sub("", told.split("?")[0].rstrip("/"))
    if re.fullmatch(r":?\d{2,5}", told):
        told = f"127.0.0.1:{told.removeprefix(':')}"
    told = re.sub(r"^((?:\w+://)?)(?:0\.0\.0\.0|\[::\])(?=[:/]|$)", r"\g<1>127.0.0.1", told)  # what a server binds to
    if who is None:
        return told, None
    user, _, password = who[2].partition(":")
    return told, (unquote(user), unquote(password))


def is_loopback(url: str) -> bool:
    """Tell whether a URL leads to this very machine.

    >>> is_loopback("http://127.0.0.1:8080/v1"), is_loopback("http://localhost"), is_loopback("https://host")
    (True, True, False)
    """
    host = (urlsplit(url if "://" in url else f"http://{url}").hostname or "localhost").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def client_settings(url: str) -> dict[str, Any]:
    """Return how a client for a server is made: past the proxies of the environment where it is on this machine.

    A connection is never kept for the next request, so that one can be broken without touching another.
    """
    import httpx

    return {"trust_env": not is_loopback(url), "limits": httpx.Limits(max_keepalive_connections=0)}


def same_model(one: str, other: str) -> bool:
    """Tell whether two names mean one model; `:latest` may be left out, and where the library is.

    >>> same_model("qwen3", "qwen3:latest")
    True
    """

    def full(name: str) -> str:
        name = name.removeprefix("registry.ollama.ai/").removeprefix("library/")
        return (name if ":" in name.rpartition("/")[2] else f"{name}:latest").casefold()

    return full(one) == full(other)
