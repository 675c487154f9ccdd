"""Hide personal data in messages: PIIRedaction.

Patterns find shapes, not meaning: what looks like a card number is one only if its check digit fits.
Not here: secrets of the toolkit itself, which never reach a message.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from toolkit.agents.middleware import AgentMiddleware, AgentState, Update
from toolkit.agents.runtime import Runtime
from toolkit.errors import AgentError, ConfigError, did_you_mean
from toolkit.messages import (
    ChatMessage,
    ChatRole,
    ImageContent,
    Part,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolCallResult,
)

_DEEPEST = 50  # levels of a value that are looked at one by one; what lies deeper is looked at as text
_GROUPS: tuple[Any, ...] = (dict, list, tuple, set, frozenset)
Strategy = Literal["redact", "mask", "hash", "block"]
Detector = Callable[[str], Iterable[Sequence[int]]]


class PIIFoundError(AgentError):
    """Report personal data where the strategy is "block"."""


def _luhn(text: str) -> bool:
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [d if n % 2 == 0 else d * 2 - 9 * (d > 4) for n, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _octets(text: str) -> bool:
    return all(int(part) <= 255 for part in text.split("."))


def _mask_email(value: str) -> str:
    name, _, host = value.partition("@")
    return f"{name}@****{host[host.rfind('.') :] if '.' in host else ''}" if value.count("@") == 1 else "****"


def _mask_card(value: str) -> str:
    between = next((char for char in "- " if char in value), "")
    return between.join(["****"] * 3 + ["".join(char for char in value if char.isdigit())[-4:]])


def _mask_ip(value: str) -> str:
    return f"*.*.*.{value.rpartition('.')[2]}" if value.count(".") == 3 else "****"


def _mask_mac(value: str) -> str:
    return (":" if ":" in value else "-").join(["**"] * 5 + [value[-2:]])


class Shape(NamedTuple):
    """Hold how one kind of data looks, a further test of what looks so, and its mask."""

    pattern: str
    test: Callable[[str], bool] = bool
    mask: Callable[[str], str] = lambda value: f"****{value[-4:] if len(value) > 4 else ''}"


# the bounds (an address's name has at most 64 characters) keep long words from taking quadratic time
_SHAPES = {
    "email": Shape(r"\w[\w.%+-]{0,63}+@[\w.-]+\.[A-Za-z]{2,}\b", mask=_mask_email),
    "credit_card": Shape(
        r"\b(?:\d{4}[\s-]?\d{4}[\s-]?\d{4}[\s-]?\d{1,7}|\d{4}[\s-]?\d{6}[\s-]?\d{4,5})\b", _luhn, _mask_card
    ),
    "ip": Shape(r"\b(?:\d{1,3}\.){3}\d{1,3}\b", _octets, _mask_ip),
    "mac_address": Shape(r"\b(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b", mask=_mask_mac),
    "url": Shape(
        r"https?://[^\s<>\"{}|\\^`\[\]]+"
        r"|\bwww(?:\.\w[\w-]{0,62}+){1,20}+(?:/\S*|[?#:]\S+)?"
        r"|\b\w[\w-]{0,62}+(?:\.\w[\w-]{0,62}+){1,20}+/\S*",  # a bare host only with a path: "see.this" is prose
        mask=lambda value: "[MASKED_URL]",
    ),
}


class PIIRedaction(AgentMiddleware):
    """Replace personal data in the messages of the state.

    >>> import toolkit as tk
    >>> model = tk.ScriptedModel(["Sent."])
    >>> trace = tk.Agent(model, middleware=[PIIRedaction("email")]).run("Write to ann@example.org")
    >>> trace.messages[0].text
    'Write to [REDACTED_EMAIL]'

    What is looked at is wider than in LangChain's PIIMiddleware, since one place left out gives the data away:
        all messages of a role, not only the newest;
        the arguments of the model's calls, not only its text, so that tools get them hidden too;
        what is streamed, which comes only once it was looked at (the trace keeps each reply as the model wrote it);
        cards of 13 to 19 digits, not only of 16;
        hosts with underscores and IP addresses with leading zeros.

    Args:
        kind: "email", "credit_card", "ip", "mac_address", "url", or a name of your own with `detector`.
        strategy: "redact" puts a marker, "mask" keeps the part that people know it by (ann@****.org, the last four
            digits, the last number of an IP address), "hash" a short digest that tells equal values, "block" raises
            `PIIFoundError`.
        detector: a regular expression, or a function of the text that gives (start, end) pairs.
        apply_to_input: look at user messages.
        apply_to_output: look at the model's messages and calls.
        apply_to_tool_results: look at tool results, at the text in objects too.

    Raises:
        ConfigError: an unknown kind without a detector, or an unknown strategy.
    """

    def __init__(
        self,
        kind: str,
        strategy: Strategy = "redact",
        *,
        detector: str | Detector | None = None,
        apply_to_input: bool = True,
        apply_to_output: bool = False,
        apply_to_tool_results: bool = False,
    ) -> None:
        if strategy not in ("redact", "mask", "hash", "block"):
            raise ConfigError(f"Strategy {strategy!r} is unknown. Use redact, mask, hash or block.")
        if detector is None and kind not in _SHAPES:
            raise ConfigError(f"Kind {kind!r} needs a detector. {did_you_mean(kind, _SHAPES)}")
        self.kind, self.strategy = kind, strategy
        self.shape = _SHAPES.get(kind, Shape(""))
        self.find = detector if callable(detector) else _finder(Shape(detector) if detector else self.shape)
        self.roles = {
            ChatRole.USER: apply_to_input,
            ChatRole.ASSISTANT: apply_to_output,
            ChatRole.TOOL: apply_to_tool_results,
        }
        self.holds_tokens = apply_to_output

    may_be_numbered = True

    @property
    def name(self) -> str:
        """Return a name that tells kinds apart."""
        return f"PIIRedaction[{self.kind}]"

    def before_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Look at what users and tools said."""
        return self._update(state, (ChatRole.USER, ChatRole.TOOL))

    def after_model(self, state: AgentState, runtime: Runtime) -> Update:
        """Look at what the model said."""
        return self._update(state, (ChatRole.ASSISTANT,))

    def _update(self, state: AgentState, roles: tuple[ChatRole, ...]) -> Update:
        watched = [message for message in state["messages"] if message.role in roles and self._watches(message.role)]
        changed = [new for old in watched if (new := self._clean(old)) != old]
        return {"messages": changed} if changed else None

    def _watches(self, role: ChatRole) -> bool:
        # a result repeats the arguments of its call
        return self.roles[role] or (role is ChatRole.TOOL and self.roles[ChatRole.ASSISTANT])

    def _clean(self, message: ChatMessage) -> ChatMessage:
        return ChatMessage(message.role, tuple(map(self._part, message.parts)), message.name, message.meta)

    def _part(self, part: Part) -> Part:
        if isinstance(part, (TextContent, ReasoningContent)):
            return type(part)(self.hide(part.text))
        if isinstance(part, ImageContent):
            return part
        if isinstance(part, ToolCall):
            return self._call(part)
        result = self._value(part.result) if self.roles[ChatRole.TOOL] else part.result
        return ToolCallResult(result, self._call(part.origin), part.error)

    def _call(self, call: ToolCall) -> ToolCall:
        if not self.roles[ChatRole.ASSISTANT]:
            return call
        return ToolCall(call.tool_name, {key: self._value(item) for key, item in call.arguments.items()}, call.id)

    def _value(self, value: Any, depth: int = 0) -> Any:
        """Return a value with personal data hidden in all its texts, keys and numbers; a part without any as it is."""
        if value is None or isinstance(value, bool):
            return value
        kind = next((kind for kind in _GROUPS if isinstance(value, kind)), None)
        if kind is None or depth >= _DEEPEST:
            text = value if isinstance(value, str) else str(value)
            hidden = self.hide(text)
            return value if hidden == text else hidden
        if kind is dict:
            return {self._value(key, depth + 1): self._value(item, depth + 1) for key, item in value.items()}
        return kind(self._value(item, depth + 1) for item in value)

    def hide(self, text: str) -> str:
        """Return the text with personal data hidden.

        Raises:
            PIIFoundError: there is some, and the strategy is "block".
        """
        found = _merged(self.find(text))
        if found and self.strategy == "block":
            raise PIIFoundError(f"The conversation holds personal data: {len(found)} of kind {self.kind!r}.")
        for start, end in reversed(found):
            text = text[:start] + self._word(text[start:end]) + text[end:]
        return text

    def _word(self, value: str) -> str:
        if self.strategy == "mask":
            return self.shape.mask(value)
        if self.strategy == "hash":
            return f"<{self.kind}_hash:{hashlib.sha256(value.encode()).hexdigest()[:8]}>"
        return f"[REDACTED_{self.kind.upper()}]"


def _merged(spans: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """Return spans in order, those that overlap as one.

    >>> _merged([(3, 5), (0, 10), (12, 12), (8, 11)])
    [(0, 11)]
    """
    found: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), end) for start, end in spans):
        if start >= end:
            continue
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _finder(shape: Shape) -> Detector:
    pattern = re.compile(shape.pattern)
    return lambda text: [hit.span() for hit in pattern.finditer(text) if shape.test(hit.group())]
