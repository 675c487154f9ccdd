"""Hold what was read out of a reply: Extraction, its calls with provenance, its rejected candidates.

Not here: how it is read (`toolkit.extraction.pipeline`) and how it is shown (`toolkit.extraction.html`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from toolkit.messages import ToolCall

Status = Literal["called", "abstained", "broken", "truncated"]
Confidence = Literal["exact", "repaired", "guessed"]
Span = tuple[int, int]


class CallKeys(NamedTuple):
    """Say under which keys of a JSON object a call stands, where the protocol states it."""

    # keys of name and arguments; an object with both keys of a pair means just what they say
    pairs: tuple[tuple[str, str], ...] = ()
    only: bool = False  # no other spelling counts

    @classmethod
    def of(cls, protocol: object) -> CallKeys:
        """Return the `keys` that a protocol states, and its `aliases`, beside which no others count."""
        keys, aliases = getattr(protocol, "keys", None), getattr(protocol, "aliases", None)
        return cls((keys, *(aliases or ())), aliases is not None) if isinstance(keys, tuple) else cls()


@dataclass(frozen=True)
class ExtractedCall(ToolCall):
    """Hold one call and where it came from; it is a ToolCall and can be run as one.

    Attributes:
        span: (start, end) in the original reply, wrapper included; (0, 0) for a native call.
        syntax: name of the call syntax, such as `hermes`; `native` for a call that the server read.
        repairs: codes of what was mended, in order, such as `trailing_comma`; empty for a strict reading.
        confidence: `exact` nothing mended, `repaired` form mended, `guessed` name or place inferred.
        notes: what the invoker should know, such as a value that does not fit its type, with its path.
        unknown_tool: the name is not declared; `closest` then lists near names.
        written: the arguments word for word, before they were fitted to the schema: an object, a text, whatever stands
            there; an empty text and null are {}. None if there are none, or if they are no JSON value.
    """

    span: Span = (0, 0)
    syntax: str = ""
    repairs: tuple[str, ...] = ()
    confidence: Confidence = "exact"
    notes: tuple[str, ...] = ()
    unknown_tool: bool = False
    closest: tuple[str, ...] = ()
    written: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of_server(cls, call: ToolCall) -> ExtractedCall:
        """Return a call that the server read and that needs no settling; every other field is its default."""
        made = object.__new__(cls)  # made in each turn of a loop: a third of the time that the constructor takes
        into, arguments = made.__dict__, call.arguments
        into["tool_name"], into["arguments"], into["id"] = call.tool_name, arguments, call.id
        into["syntax"], into["written"] = "native", arguments
        return made

    @property
    def call(self) -> ToolCall:
        """Return the bare call, without provenance."""
        return ToolCall(self.tool_name, self.arguments, self.id)


@dataclass(frozen=True, slots=True)
class Rejected:
    """Hold a candidate that is no call, and why.

    Attributes:
        span: (start, end) in the original reply.
        syntax: the syntax it looked like.
        reason: a code, such as `truncated`, `placeholder`, `schema_echo`, `in_thinking`, `undeclared`, `bad_json`.
        detail: one sentence for a person.
        name: the tool name it had, if any.
    """

    span: Span
    syntax: str
    reason: str
    detail: str = ""
    name: str | None = None


@dataclass(frozen=True)
class Extraction:
    """Hold everything read out of one reply.

    Attributes:
        calls: the calls, in order of emission.
        rejected: candidates that are no calls, with reasons.
        text: what is left for the user: the reply without calls, wrappers and thoughts.
        thinking: the model's thoughts, joined.
        status: `called`; `abstained` no call and no try; `broken` it tried and failed; `truncated` it was cut.
        source: the original reply.
    """

    calls: tuple[ExtractedCall, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    text: str = ""
    thinking: str = ""
    status: Status = "abstained"
    source: str = ""

    @classmethod
    def of_calls(cls, calls: tuple[ExtractedCall, ...]) -> Extraction:
        """Return what was read of a reply that holds calls and not a word; every other field is its default."""
        made = object.__new__(cls)
        into = made.__dict__
        into["calls"], into["status"] = calls, "called"
        return made

    @property
    def repairs(self) -> tuple[str, ...]:
        """Return the codes of all repairs, in order."""
        return tuple(code for call in self.calls for code in call.repairs)

    @property
    def read_from(self) -> Literal["", "native", "text", "both"]:
        """Return where the calls were read: by the server (`native`), in the text, or in both; "" without calls."""
        if not self.calls:
            return ""
        if self.calls[0].syntax != "native":
            return "text"
        if not self.rejected:
            return "native"
        return "both" if any(one.reason == "beside_native" for one in self.rejected) else "native"

    def to_dict(self) -> dict[str, Any]:
        """Return the extraction as plain JSON data."""
        from dataclasses import asdict

        return asdict(self)

    def __repr__(self) -> str:
        names = ", ".join(repr(call.tool_name)[1:-1] for call in self.calls)  # such as can be printed
        return f"Extraction({self.status}: {names or len(self.rejected)}{'' if names else ' rejected'})"[:100]

    def _repr_html_(self) -> str:
        from toolkit.extraction.html import render

        return render(self)
