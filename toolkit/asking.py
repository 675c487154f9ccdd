"""Put one request the way a recipe says, and read its reply: the one road of everybody who asks a model.

    request(recipe, messages, tools) -> Request       exactly what is sent
    read(recipe, reply, offered)     -> Extraction    what the reply calls; `stream_reader` does so as it is written

`tk.ask`, `Agent`, `AirgapChat`, `TwoModeAgent`, `OpenAPITool`, the playground and a batch run use these two.

**The server's calls and calls in the text.** What the server itself read counts, in every arm. The text adds to it
only where the server read nothing: then a call found there is taken, in the native arm too. `Extraction.read_from`
says which of it happened: `native`, `text`, or `both` (the text's calls are then turned down as `beside_native`).
A call in a thought is never taken.

Not here: the verdict (`toolkit.evaluation.scoring`), running the calls (`toolkit.execution`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolkit.errors import ConfigError, ModelError
from toolkit.extraction import StreamExtractor, extract
from toolkit.extraction.pipeline import read_by_server
from toolkit.extraction.types import Extraction, Rejected
from toolkit.messages import ChatMessage, as_messages
from toolkit.models.base import ChatModel, Chunk, Options, Reply
from toolkit.models.seen import lost_keywords
from toolkit.prompting.bounds import with_bounds_told
from toolkit.recipes import Recipe
from toolkit.tools import Tool, as_tools
from toolkit.traces.json_text import html_of, in_html

_THOUGHTS = "thought_end"  # a syntax that takes thoughts out and reads no calls
READABLE_FAULTS = ("parse", "schema_not_honoured")  # the reply came, if not as wanted: what it holds is read


@dataclass(slots=True)  # not frozen: made in each turn of a loop, and freezing trebles the cost of making one
class Request:
    """Hold exactly what is sent to a model.

    Attributes:
        messages: the prompt, as messages.
        offered: the tools that a reply may call, whichever way they are shown.
        tools: the tools for the server; None in the prompted and constrained arms.
        schema: what decoding is held to, or None.
        options: the settings, every default filled in.
        tool_choice: for servers that enforce it.
        raw: the messages are one text, sent as it is, without the model's chat template.
    """

    messages: tuple[ChatMessage, ...]
    offered: tuple[Tool, ...] = ()
    tools: tuple[Tool, ...] | None = None
    schema: dict[str, Any] | None = None
    options: Options = field(default_factory=Options)
    tool_choice: str | None = None
    raw: bool = False

    def send(self, model: ChatModel) -> Reply:
        """Return the model's reply."""
        if self.raw:
            return model.complete(self._text, self.schema, self.options)
        return model.chat(self.messages, self.tools, self.schema, self.options, tool_choice=self.tool_choice)

    async def asend(self, model: ChatModel) -> Reply:
        """Return the model's reply without blocking the event loop."""
        if self.raw:
            return await model.acomplete(self._text, self.schema, self.options)
        return await model.achat(self.messages, **self._arguments)

    def stream(self, model: ChatModel) -> Iterator[Chunk]:
        """Yield the reply piece by piece; the last chunk carries the whole reply."""
        if self.raw:
            return model.complete_stream(self._text, schema=self.schema, options=self.options)
        return model.stream(self.messages, **self._arguments)

    def astream(self, model: ChatModel) -> AsyncIterator[Chunk]:
        """Yield the reply piece by piece without blocking the event loop; raw texts have no such stream."""
        return model.astream(self.messages, **self._arguments)

    @property
    def _text(self) -> str:
        return self.messages[0].text or ""

    @property
    def _arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("tools", "schema", "options", "tool_choice")}


@dataclass(frozen=True)
class Asked:
    """Hold one request and what came of it.

    Attributes:
        recipe: how it was asked.
        request: exactly what was sent.
        reply: what the model returned.
        extraction: what was read out of it.
        said: the messages as they were given.
        written: what was read out of the model's own text, where the recipe's transport is `both`.
        model: the model that was asked.
    """

    recipe: Recipe
    request: Request
    reply: Reply
    extraction: Extraction
    said: tuple[ChatMessage, ...] = ()
    written: Extraction | None = None
    model: ChatModel | None = field(default=None, repr=False, compare=False)

    @property
    def seen(self) -> str:
        """Return the text that the model read, tools included, as its server rendered it; may ask the server.

        Raises:
            UserError: the server does not show it.
        """
        sent = self.reply.raw.get("request", {})
        if "prompt" in sent or self.request.raw:
            return str(sent.get("prompt") or self.request._text)
        if self.model is None:
            raise ConfigError("The model that was asked is not known any more, so that it cannot be asked for this.")
        return self.model.apply_template(self.request.messages, self.request.tools, self.request.options)

    @property
    def tools_seen(self) -> list[dict[str, Any]]:
        """Return the server's tools as they reached the model's template; nothing in the other arms."""
        specs = [tool.tool_spec for tool in self.request.tools or ()]
        return self.model.tools_as_kept(specs) if self.model else specs

    @property
    def lost(self) -> list[str]:
        """Return what of the tools never reached the model, each as `tool.parameter.keyword`."""
        specs = [tool.tool_spec for tool in self.request.tools or ()]
        return lost_keywords(specs) if self.tools_seen != specs else []

    @property
    def readings(self) -> str:
        """Tell whether the calls of the chat and of the model's own text are the same; empty where only one is known.

        Returns:
            `same`, `chat only`, `text only`, or `differ`.
        """
        if self.written is None:
            return ""
        chat, text = ([(c.tool_name, c.arguments) for c in found.calls] for found in (self.extraction, self.written))
        if chat == text:
            return "same"
        return "differ" if chat and text else "chat only" if chat else "text only"

    @property
    def prompt(self) -> tuple[ChatMessage, ...]:
        """Return exactly the messages sent."""
        return self.request.messages

    @property
    def disarmed(self) -> list[tuple[str, str]]:
        """Return every text that was sent otherwise than it was given: as it was, and as it was sent."""
        return disarmed(self.recipe, self.said, self.request.offered) if self.said else []

    def __repr__(self) -> str:
        changed = f", {count} text{'s' * (count > 1)} disarmed" if (count := len(self.disarmed)) else ""
        return f"Asked({self.recipe.name!r}: {self.extraction!r}{changed})"

    def _repr_html_(self) -> str:
        return self.extraction._repr_html_() + disarmed_html(self.disarmed) + lost_html(self.lost)


def lost_html(lost: list[str]) -> str:
    """Return one line that names what of the tools never reaches the model."""
    said = in_html(", ".join(lost))
    return f'<div style="font-size:12px;color:#777777">Never reaches the model: {said}</div>' if lost else ""


def disarmed(recipe: Recipe, messages: Any, tools: Any) -> list[tuple[str, str]]:
    """Return every text of users and tools that a request changes, so that no echo of it is a call; see `Disarming`."""
    return [] if recipe.arm == "native" else recipe.loaded_protocol.altered(tools, messages)


def disarmed_html(pairs: list[tuple[str, str]]) -> str:
    """Return one line for each text that was changed, as it was sent."""
    return html_of(
        f'<div style="font-size:12px;color:#777777">Changed, so that no echo is a call: {in_html(sent)}</div>'
        for _, sent in pairs
    )


def request(
    recipe: Recipe,
    messages: Any,
    tools: Any = None,
    *,
    tool_choice: str | None = None,
    parallel: bool | None = None,
    options: Mapping[str, Any] | None = None,
    system: str | None = None,
) -> Request:
    """Return exactly what is sent.

    Args:
        recipe: how to ask.
        messages: anything `as_messages` reads.
        tools: anything `as_tools` reads; with the choice "none" they are not shown.
        tool_choice: another than the recipe's, for this request alone.
        parallel: another than the recipe's, for this request alone.
        options: settings laid over the recipe's, for this request alone.
        system: another system text than the recipe's; "" where the messages hold it already.

    Raises:
        ConfigError: the protocol's template fails, the tool choice is unknown, or an option is.
    """
    said = as_messages(messages)
    if first := recipe.system if system is None else system:
        said.insert(0, ChatMessage.from_system(first))
    wide = recipe.parallel if parallel is None else parallel
    return assemble(recipe, tuple(said), tuple(as_tools(tools)), tool_choice or recipe.tool_choice, wide, options)


def assemble(
    recipe: Recipe,
    messages: tuple[ChatMessage, ...],
    offered: tuple[Tool, ...],
    tool_choice: str,
    parallel: bool,
    options: Mapping[str, Any] | None = None,
) -> Request:
    """Return what is sent for messages and tools that are read already, the system text among them; see `request`."""
    settings = Options.of(options, recipe.settings) if options else recipe.settings
    if recipe.arm == "native":
        shown = None if tool_choice == "none" else offered or None
        if shown and recipe.tell_bounds:
            shown = tuple(map(with_bounds_told, shown))
        return Request(messages, offered, shown, None, settings, None if tool_choice == "auto" else tool_choice)
    protocol = recipe.loaded_protocol
    prompt = protocol.render(offered, messages, tool_choice, arm=recipe.arm, parallel=parallel)
    schema = protocol.response_schema(offered, tool_choice, parallel=parallel) if recipe.arm == "constrained" else None
    return Request(tuple(prompt), offered, None, schema, settings)


def prompt_request(
    recipe: Recipe, prompt: str, offered: tuple[Tool, ...] = (), *, schema: dict[str, Any] | None = None, raw: bool
) -> Request:
    """Return what is sent for a prompt that is written already.

    Args:
        recipe: its options are sent.
        prompt: the whole text.
        offered: the tools that it shows.
        schema: what decoding is held to.
        raw: whether it is sent as it is, without the model's chat template.
    """
    return Request((ChatMessage.from_user(prompt),), offered, None, schema, recipe.settings, None, raw)


def read(recipe: Recipe, reply: Reply, offered: Any = None) -> Extraction:
    """Read a reply the way a recipe says; works on stored replies, without any model.

    In the constrained arm the text of a reply without calls is the answer inside its JSON.

    Args:
        recipe: how it was asked.
        reply: what the model returned.
        offered: the tools that may be called; None if that is not known. Where there are none, nothing is a call.
    """
    native = reply.tool_calls
    if native and not reply.text:
        found = read_by_server(native, offered, reply.finish_reason)
    else:
        found = extract(
            reply.text,
            tools=offered,
            protocol=_syntaxes(recipe, offered),
            finish_reason=reply.finish_reason,
            native_calls=native,
        )
    if "invalid_tool_calls" in reply.raw:
        found = _with_unread(found, reply.raw["invalid_tool_calls"])
    if recipe.arm == "constrained" and not found.calls:
        found = replace(found, text=recipe.loaded_protocol.answer(found.text))
    return found


def stream_reader(recipe: Recipe, offered: Any = None) -> StreamExtractor:
    """Return what reads a reply while it is written, as `read` reads the whole."""
    return StreamExtractor(offered, _syntaxes(recipe, offered))


def _syntaxes(recipe: Recipe, offered: Any) -> Any:
    """Return what `extract` is to look for."""
    if isinstance(offered, (list, tuple)) and not offered:
        return _THOUGHTS
    if recipe.arm == "native" or recipe.extraction == "auto":
        return "auto"
    if recipe.extraction == "strict" and recipe.arm == "prompted":
        return recipe.loaded_protocol.syntax
    return recipe.loaded_protocol


def _with_unread(found: Extraction, unread: Any) -> Extraction:
    """Add the calls that the server saw and could not read."""
    rejected = [
        Rejected((0, 0), "native", "bad_json", str(bad.get("error") or bad.get("reason") or ""), bad.get("name"))
        for bad in unread
    ]
    status = "broken" if found.status == "abstained" else found.status
    return replace(found, rejected=(*found.rejected, *rejected), status=status)


def check_reply(reply: Reply) -> None:
    """Raise ModelError if the server failed, other than by not reading its own model's call."""
    fault = reply.fault
    if fault is not None and fault.kind not in READABLE_FAULTS:
        raise ModelError(f"Model {reply.model!r} failed: {fault.kind}: {fault.message}", fault)


def ask(recipe: Recipe, messages: Any, tools: Any = None, model: ChatModel | None = None) -> Asked:
    """Ask the recipe's model one question and read its reply.

    Args:
        recipe: how to ask.
        messages: text, messages, or a `Case`, which brings its own tools.
        tools: the tools to offer.
        model: a loaded model, such as one wrapped by a store; by default the recipe's own.

    Raises:
        UserError: the model cannot be reached, or the recipe cannot be rendered.
    """
    if hasattr(messages, "expects_call"):
        messages, tools = messages.messages, tools or messages.tools
    sent = request(recipe, messages, tools)
    if model is None:
        from toolkit.models import load_model

        model = load_model(recipe.model)
    reply, written = sent.send(model), None
    if recipe.transport == "both":
        raw = replace(sent, options=replace(sent.options, transport="raw")).send(model)
        written = read(recipe, raw, sent.offered) if raw.fault is None or raw.fault.kind in READABLE_FAULTS else None
    found = read(recipe, reply, sent.offered)
    return Asked(recipe, sent, reply, found, tuple(as_messages(messages)), written, model)
