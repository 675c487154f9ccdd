"""Notice a prompt that a server cut without a word, by comparing its token count with our estimate.

A server that cuts reports the tokens it kept, so the count lies near a limit (the window, half of it, or the
window shared among parallel slots) while the text we sent needs more. Characters per token differ between
models and languages, so they are learnt from the replies of the model itself.

Source: ollama#17889 (200 after a silent cut), ollama#17427 (half the window), ollama#4079 (window / slots).

Not here: servers that refuse a long prompt; they say so, see `wire.is_overflow`.
"""

from __future__ import annotations

import json
import re
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.models.base import Fault, Reply

_RUN = re.compile(r"(\s|[-=_*#.~])\1{3,}")
_USUAL = 4.0  # characters per token before anything was learnt: English prose and JSON
_IMPLAUSIBLE = 10.0  # no tokenizer packs running text so tightly
_SLOTS = (1, 2, 3, 4, 8)
_NEAR = 8  # tokens: a cut keeps a few more or fewer than the limit (n/2 + 2, n - 1)
_MARKERS = 64  # tokens of a chat template round the text; no token is less than a byte
_LEARN_FROM = 200  # characters: below, the chat template outweighs the text


def length(text: str) -> int:
    """Return the length of a text with long runs of blanks and rules shortened, for these are few tokens.

    >>> length("a" + " " * 100 + "b")
    6
    """
    return len(_RUN.sub(lambda run: run.group()[:4], text))


def sent_text(body: Mapping[str, Any]) -> str:
    """Return what is said in a request, for an estimate of its tokens."""
    if "prompt" in body:
        return str(body["prompt"])
    said = [str(message.get("content") or "") for message in body["messages"]]
    calls = [json.dumps(message["tool_calls"]) for message in body["messages"] if message.get("tool_calls")]
    return "\n".join([*said, *calls])


@dataclass
class WindowAudit:
    """Learn characters per token from one model's replies, and judge the next one.

    Attributes:
        ratios: characters per token of the latest uncut prompts.
    """

    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=32))

    @property
    def chars_per_token(self) -> float:
        """Return the median of what was seen, never fewer than 1."""
        seen = tuple(self.ratios)  # other threads append
        return max(1.0, statistics.median(seen)) if seen else _USUAL

    def estimate(self, text: str) -> int:
        """Return about how many tokens a text is."""
        return round(length(text) / self.chars_per_token)

    def judged(self, reply: Reply, body: Mapping[str, Any], num_ctx: int | None) -> Reply:
        """Return the reply, with an overflow fault if the server cut the prompt of this request without a word."""
        if reply.fault:
            return reply
        tools = json.dumps(body["tools"]) if body.get("tools") else ""
        cut = self.cut(sent_text(body), reply.prompt_tokens, num_ctx, tools)
        if not cut:
            return reply
        said = f"The prompt was silently cut: {cut}. Shorten it, or enlarge the window (num_ctx)."
        return reply.replace(fault=Fault("overflow", said, window=num_ctx), finish_reason="overflow")

    def cut(self, text: str, counted: int | None, num_ctx: int | None, tools: str = "") -> str:
        """Say how a prompt was cut; empty if it was not, or if nothing can be said.

        Args:
            text: what was said: all messages, or the raw prompt.
            counted: tokens that the server says it read; None where it does not say.
            num_ctx: the window that was asked for; None where the server sets it.
            tools: the tools as JSON; a template may shorten or drop them, so alone they prove nothing.
        """
        if not counted:
            return ""
        estimate = self.estimate(text)
        said = f"the server read {counted} tokens of a prompt that we estimate at {estimate}"
        limit = self._limit(counted, self.estimate(text + tools), num_ctx)
        if limit:
            return f"{said}, just what fits into {limit}"
        learnt = len(self.ratios) >= 3 and estimate > 2 * counted and estimate - counted > 64
        ratio = length(text) / counted
        if learnt or ratio > _IMPLAUSIBLE:
            return f"{said} ({ratio:.1f} characters per token, usual here is {self.chars_per_token:.1f})"
        surely_fits = num_ctx is None or len(text.encode(errors="replace")) + _MARKERS < num_ctx
        if length(text) >= _LEARN_FROM and not tools and surely_fits:
            self.ratios.append(ratio)
        return ""

    def _limit(self, counted: int, estimate: int, num_ctx: int | None) -> str:
        if num_ctx is None:
            return ""
        if counted >= num_ctx - 1:
            return f"the window (num_ctx={num_ctx})"
        for slots in _SLOTS[1:]:
            # well over: an honest prompt may end near such a number by chance
            if abs(counted - num_ctx // slots) <= _NEAR and estimate > 1.3 * counted:
                return f"1/{slots} of the window (num_ctx={num_ctx})"
        return ""
