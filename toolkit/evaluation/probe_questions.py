"""Ask a model and its server the questions of a probe, each with what it shows.

A small model is led to write a call by a conversation in which it wrote some: what counts is not whether it calls, but
what becomes of a call that it wrote. What it wrote is known from the same prompt as raw completion.

Not here: what a recipe leans on, keeping the answers (`probes`).
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import ModelError, ModelNotFoundError, ToolkitError, UserError
from toolkit.extraction import extract
from toolkit.messages import ChatMessage, ToolCall
from toolkit.models.base import ChatModel, ChatRequest, Options, Reply
from toolkit.models.catalogue import ModelCard, model_cards, show_model
from toolkit.models.ollama import OllamaModel
from toolkit.models.schemas import schema_problem
from toolkit.models.wire import ServerError, part
from toolkit.tools import Tool

Seen = tuple[str, bool | None, str]  # check, whether it holds, what was seen

_COLOURS = ["red", "green", "blue"]
_KEYS = ["zebra", "mango", "apple"]
_SCHEMA = {
    "type": "object",
    "properties": {key: {"type": "string", "enum": _COLOURS} for key in _KEYS},
    "required": _KEYS,
    "additionalProperties": False,
}
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_MARKS: dict[str, Any] = {  # keyword of a tool -> a value that nothing else in a prompt holds
    "description": "probe-described", "enum": ["probe-enum"], "default": "probe-default", "pattern": "^probe-pattern$",
    "const": "probe-const", "minimum": 70117, "maximum": 70229, "minLength": 70327, "format": "probe-format",
    "oneOf": [{"const": "probe-one"}], "anyOf": [{"type": "string", "description": "probe-any"}],
}  # fmt: skip
_SIGNS = {"enum": "probe-enum", "pattern": "probe-pattern", "oneOf": "probe-one", "anyOf": "probe-any"}
_START = "Here is a list of harbours, with what each is known for. Read it, then answer in one sentence.\n" + "\n".join(
    f"{number}. Harbour {number}: it is known for its {word}."
    for number, word in enumerate(["salt", "boats", "lamps", "ropes", "bread", "glass", "bells", "paper"] * 3, 1)
)
_GREEDY = [f"{_START}\nWhich harbour is known for {word}?" for word in ("salt", "glass", "bells", "ropes")]


class UnansweredError(ModelError):
    """Tell that the server gave no answer to a question, so that nothing is known."""


@dataclass
class Questions:
    """Put the questions of a probe to one model.

    Attributes:
        model: that is asked.
        options: of every request.
        card: what its server says of it; None where it is no model of an Ollama server.
        failed: whether a question was left without an answer by the server's fault.
    """

    model: ChatModel
    options: dict[str, Any]
    card: ModelCard | None = None
    failed: bool = False
    _spoken: list[Reply] = field(default_factory=list)

    def all(self) -> Iterator[Seen]:
        """Yield what each question showed."""
        if isinstance(self.model, OllamaModel):
            self.card = show_model(self.model.name, self.model.server.host)
        groups = (
            (self.thinking, ("think_on", "think_off", "think_apart")), (self.schemas, ("format", "key_order")),
            (self.schema_and_thinking, ("format_and_think",)), (self.tools_shown, ("tools_shown",)),
            (self.tools_read, ("tools_read",)), (self.unknown_name, ("unknown_name",)), (self.seed, ("seed",)),
            (self.greedy, ("order", "parallel")), (self.cache_and_speed, ("prefix_cache", "speed")),
            (self.template, ("template",)),
        )  # fmt: skip
        for asked, checks in groups:
            try:
                yield from asked()
            except ModelNotFoundError:
                raise
            except (ModelError, UserError) as error:
                self.failed |= isinstance(error, (UnansweredError, ServerError))
                yield from ((check, None, f"not known: {error}") for check in checks)

    def ask(self, said: Any, tools: Any = None, schema: Any = None, **options: Any) -> Reply:
        """Return a reply; UnansweredError where the server gave none."""
        reply = self.model.chat(said, tools, schema, self.options | options)
        if reply.fault and reply.fault.kind in ("server", "timeout", "overflow"):
            raise UnansweredError(reply.fault.message)
        return reply

    @property
    def _thinks(self) -> bool:
        return self.card is None or "thinking" in self.card.capabilities

    def thinking(self) -> Iterator[Seen]:
        """See whether `think` does what it says (Source: ollama#13493, ollama#10914)."""
        if not self._thinks:
            yield from ((check, None, "the model does not think") for check in ("think_on", "think_off", "think_apart"))
            return
        question = "How much is 17 and 25? Think first."
        on, off = (self.ask(question, think=think) for think in (True, False))
        within = [extract(reply.text, tools=[]).thinking.strip() for reply in (on, off)]
        came, rest = on.thinking.strip() or within[0], off.thinking.strip() or within[1]
        yield "think_on", bool(came), f"{len(came)} characters of thinking" if came else _words(on)
        yield "think_off", not rest, f"{rest!r:.60}" if rest else "none came"
        left = next(filter(None, within), "")  # an empty pair of marks is no thought
        yield (
            "think_apart",
            False if left else bool(came) or None,
            f"in the answer: {left!r:.60}" if left else "it does",
        )

    def schemas(self) -> Iterator[Seen]:
        """See whether decoding is held to a schema, and in which order its keys come."""
        reply = self.ask("Paint three animals. Answer in JSON.", schema=_SCHEMA, think=False)
        yield "format", *_kept(reply)
        try:
            keys = list(json.loads(reply.text))
        except ValueError:
            yield "key_order", None, "no JSON came"
        else:
            yield "key_order", keys == _KEYS, f"asked {', '.join(_KEYS)}; came {', '.join(map(str, keys))}"

    def schema_and_thinking(self) -> Iterator[Seen]:
        """See whether a schema holds for a model that may think."""
        if not self._thinks:
            yield "format_and_think", None, "the model does not think"
            return
        yield "format_and_think", *_kept(self.ask("Paint three animals in JSON.", schema=_SCHEMA, think=True))

    def tools_shown(self) -> Iterator[Seen]:
        """See which parts of a tool reach the model."""
        marked: dict[str, Any] = {}
        for at, (word, value) in enumerate(_MARKS.items()):
            kind = "integer" if isinstance(value, int) and word != "minLength" else "string"
            marked[f"field{at}"] = {"type": kind, word: value}
        tool = Tool("probe_tool", "probe-tool-text", {"type": "object", "properties": marked}, None)
        prompt = self.rendered([ChatMessage.from_user("Hi")], [tool])
        if prompt is None:
            yield "tools_shown", None, "the server does not show its prompts"
            return
        if "probe_tool" not in prompt:
            yield "tools_shown", False, "tools do not reach the model at all"
            return
        lost = [word for word, value in _MARKS.items() if str(_SIGNS.get(word, value)) not in prompt]
        yield "tools_shown", not lost, f"lost: {', '.join(lost)}" if lost else "everything arrives"

    def tools_read(self) -> Iterator[Seen]:
        """See whether a call comes back that the model wrote."""
        reply, written = self._called("weather")
        if reply.tool_calls:
            yield "tools_read", True, f"handed over: {reply.tool_calls[0].tool_name} {reply.tool_calls[0].arguments}"
        else:
            yield "tools_read", False if written else None, _lost(reply) if written else "the model wrote no call"

    def unknown_name(self) -> Iterator[Seen]:
        """See what becomes of a call of a tool that was not offered."""
        reply, written = self._called("forecast")
        named = [call.tool_name for call in reply.tool_calls]
        if "forecast" in named:
            yield "unknown_name", True, "handed over"
        elif reply.fault or "forecast" in reply.text:
            yield "unknown_name", True, _lost(reply)
        elif "forecast" not in written:
            yield "unknown_name", None, "the model wrote no such call"
        else:
            yield "unknown_name", False, f"turned into a call of {named[0]}" if named else _lost(reply)

    def seed(self) -> Iterator[Seen]:
        """See whether a seed decides what is drawn; the first request warms the cache up (Source: ollama#4990)."""
        texts = [self.ask(_GREEDY[0], temperature=1.0, seed=seed, num_predict=24).text for seed in (11, 11, 11, 12)]
        seen = f"another seed gives {'the same words, too' if texts[3] == texts[2] else 'other words'}"
        if texts[1] != texts[2]:
            seen = f"{texts[1]!r:.40} and {texts[2]!r:.40}"
        elif texts[0] != texts[1]:
            seen += "; the first reply, of a cold cache, was another"
        yield "seed", texts[1] == texts[2], seen

    def greedy(self) -> Iterator[Seen]:
        """See how many greedy replies change with what was asked before, and with requests in flight at once."""
        first = [self._greedy(text) for text in _GREEDY]
        self._spoken = first
        again = [self._greedy(text) for text in reversed(_GREEDY)][::-1]
        with ThreadPoolExecutor(len(_GREEDY)) as threads:
            at_once = list(threads.map(self._greedy, _GREEDY))
        for check, others in (("order", again), ("parallel", at_once)):
            differ = sum(one.text != other.text for one, other in zip(first, others, strict=True))
            yield check, not differ, f"{differ} of {len(first)} replies differ"

    def _greedy(self, text: str) -> Reply:
        return self.ask(text, temperature=0.0, num_predict=32)

    def cache_and_speed(self) -> Iterator[Seen]:
        """See whether a prompt that was read is read again, and how fast reading and writing are."""
        said = f"Note {uuid.uuid4()}.\n{_GREEDY[0]}"  # which no cache holds
        cold, warm = self.ask(said, num_predict=4), self.ask(said, num_predict=4)
        took = [_seconds(reply, "prompt_eval_duration") for reply in (cold, warm)]
        if warm.cached_tokens is not None:
            yield "prefix_cache", warm.cached_tokens > 0, f"{warm.cached_tokens} of {warm.prompt_tokens} tokens cached"
        elif all(took):
            yield "prefix_cache", took[1] < 0.5 * took[0], f"read in {took[0]:.2f} s, then in {took[1]:.2f} s"
        else:
            yield "prefix_cache", None, "the server tells no times"
        read = cold.prompt_tokens / took[0] if took[0] and cold.prompt_tokens else 0.0
        wrote = _rate(self._spoken)
        rates = [f"{what} {rate:,.0f} tokens/s" for what, rate in (("writes", wrote), ("reads", read)) if rate]
        yield "speed", True if rates else None, ", ".join(rates) or "the server tells no times"

    def template(self) -> Iterator[Seen]:
        """See whether another tag of the same file brings its template along (Source: ollama#17282).

        A process that Ollama started for a model whose prompts it renders has no template of its own.
        """
        if self.card is None or not isinstance(self.model, OllamaModel):
            yield "template", None, "no Ollama server"
            return
        mine = self.card
        others = [
            card for card in model_cards(self.model.server.host) if card.blob == mine.blob and card.name != mine.name
        ]
        risky = [card for card in others if mine.blob and card.road != mine.road == "native"]
        if not risky:
            yield "template", True, "rendered by Ollama" if mine.road != "native" else "no other road uses its file"
            return
        said = [ChatMessage.from_user("Hi")]
        tools = [_tool("weather")] if "tools" in mine.capabilities else []
        prompts = []
        for loaded in ([], risky[:1]):
            self._unload([mine, *risky])
            for card in loaded:  # asked alike, for another window would be another process
                self.rendered(said, [], card.name.removeprefix("ollama/"))
            try:
                prompts.append(self.rendered(said, tools))
            except ModelError as error:
                prompts.append(f"refused: {error}")
        self._unload([mine, *risky])  # so that the next request finds the right one
        seen = f"after {risky[0].name} was loaded, the prompt begins {prompts[1]!r:.60}"
        yield "template", prompts[0] == prompts[1], seen

    def _unload(self, cards: list[ModelCard]) -> None:
        assert isinstance(self.model, OllamaModel)
        for card in cards:
            with contextlib.suppress(ToolkitError):
                self.model.server.look("/api/generate", {"model": card.name.removeprefix("ollama/"), "keep_alive": 0})

    def rendered(self, said: list[ChatMessage], tools: list[Tool], model: str = "") -> str | None:
        """Return the prompt that the server makes of a conversation; None where it does not show it.

        Args:
            said: the conversation.
            tools: that are offered.
            model: another one of the server.
        """
        if not isinstance(self.model, OllamaModel):
            return None
        request = ChatRequest(Options.of(self.options, self.model.defaults), messages=said, tools=tools)
        route, body = self.model.body(request)
        body |= {"model": model or body["model"], "stream": False, "_debug_render_only": True}
        server = self.model.server
        server.look_s = max(server.look_s, request.options.timeout_s)  # it may load the model
        shown = part(server.look(route, body), "_debug_info", dict)
        return part(shown, "rendered_template", str) or None

    def _called(self, name: str) -> tuple[Reply, str]:
        """Return the reply to a conversation full of calls, and the call that the model wrote, as far as that is known.

        Raises:
            UserError: the model takes no tools.
        """
        said, tools = _habit(name), [_tool("weather")]
        reply = self.ask(said, tools, think=False if self.card and self._thinks else None)
        if reply.fault and reply.fault.kind == "tools_unsupported":
            raise UserError("the model takes no tools")
        if reply.tool_calls and reply.tool_calls[0].tool_name == name:
            return reply, name
        prompt = self.rendered(said, tools)
        if prompt is None:
            return reply, ""
        text = self.model.complete(prompt, options=self.options).text
        calls = extract(text, tools=[_tool("weather"), _tool("forecast")]).calls
        return reply, calls[0].tool_name if calls else ""


def _tool(name: str) -> Tool:
    return Tool(name, f"Tell the {name} of a city.", _CITY, None)


def _habit(name: str) -> list[ChatMessage]:
    said = []
    for city in ("Rome", "Lima", "Cairo"):
        call = ToolCall(name, {"city": city}, f"call_{city.lower()}")
        said += [ChatMessage.from_user(f"How is it in {city}?"), ChatMessage.from_assistant(tool_calls=[call]),
                 ChatMessage.from_tool("Sunny.", origin=call), ChatMessage.from_assistant("Sunny.")]  # fmt: skip
    return [*said, ChatMessage.from_user("How is it in Oslo?")]


def _kept(reply: Reply) -> tuple[bool | None, str]:
    if reply.finish_reason == "length":
        return None, f"cut off: {_words(reply)}"
    problem = schema_problem(reply.text, _SCHEMA)
    return not problem, problem or "kept"


def _words(reply: Reply) -> str:
    return f"{reply.text.strip()!r:.60}"


def _lost(reply: Reply) -> str:
    if reply.fault:
        return f"reported: {reply.fault.message:.80}"
    return f"left in the text: {_words(reply)}" if reply.text.strip() else "lost without a word"


def _seconds(reply: Reply, key: str) -> float:
    took = part(reply.raw, "response", dict).get(key)
    return took / 1e9 if isinstance(took, (int, float)) else 0.0


def _rate(replies: list[Reply]) -> float:
    """Return tokens written per second, by the server's clock where it tells."""
    took = sum(_seconds(reply, "eval_duration") or reply.seconds for reply in replies)
    return sum(reply.completion_tokens or 0 for reply in replies) / took if took else 0.0
