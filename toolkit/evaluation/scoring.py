"""Give the verdict on one reply: Outcome.

    right_call        the expected calls, no more and no less, arguments right
    wrong_call        calls, but not these; or a call where none was right
    broken_call       it tried to call and the reply could not be read, or was cut
    right_abstention  no call, and none was right
    wrong_abstention  no call, though one was right
    overflow          the prompt did not fit the window          ┐ counted apart, never silently against
    degenerate        the reply is empty, or loops until its end │ a prompt
    server_fault      the server failed                          ┘

A call held to a schema that breaks a keyword which no grammar can say (`maximum`, `multipleOf`, …) is the model's
choice, and so a wrong call; one that is not even of the schema's shape is the fault of a server that forgot it.
Not here: whole runs (`toolkit.evaluation.trajectories`), intervals and tables (`toolkit.evaluation.results`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolkit.evaluation.cases import Case
from toolkit.evaluation.matching import assignment, differences
from toolkit.extraction.types import Extraction
from toolkit.messages import ToolCall
from toolkit.models.base import Reply
from toolkit.models.schemas import broken
from toolkit.tools import Tool
from toolkit.traces.json_text import loads

Outcome = Literal[
    "right_call",
    "wrong_call",
    "broken_call",
    "right_abstention",
    "wrong_abstention",
    "overflow",
    "degenerate",
    "server_fault",
]
OUTCOMES: tuple[Outcome, ...] = Outcome.__args__  # type: ignore[attr-defined]
RIGHT: frozenset[str] = frozenset({"right_call", "right_abstention"})
LEFT_OUT: frozenset[str] = frozenset({"overflow", "degenerate", "server_fault"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Hold the outcome of one reply or run, and one sentence on why.

    Attributes:
        outcome: one of `OUTCOMES`.
        detail: why.
        parts: of a run, whether its calls, state and answer were right; None where the case does not ask.
    """

    outcome: Outcome
    detail: str = ""
    parts: Mapping[str, bool | None] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Tell whether the model did the right thing."""
        return self.outcome in RIGHT


def score(case: Case, reply: Reply, extraction: Extraction) -> Verdict:
    """Give the verdict on a reply to a case."""
    fault = reply.fault
    if fault and fault.kind == "overflow":
        return Verdict("overflow", fault.message)
    tools = {tool.name: tool for tool in case.tools}
    not_held = _not_held(reply, extraction, tools) if fault and fault.kind == "schema_not_honoured" else None
    if fault and not_held is None and fault.kind != "parse":
        return Verdict("server_fault", f"{fault.kind}: {fault.message}")
    if extraction.calls:
        if not case.expects_call:
            names = ", ".join(call.tool_name for call in extraction.calls)
            return Verdict("wrong_call", "; ".join([f"expected no call, got {names}", *(not_held or ())]))
        wrong = [*call_differences(case.calls, extraction.calls, tools), *(not_held or ())]
        return Verdict("wrong_call", "; ".join(wrong)) if wrong else Verdict("right_call")
    tried = extraction.status in ("broken", "truncated")
    if (found := degenerate(reply)) and not fault and (reply.text.strip() or not tried):
        return Verdict("degenerate", found)
    if tried:
        why = extraction.rejected[0] if extraction.rejected else None
        said = (why.detail or why.reason) if why else "unreadable"
        return Verdict("broken_call", said if said.startswith(extraction.status) else f"{extraction.status}: {said}")
    if fault:
        return Verdict("broken_call", fault.message)
    if case.expects_call:
        return Verdict("wrong_abstention", f"expected {', '.join(call['name'] for call in case.calls)}")
    return Verdict("right_abstention")


# what a grammar made of a schema always says: an error of any other keyword is one that decoding cannot prevent
_SHAPE = frozenset({"type", "enum", "const", "required", "additionalProperties", "falseSchema"})
_CONDITIONAL = ("then", "else", "dependentRequired", "dependentSchemas")


def _not_held(reply: Reply, extraction: Extraction, tools: Mapping[str, Tool]) -> list[str] | None:
    """Return what calls break that decoding could not hold; None where it held nothing at all."""
    try:
        loads(reply.text)
    except ValueError:
        return None
    if not extraction.calls or any(call.repairs or call.tool_name not in tools for call in extraction.calls):
        return None
    errors = [error for call in extraction.calls for error in broken(call.arguments, tools[call.tool_name].parameters)]
    words = [_beyond_shape(error) for error in errors]
    if None in words:
        return None
    return [f"decoding did not hold {word}: {error.message}" for word, error in zip(words, errors, strict=True)]


def _beyond_shape(error: Any) -> str | None:
    """Return the keyword that a value of the right shape breaks; of several schemas, in the one whose shape it has."""
    branches = [[_beyond_shape(inner) for inner in branch] for branch in getattr(error.kind, "context", None) or ()]
    if branches and [] not in branches:  # one that fits breaks oneOf by fitting too
        return next((words[0] for words in branches if None not in words), None)
    name: str = next((step for step in error.schema_path if step in _CONDITIONAL), error.kind.name)
    return None if name in _SHAPE else name


def call_differences(
    expected: Sequence[dict[str, Any]],
    calls: Sequence[ToolCall],
    tools: dict[str, Tool],
    spare: Collection[int] = (),
) -> list[str]:
    """Return one sentence for each way in which calls differ from the expected ones; order does not matter.

    Args:
        expected: calls as {"name", "arguments"}, arguments plain or matchers.
        calls: the calls made; where several could stand for an expected one, the first is taken.
        tools: name -> tool, for defaults.
        spare: places of calls that may be made besides.
    """
    taken = assignment([[not _call_difference(want, call, tools) for call in calls] for want in expected])
    left = [place for place in range(len(calls)) if place not in taken]
    found: list[str] = []
    for want in (want for want, place in zip(expected, taken, strict=True) if place is None):
        same = (place for place in left if calls[place].tool_name == want["name"])
        near = next(same, next((place for place in left if place not in spare), None))
        if near is None:
            found.append(f"missing call of {want['name']}")
            continue
        left.remove(near)
        found.extend(_call_difference(want, calls[near], tools))
    return found + [f"extra call of {calls[place].tool_name}" for place in left if place not in spare]


def _call_difference(want: dict[str, Any], call: ToolCall, tools: dict[str, Tool]) -> list[str]:
    if call.tool_name != want["name"]:
        return [f"wrong tool: expected {want['name']}, got {call.tool_name}"]
    tool = tools.get(want["name"])
    return differences(want["arguments"], call.arguments, tool.parameters if tool else None)


def degenerate(reply: Reply) -> str:
    """Return in words that a reply is empty, or was cut at its length while repeating itself; "" where it is neither.

    The end of a looping reply is one piece of 1 to 120 characters at least four times over
    (Source: ollama#15502, ollama#4446).
    """
    if not reply.text.strip():
        return "" if reply.tool_calls else "the reply is empty"
    if reply.limit == "loop":
        return "the reply repeats itself"
    tail = reply.text[-800:] if reply.finish_reason == "length" else ""
    repeats = any(tail.endswith(tail[-size:] * 4) for size in range(1, 121) if size * 4 <= len(tail))
    return "the reply repeats itself" if repeats else ""
