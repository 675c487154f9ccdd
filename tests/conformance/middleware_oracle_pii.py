"""What personal data does the model of the loop hide, and where does that go beyond the original?

Two rules are written down: the original's, which looks at the newest message only, and ours, which looks at all of a
kind, at the arguments of calls and for some more shapes. Where they come to something else, a row of the table is met.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from middleware_oracle_state import MARK, Ended, worded

Data = dict[str, Any]
CARD = r"\b\d{4}[\s-]?\d{4}[\s-]?\d{4}[\s-]?\d{4}\b"
BARE = r"\b[a-zA-Z0-9][a-zA-Z0-9-]*(?:\.[a-zA-Z0-9][a-zA-Z0-9-]*)+(?:/\S*)?"
SCHEME = r"https?://[^\s<>\"{}|\\^`\[\]]+"
NARROW = {
    "email": r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z|]{2,}\b",
    "credit_card": CARD,
    "ip": r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b",
    "mac_address": r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b",
    "url": f"{SCHEME}|{BARE}",
}
WIDE = NARROW | {
    "email": r"\w[\w.%+-]{0,63}@[\w.-]+\.[A-Za-z]{2,}\b",
    "credit_card": r"\b(?:(?:\d{4}[\s-]?){3}\d{1,7}|\d{4}[\s-]?\d{6}[\s-]?\d{4,5})\b",
    "url": rf"{SCHEME}|\bwww(?:\.\w[\w-]*)+(?:/\S*|[?#]\S+)?|\b\w[\w-]*(?:\.\w[\w-]*)+/\S*",
}


def hide_input(run: Any, m: Data) -> None:
    """Look at what users and tools said, before the model is asked."""
    options, history = m.get("kwargs", {}), run.state.messages
    places: list[int] = []
    wide: list[int] = []
    if options.get("apply_to_input", True):
        said = [n for n, message in enumerate(history) if message["type"] == "human" and message["content"]]
        wide, places = wide + said, places + last(history, "human")
    if options.get("apply_to_tool_results"):
        said = [n for n, message in enumerate(history) if message["type"] == "tool"]
        turn = max(last(history, "ai"), default=len(history))
        wide, places = wide + said, places + [n for n in said if n > turn]
    hide(run, m, places, wide)


def hide_output(run: Any, m: Data) -> None:
    """Look at what the model said."""
    if m.get("kwargs", {}).get("apply_to_output"):
        history = run.state.messages
        hide(run, m, last(history, "ai"), [n for n, message in enumerate(history) if message["type"] == "ai"])


def last(history: list[Data], kind: str) -> list[int]:
    return [n for n, message in enumerate(history) if message["type"] == kind][-1:]


def hide(run: Any, m: Data, narrow: list[int], wide: list[int]) -> None:
    """Change the messages at the places of our rule, and note where the original's comes to something else."""
    kind, options, history = m["args"][0], m.get("kwargs", {}), run.state.messages
    theirs = {n: hidden(kind, NARROW, options, history[n], calls=False) for n in narrow}
    ours = {n: hidden(kind, WIDE, options, history[n], calls=True) for n in wide}
    if any(ours[n] != theirs.get(n, history[n]) for n in wide):
        run.meet("D7")
    if options.get("strategy") == "block" and any(ours[n] != history[n] for n in wide):
        raise Ended("PIIFoundError", worded(repr(kind)))
    for n in wide:
        if ours[n] != history[n]:
            history[n] = ours[n]


def hidden(kind: str, shapes: dict[str, str], options: Data, said: Data, *, calls: bool) -> Data:
    """Return a message with personal data replaced."""
    pattern, strategy = options.get("detector") or shapes[kind], options.get("strategy", "redact")

    def put(hit: re.Match[str]) -> str:
        is_one = options.get("detector") or (TESTS[kind](hit.group(), shapes is WIDE) if kind in TESTS else True)
        return replaced(kind, strategy, hit.group()) if is_one else hit.group()

    def inside(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: inside(item) for key, item in value.items()}
        if isinstance(value, list):
            return [inside(item) for item in value]
        return re.sub(pattern, put, value) if isinstance(value, str) else value

    new = {**said, "content": MARK.join(map(inside, said["content"].split(MARK)))}
    if calls and said.get("tool_calls"):
        new["tool_calls"] = [{**c, "args": inside(c["args"])} for c in said["tool_calls"]]
    return new


def luhn(text: str, _wide: bool) -> bool:
    digits = [int(char) for char in reversed(text) if char.isdigit()]
    return sum(digits[::2]) % 10 == -sum(sum(divmod(2 * d, 10)) for d in digits[1::2]) % 10


def octets(text: str, wide: bool) -> bool:
    parts = text.split(".")
    return all(int(part) < 256 and (wide or part == str(int(part))) for part in parts)


def host(text: str, wide: bool) -> bool:
    return wide or "/" in text or text.startswith("www.")


TESTS: dict[str, Any] = {"credit_card": luhn, "ip": octets, "url": host}


def replaced(kind: str, strategy: str, value: str) -> str:
    """Return what stands in the place of personal data."""
    if strategy == "hash":
        return f"<{kind}_hash:{hashlib.sha256(value.encode()).hexdigest()[:8]}>"
    if strategy != "mask":
        return f"[REDACTED_{kind.upper()}]"
    if kind in MASKS:
        return str(MASKS[kind](value))
    return "****" + value[-4:] if len(value) > 4 else "****"


def masked_card(value: str) -> str:
    between = "-" if "-" in value else " " if " " in value else ""
    digits = re.sub(r"\D", "", value)
    return f"****{between}****{between}****{between}{digits[-4:]}"


MASKS: dict[str, Any] = {
    "email": lambda value: re.sub(r"@.*\.", "@****.", value),
    "credit_card": masked_card,
    "ip": lambda value: "*.*.*." + value.split(".")[-1],
    "mac_address": lambda value: re.sub(r"[0-9A-Fa-f]{2}(?=[:-])", "**", value),
    "url": lambda value: "[MASKED_URL]",
}
