"""What does AirgapChat send, run and keep, round by round? One generator without I/O.

A run is: ask the model, read its calls, run them, put the results into delimited blocks, ask again; until a reply
holds no call or the limit is reached. The history only grows, so a server's prefix cache is hit in every round.

Not here: who asks the model and runs the tools (`toolkit.agents.airgap.chat`), how results are written down
(`blocks`), what comes back (`reply`), the original's rules (`compat`).
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.agents.airgap import blocks
from toolkit.agents.airgap.reply import AirgapReply
from toolkit.agents.airgap.stream import THOUGHTS_ONLY
from toolkit.agents.partial import keep_partial
from toolkit.errors import ModelError, did_you_mean
from toolkit.extraction.pipeline import extract
from toolkit.extraction.types import ExtractedCall, Extraction
from toolkit.messages import ChatMessage, ToolCall, ToolCallResult
from toolkit.models.base import Reply
from toolkit.prompting.protocols import Protocol
from toolkit.tools import Tool


@dataclass(frozen=True)
class Ask:
    """Want one request sent to the model; the answer is a Reply."""

    messages: list[ChatMessage]


@dataclass(frozen=True)
class Run:
    """Want one call run; the answer is a ToolCallResult."""

    call: ToolCall


Steps = Generator[Ask | Run, Any, AirgapReply]


@dataclass(frozen=True)
class Rounds:
    """Hold the settings of a run; `steps` is the run itself.

    Attributes:
        protocol: how tools are shown and calls are read.
        tools: what may be called, under the names that the model is shown.
        registered: shown name -> the name the tool was given, where the two differ.
        max_rounds: how often tools may be run before the model must answer.
        max_result_chars: longest result that is shown whole, in characters of JSON.
        ignore_fenced: whether calls in code fences are examples and are not run.
    """

    protocol: Protocol
    tools: tuple[Tool, ...] = ()
    registered: dict[str, str] = field(default_factory=dict)
    max_rounds: int = 5
    max_result_chars: int = 4000
    ignore_fenced: bool = False

    def steps(self, history: Sequence[ChatMessage]) -> Steps:
        """Yield what is to be asked and run, receive the answers, and return the reply.

        Raises:
            ModelError: a request failed; its attribute `partial` holds the run so far, as on anything thrown in here.
        """
        run = _Progress(self, list(history))
        try:
            return (yield from self._rounds(run))
        except Exception as error:
            keep_partial(error, lambda: run.reply("fault"))
            raise

    def _rounds(self, run: _Progress) -> Steps:
        for number in range(self.max_rounds + 1 if self.tools else 1):
            last = number == self.max_rounds
            found = run.read((yield Ask(run.prompt(last))))
            if last or not self.tools or not run.goes_on(found):
                break
            for call in found.calls:
                run.keep(call, run.unknown(call) if call.unknown_tool else (yield Run(call.call)))
        return run.reply("rounds" if self.tools and last and found.calls else "answered")


@dataclass
class _Progress:
    """Gather one run while it goes on."""

    rounds: Rounds
    history: list[ChatMessage]
    calls: list[ToolCall] = field(default_factory=list)
    results: list[ToolCallResult] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    extractions: list[Extraction] = field(default_factory=list)
    prompts: list[tuple[ChatMessage, ...]] = field(default_factory=list)
    repaired: bool = False
    text: str = ""

    def prompt(self, last: bool) -> list[ChatMessage]:
        """Return the messages of the next request."""
        shown = blocks.as_turns(self.history, self.rounds.protocol.markers, self.rounds.max_result_chars, last)
        prompt = self.rounds.protocol.render(self.rounds.tools, shown)
        self.prompts.append(tuple(prompt))
        return prompt

    def read(self, reply: Reply) -> Extraction:
        """Read a reply and put it into the history."""
        self.replies.append(reply)
        if reply.fault is not None:
            raise ModelError(f"The model failed on request {len(self.replies)}: {reply.fault.message}", reply.fault)
        tools, protocol = self.rounds.tools, self.rounds.protocol
        if tools:
            found = protocol.extract(reply.text, tools, reply.finish_reason, native_calls=reply.tool_calls)
        else:
            found = extract(reply.text, tools, THOUGHTS_ONLY)
        found = blocks.without_fenced(found) if self.rounds.ignore_fenced else found
        found = blocks.without_quoted(found, self.history)
        self.extractions.append(found)
        self.text = protocol.answer(found.text).strip()
        calls = [call.call for call in found.calls]
        said = self.text or (None if calls else reply.text)
        self.history.append(ChatMessage.from_assistant(said, tool_calls=calls))
        return found

    def goes_on(self, found: Extraction) -> bool:
        """Tell whether another request is due: there are calls to answer, or a failed try to be mended once."""
        if found.calls or self.repaired or found.status not in ("broken", "truncated"):
            return bool(found.calls)
        self.repaired = True
        reasons = "; ".join(dict.fromkeys(r.detail or r.reason for r in found.rejected)) or found.status
        self.history[-1] = ChatMessage.from_assistant(found.source)
        self.history.append(blocks.repair_message(reasons))
        return True

    def unknown(self, call: ExtractedCall) -> ToolCallResult:
        """Answer a call of a tool that is not there."""
        names = [tool.name for tool in self.rounds.tools]
        return ToolCallResult(
            f"There is no tool {call.tool_name!r}. {did_you_mean(call.tool_name, names)}", call.call, True
        )

    def keep(self, call: ExtractedCall, result: ToolCallResult) -> None:
        """Put one call and its result on record; the record has the registered name, the history the shown one."""
        result = result if result.error else replace(result, result=_value(result.result))
        self.history.append(ChatMessage.from_tool(result.result, call.call, result.error))
        name = self.rounds.registered.get(call.tool_name, call.tool_name)
        known = replace(call.call, tool_name=name)
        self.calls.append(known)
        self.results.append(replace(result, origin=known))

    def reply(self, stopped: str) -> AirgapReply:
        """Return the run as a value."""
        return AirgapReply(
            self.text,
            tuple(self.calls),
            tuple(self.results),
            tuple(self.replies),
            tuple(self.extractions),
            tuple(self.prompts),
            tuple(self.history),
            stopped,
        )


def _value(text: Any) -> Any:
    """Return the value that a tool gave, from the JSON text that carried it."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):  # text that a tool's own handler wrote
        return text
