"""What does AirgapChat send, run and keep, round by round, and what comes back? One generator without I/O.

A run is: ask the model, read its calls, run them, put the results into delimited blocks, ask again; until a reply
holds no call or the limit is reached. The history only grows, so a server's prefix cache is hit in every round.

Not here: who does what it wants (`toolkit.agents.drivers`), how results are written down (`blocks`), the original's
rules (`toolkit.agents.originals.airgap`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.agents.airgap import blocks
from toolkit.agents.drivers import Act, Ask
from toolkit.agents.modes import invoked
from toolkit.asking import check_reply, read, request
from toolkit.errors import did_you_mean
from toolkit.execution.invoker import ToolInvoker
from toolkit.extraction.types import ExtractedCall, Extraction
from toolkit.messages import ChatMessage, ToolCall, ToolCallResult
from toolkit.models.base import ChatModel, Reply
from toolkit.recipes import Recipe
from toolkit.tools import Tool
from toolkit.traces import Trace

_WRITABLE_NAME = re.compile(r"[\w.\-:/]+")  # what every call syntax can carry


@dataclass(frozen=True)
class AirgapReply:
    """Show a run of AirgapChat; `AirgapReply(error.trace)` shows one that failed."""

    trace: Trace

    @property
    def text(self) -> str:
        """Return the words for the user."""
        return self.trace.text

    @property
    def content(self) -> str:
        """Return the words for the user, under LangChain's name."""
        return self.text

    @property
    def results(self) -> tuple[ToolCallResult, ...]:
        """Return the result of each answered call, in order: what the tool returned, as JSON data, or how it failed."""
        return tuple(event.data["result"] for event in self.trace.of_kind("tool_result"))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Return every call that was answered, in order, under the names that the tools were given."""
        return tuple(result.origin for result in self.results)

    @property
    def replies(self) -> tuple[Reply, ...]:
        """Return each reply of the model."""
        return tuple(event.data["reply"] for event in self.trace.of_kind("model_reply"))

    @property
    def extractions(self) -> tuple[Extraction, ...]:
        """Return what was read out of each reply; rejected candidates stand there with their reasons."""
        found = (event.data.get("extraction") for event in self.trace.of_kind("model_reply"))
        return tuple(one for one in found if one is not None)

    @property
    def prompts(self) -> tuple[tuple[ChatMessage, ...], ...]:
        """Return the exact messages of each request."""
        return tuple(event.data["messages"] for event in self.trace.of_kind("model_call"))

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the conversation so far, to continue from."""
        return tuple(self.trace.messages)

    @property
    def stop_reason(self) -> str:
        """Return `done`; `rounds` where the model still called after the last round; `error`."""
        return self.trace.stop_reason

    @property
    def raw_texts(self) -> tuple[str, ...]:
        """Return the text of each reply, exactly as written."""
        return tuple(reply.text for reply in self.replies)

    def to_dict(self) -> dict[str, Any]:
        """Return the trace as plain JSON data."""
        return self.trace.to_dict()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        names = ", ".join(repr(call.tool_name)[1:-1] for call in self.calls) or "no calls"
        said = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return f"AirgapReply({said!r}, {self.stop_reason}, {len(self.replies)} requests, {names}"[:99] + ")"

    def _repr_html_(self) -> str:
        return self.trace._repr_html_()


@dataclass(frozen=True)
class AirgapChunk:
    """Carry one piece of a streamed run: words for the user, the result of a call, or at the end the reply."""

    text: str = ""
    result: ToolCallResult | None = None
    reply: AirgapReply | None = None


Steps = Generator[Ask | Act, Any, AirgapReply]


@dataclass(frozen=True)
class Rounds:
    """Hold the settings of a run, most of them those of `AirgapChat`; `steps` is the run itself."""

    recipe: Recipe
    model: ChatModel
    tools: tuple[Tool, ...] = ()  # under the names that the model is shown
    registered: Mapping[str, str] = field(default_factory=dict)  # shown name -> the tool's own, where they differ
    invoker: ToolInvoker | None = None
    max_rounds: int = 5
    max_result_chars: int = 4000
    ignore_fenced: bool = False

    def with_tools(self, tools: Sequence[Tool]) -> Rounds:
        """Return the rounds with these tools and no others."""
        shown, registered = writable(tools)
        # JSON text keeps a result's type until its block is written; the block is what cuts long ones
        most = max(20_000, 4 * self.max_result_chars)
        invoker = ToolInvoker(shown, False, True, max_result_chars=most) if shown else None
        return replace(self, tools=shown, registered=registered, invoker=invoker)

    def steps(self, history: Sequence[ChatMessage], trace: Trace, options: Mapping[str, Any] | None = None) -> Steps:
        """Yield what is to be asked and run, receive the answers, and return the reply.

        Raises:
            ModelError: a request failed; `error.trace` holds the run so far, as on anything thrown in here.
        """
        run = _Progress(self, list(history), trace, options)
        try:
            stop_reason = yield from self._rounds(run)
        except Exception as error:
            trace.fail(error, run.history)
            raise
        trace.finish(run.history, stop_reason)
        return AirgapReply(trace)

    def _rounds(self, run: _Progress) -> Generator[Ask | Act, Any, str]:
        last, found = False, Extraction()
        for number in range(self.max_rounds + 1 if self.tools else 1):
            last = number == self.max_rounds
            found = run.read((yield Ask(self.model, run.request(last))))
            if last or not self.tools or not run.goes_on(found):
                break
            for call in found.calls:
                yield from self._answer(run, call)
        return "rounds" if self.tools and last and found.calls else "done"

    def _answer(self, run: _Progress, call: ExtractedCall) -> Generator[Act, Any, None]:
        """Answer one call, by its tool if there is such a one."""
        number, start = len(run.trace.events), time.perf_counter()
        run.trace.record("tool_call", call=call.call, number=number)
        if call.unknown_tool or self.invoker is None:
            result = run.unknown(call)
        else:
            invoker, bare = self.invoker, call.call
            result = yield Act(lambda mode: invoked(invoker, bare, mode))
        run.keep(call, result, number, time.perf_counter() - start)


@dataclass
class _Progress:
    """Gather one run while it goes on."""

    rounds: Rounds
    history: list[ChatMessage]
    trace: Trace
    options: Mapping[str, Any] | None
    number: int = 0
    repaired: bool = False

    def request(self, last: bool) -> Any:
        """Return the next request."""
        rounds = self.rounds
        disarm = rounds.recipe.loaded_protocol.disarming(rounds.tools)
        shown = blocks.as_turns(self.history, disarm, rounds.max_result_chars, last)
        sent = request(rounds.recipe, shown, rounds.tools, options=self.options)
        self.number += 1
        names = tuple(tool.name for tool in rounds.tools)
        arm, model = rounds.recipe.arm, rounds.model.name
        self.trace.record("model_call", model=model, messages=sent.messages, tools=names, arm=arm, number=self.number)
        return sent

    def read(self, reply: Reply) -> Extraction:
        """Read a reply and put it into the history."""
        try:
            check_reply(reply)
            found = read(self.rounds.recipe, reply, self.rounds.tools)
        except Exception:
            self.trace.record("model_reply", reply=reply, number=self.number)
            raise
        found = blocks.without_fenced(found) if self.rounds.ignore_fenced else found
        found = blocks.without_quoted(found, self.history)
        self.trace.record("model_reply", reply=reply, extraction=found, read_from=found.read_from, number=self.number)
        calls = [call.call for call in found.calls]
        said = found.text.strip() or (None if calls else "")
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

    def keep(self, call: ExtractedCall, result: ToolCallResult, number: int, seconds: float) -> None:
        """Put one call's result on record; the trace has the registered name, the history the shown one."""
        result = result if result.error else replace(result, result=_value(result.result))
        self.history.append(ChatMessage.from_tool(result.result, call.call, result.error))
        name = self.rounds.registered.get(call.tool_name, call.tool_name)
        known = replace(result, origin=replace(call.call, tool_name=name))
        self.trace.record("tool_result", result=known, number=number, seconds=seconds)


def _value(text: Any) -> Any:
    """Return the value that a tool gave, from the JSON text that carried it."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):  # text that a tool's own handler wrote
        return text


def writable(tools: Sequence[Tool]) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Return the tools under names that a call can carry, and what each changed name was.

    >>> shown, registered = writable([Tool("send mail", "Send it.", {})])
    >>> shown, registered
    ((Tool(send_mail()),), {'send_mail': 'send mail'})
    """
    taken = {tool.name for tool in tools}
    shown, registered = [], {}
    for tool in tools:
        name = tool.name
        if not _WRITABLE_NAME.fullmatch(name):
            name = re.sub(r"[^\w.\-:/]+", "_", name).strip("_") or "tool"
            while name in taken:
                name += "_"
            taken.add(name)
            registered[name] = tool.name
        shown.append(replace(tool, name=name))
    return tuple(shown), registered
