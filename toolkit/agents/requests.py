"""Say what middleware is given and gives back: ModelRequest, ModelResponse, ToolCallRequest, Command.

The names and fields are LangChain's. But: requests cannot be changed in place, since such edits leaked into the
history and into later runs there; `override` makes a changed copy.
Not here: the hooks that take them (`toolkit.agents.middleware`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import GenericAlias, MappingProxyType
from typing import Any, Self

from toolkit.agents.runtime import Runtime
from toolkit.execution.arguments import copied
from toolkit.messages import ChatMessage, ToolCall, as_messages
from toolkit.models.base import ChatModel
from toolkit.tools import Tool
from toolkit.tools.injected import request_of

_set = object.__setattr__
# LangChain's classes are generic: `ModelRequest[Context]` stands in annotations
_subscripted: Any = classmethod(GenericAlias)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class _Frozen:
    """Refuse assignment, and say what to do instead."""

    __slots__ = ()
    __class_getitem__ = _subscripted

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        raise AttributeError(f"A {kind} cannot be changed. Pass on request.override({name}=…) instead.")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def _fields(self) -> dict[str, Any]:
        slots: tuple[str, ...] = type(self).__slots__
        return {name: getattr(self, name) for name in slots}

    def override(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; this request stays as it is.

        Raises:
            TypeError: an unknown field.
        """
        known = self._fields()
        if unknown := [name for name in changes if name not in known and name != "system_prompt"]:
            raise TypeError(f"{type(self).__name__} has no field {unknown[0]!r}. Its fields: {', '.join(known)}.")
        return type(self)(**{**known, **changes})

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]


def system_of(value: Any) -> ChatMessage:
    """Return the system message that text, a message or LangChain's `SystemMessage` stands for.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(value, ChatMessage):
        return value
    if isinstance(value, str):
        return ChatMessage.from_system(value)
    [message] = as_messages(value)
    return ChatMessage.from_system(message.text or "")


class ModelRequest(_Frozen):
    """Hold one model call that is about to be made.

    Attributes:
        model: the `ChatModel` to ask.
        messages: the conversation without the agent's own system prompt, as a tuple.
        system_message: put in front when the call is made; never stored.
        tool_choice: None (auto), "none", "any", "no-parallel", or a tool's name.
        tools: the tools to offer, as a tuple.
        response_format: what `structured_response` is to look like, or None.
        state: a copy of the run's state.
        runtime: the run's `Runtime`.
        model_settings: options for this call alone, such as {"temperature": 0.5}; read-only.
    """

    __slots__ = (
        "messages", "model", "model_settings", "response_format", "runtime", "state", "system_message", "tool_choice",
        "tools",
    )  # fmt: skip
    model: ChatModel
    messages: tuple[ChatMessage, ...]
    system_message: ChatMessage | None
    tool_choice: str | None
    tools: tuple[Tool, ...]
    response_format: Any
    state: Mapping[str, Any]
    runtime: Runtime
    model_settings: Mapping[str, Any]

    def __init__(
        self,
        *,
        model: ChatModel,
        messages: Any,
        system_message: ChatMessage | None = None,
        system_prompt: str | None = None,
        tool_choice: str | None = None,
        tools: Iterable[Tool] = (),
        response_format: Any = None,
        state: Mapping[str, Any] | None = None,
        runtime: Runtime | None = None,
        model_settings: Mapping[str, Any] | None = None,
    ) -> None:
        if system_prompt is not None and system_message is not None:
            raise ValueError("Give system_prompt or system_message, not both: they are two words for one field.")
        system = system_message if system_prompt is None else system_prompt
        _set(self, "model", model)
        _set(self, "messages", messages if type(messages) is tuple else tuple(as_messages(messages)))
        _set(self, "system_message", None if system is None else system_of(system))
        _set(self, "tool_choice", tool_choice)
        _set(self, "tools", tuple(tools or ()))
        _set(self, "response_format", response_format)
        _set(self, "state", {"messages": []} if state is None else state)
        _set(self, "runtime", runtime)
        _set(self, "model_settings", MappingProxyType(dict(model_settings)) if model_settings else _NOTHING)

    def going_on(self, messages: tuple[ChatMessage, ...]) -> Self:
        """Put a later turn's messages into this very request; only for one that nobody but the loop has seen."""
        _set(self, "messages", messages)
        return self

    @property
    def system_prompt(self) -> str | None:
        """Return the system message's text, or None."""
        return self.system_message.text if self.system_message else None

    def override(self, **changes: Any) -> Self:
        """Return a copy with some fields changed; `system_prompt=` sets the system message, None clears it.

        Raises:
            TypeError: an unknown field.
            ValueError: both `system_prompt` and `system_message`.
        """
        if "system_prompt" in changes:
            changes.setdefault("system_message", None)
        return super().override(**changes)

    def __repr__(self) -> str:
        tools = ", ".join(getattr(tool, "name", "?") for tool in self.tools)
        return f"ModelRequest({len(self.messages)} messages, tools=[{tools}], tool_choice={self.tool_choice})"[:100]


@dataclass
class ModelResponse:
    """Hold what a model call gave.

    Attributes:
        result: the messages to append, normally one assistant message.
        structured_response: the value in the shape of `response_format`, or None.
    """

    result: list[ChatMessage]
    structured_response: Any = None

    __class_getitem__ = _subscripted


@dataclass(frozen=True)
class Command:
    """Ask for a change of the state, from a hook, a tool or a wrapper.

    Attributes:
        update: state key -> value; merged like a hook's returned dict, `jump_to` included.
    """

    update: Mapping[str, Any] = field(default_factory=dict)

    __class_getitem__ = _subscripted


ToolAnswer = ChatMessage | Command  # what a call comes to: its result, or a change of the state that holds it


@dataclass
class ExtendedModelResponse:
    """Hold a model's response and a change of the state that goes with it."""

    model_response: ModelResponse
    command: Command | None = None

    __class_getitem__ = _subscripted


class Pause(BaseException):
    """Stop the run here, to go on later: raised by a hook, a wrapper, an `ask` or a tool.

    The run ends with `stop_reason="paused"`; `agent.run(trace)` goes on. It is no Exception, so that whoever catches
    a tool's failures lets it pass.
    """


class RequestedCall(ToolCall):
    """Hold a call so that it reads both ways: `call.arguments` and LangChain's `call["args"]`.

    >>> call = RequestedCall("add", {"x": 1}, "c1")
    >>> call["name"], call["args"], call["id"]
    ('add', {'x': 1}, 'c1')
    >>> {**call, "args": {"x": 2}}
    {'name': 'add', 'args': {'x': 2}, 'id': 'c1'}
    """

    _KEYS = ("name", "args", "id")

    @classmethod
    def of(cls, value: Any) -> RequestedCall:
        """Read a call from a ToolCall or a dict with name, args and id.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(value, RequestedCall):
            return value
        if isinstance(value, ToolCall):  # a copy: the history and the trace hold the call itself
            return cls(value.tool_name, copied(value.arguments), value.id)
        if isinstance(value, Mapping) and "name" in value:
            arguments = value.get("args", value.get("arguments"))
            return cls(value["name"], copied(dict(arguments or {})), value.get("id"))
        raise TypeError(f"{value!r} is no tool call. Give a ToolCall, or a dict with name, args and id.")

    @property
    def args(self) -> dict[str, Any]:
        """Return the arguments, in LangChain's word."""
        return self.arguments

    def keys(self) -> tuple[str, ...]:
        """Return the keys that LangChain's dict has."""
        return self._KEYS

    def __iter__(self) -> Iterator[str]:
        return iter(self._KEYS)

    def __getitem__(self, key: str) -> Any:
        if key not in self._KEYS:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return `self[key]`, or the default for a key that calls do not have."""
        return getattr(self, key) if key in self._KEYS else default


class ToolCallRequest(_Frozen):
    """Hold one tool call that is about to be run.

    Attributes:
        tool_call: the call; reads as `call.arguments` and as `call["args"]`. A tool is given the whole request where
            one of its parameters has this type:

                def pay(amount: int, request: tk.ToolCallRequest) -> tk.Command:
                    done = tk.ChatMessage.from_tool("paid", request.tool_call)
                    return tk.Command({"messages": [done], "spent": request.state["spent"] + amount})

        tool: the `Tool`, or None where no tool of that name is registered.
        state: a copy of the run's state; what `inputs_from_state` reads.
        runtime: the run's `Runtime`.
    """

    __slots__ = ("runtime", "state", "tool", "tool_call")
    injected_into_tools = True  # read by `toolkit.tools.signatures`: the model never fills such a parameter
    tool_call: RequestedCall
    tool: Tool | None
    state: Mapping[str, Any]
    runtime: Runtime

    def __init__(
        self,
        *,
        tool_call: ToolCall | Mapping[str, Any],
        tool: Tool | None = None,
        state: Mapping[str, Any] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        _set(self, "tool_call", RequestedCall.of(tool_call))
        _set(self, "tool", tool)
        _set(self, "state", {"messages": []} if state is None else state)
        _set(self, "runtime", runtime)

    @property
    def tool_call_id(self) -> str | None:
        """Return the call's id."""
        return self.tool_call.id

    @property
    def context(self) -> Any:
        """Return what the caller gave as `context=`."""
        return self.runtime.context

    @staticmethod
    def for_tool(state: Any, call: Any) -> Any:
        """Return what a tool is given for a parameter of this type."""
        return request_of(state)

    def __repr__(self) -> str:
        return f"ToolCallRequest({repr(self.tool_call.name)[1:-1]}, registered={self.tool is not None})"[:100]


class AgentRequest(_Frozen):
    """Hold a whole run that is about to start; `wrap_agent_call` gets it.

    Attributes:
        state: the input state; `override(state=…)` changes it.
        runtime: the run's `Runtime`.
    """

    __slots__ = ("runtime", "state")
    runtime: Runtime
    state: Mapping[str, Any]

    def __init__(self, *, state: Mapping[str, Any], runtime: Runtime | None = None) -> None:
        _set(self, "state", state)
        _set(self, "runtime", runtime)
