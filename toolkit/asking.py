"""Ask a model once, the way a recipe says: render, request, extract.

The one road that the batch run, the playground and a line in a notebook share.
Not here: the verdict (`toolkit.evaluation.scoring`), running the calls (`toolkit.execution`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.extraction import extract
from toolkit.extraction.types import Extraction
from toolkit.messages import ChatMessage, as_messages
from toolkit.models.base import ChatModel, Options, Reply
from toolkit.recipes import Recipe
from toolkit.tools import Tool, as_tools


@dataclass(frozen=True)
class Asked:
    """Hold one request and what came of it.

    Attributes:
        recipe: how it was asked.
        prompt: exactly the messages sent.
        tools: the tools offered.
        schema: what decoding was held to, or None.
        options: the settings sent.
        reply: what the model returned.
        extraction: what was read out of it.
    """

    recipe: Recipe
    prompt: tuple[ChatMessage, ...]
    tools: tuple[Tool, ...]
    schema: dict[str, Any] | None
    options: Options
    reply: Reply
    extraction: Extraction

    def __repr__(self) -> str:
        return f"Asked({self.recipe.name!r}: {self.extraction!r})"

    def _repr_html_(self) -> str:
        return self.extraction._repr_html_()


def prepare(recipe: Recipe, messages: Any, tools: Any = None) -> tuple[list[ChatMessage], dict[str, Any] | None]:
    """Return what would be sent: the messages, and the schema of the constrained arm.

    Raises:
        ConfigError: the protocol's template fails, or the tool choice is unknown.
    """
    said = as_messages(messages)
    if recipe.arm == "native":
        head = [ChatMessage.from_system(recipe.system)] if recipe.system else []
        return head + said, None
    protocol = recipe.loaded_protocol
    if recipe.system:
        said = [ChatMessage.from_system(recipe.system), *said]
    prompt = protocol.render(tools, said, recipe.tool_choice, arm=recipe.arm, parallel=recipe.parallel)
    if recipe.arm == "constrained":
        return prompt, protocol.response_schema(tools, recipe.tool_choice, parallel=recipe.parallel)
    return prompt, None


def ask(recipe: Recipe, messages: Any, tools: Any = None, model: ChatModel | None = None, seed_shift: int = 0) -> Asked:
    """Ask the recipe's model one question and read its reply.

    Args:
        recipe: how to ask.
        messages: text, messages, or a `Case`, which brings its own tools.
        tools: the tools to offer.
        model: a loaded model, such as one wrapped by a store; by default the recipe's own.
        seed_shift: added to the seed, so that repeats differ at a temperature above 0.

    Raises:
        UserError: the model cannot be reached, or the recipe cannot be rendered.
    """
    if hasattr(messages, "expects_call"):
        messages, tools = messages.messages, tools or messages.tools
    offered = as_tools(tools)
    prompt, schema = prepare(recipe, messages, offered)
    options = recipe.settings
    if seed_shift and options.temperature > 0:
        options = Options.of({**options.to_dict(), "seed": options.seed + seed_shift})
    if model is None:
        from toolkit.models import load_model

        model = load_model(recipe.model)
    if recipe.arm == "native":
        reply = model.chat(prompt, tools=offered or None, options=options, tool_choice=recipe.tool_choice)
    else:
        reply = model.chat(prompt, schema=schema, options=options)
    return Asked(recipe, tuple(prompt), tuple(offered), schema, options, reply, read(recipe, reply, offered))


def read(recipe: Recipe, reply: Reply, tools: Any = None) -> Extraction:
    """Read a reply the way a recipe says; works on stored replies, without any model."""
    native = reply.tool_calls
    if recipe.arm == "native" or recipe.extraction == "auto":
        how: Any = "auto"
    elif recipe.extraction == "strict" and recipe.arm == "prompted":
        how = recipe.loaded_protocol.syntax
    else:
        how = recipe.loaded_protocol
    return extract(reply.text, tools=tools, protocol=how, finish_reason=reply.finish_reason, native_calls=native)
