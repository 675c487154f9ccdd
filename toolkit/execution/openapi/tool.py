"""Let a model call a REST API: OpenAPITool turns the last user message into one request and returns its answer.

Any `ChatModel` will do: the operations go to it natively where it takes tools, else through a protocol's prompt, or
held to the operations' JSON Schema in the constrained arm.

Not here: the operations and their calls (`toolkit.execution.openapi.service`). For several calls, or an agent that
reads the answers, use `Toolset.from_openapi` instead: the same operations as ordinary tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from toolkit.asking import check_reply, read, request
from toolkit.errors import ConfigError, ModelError, ToolError, ToolInvocationError, UserError, did_you_mean
from toolkit.execution.conversion import to_text
from toolkit.execution.openapi.auth import as_credentials
from toolkit.execution.openapi.service import OpenAPIService
from toolkit.execution.openapi.spec import OpenAPISpec, Source, is_url
from toolkit.extraction.types import Extraction
from toolkit.messages import ChatMessage, ChatRole, ToolCall, as_messages
from toolkit.models.base import ChatModel, Options, Reply
from toolkit.prompting.protocols import Arm
from toolkit.recipes import Recipe
from toolkit.secrets import Secret, scrub
from toolkit.tools import Tool, as_tools
from toolkit.tools.shown import safe_str

_SPELLINGS = {"max_tokens": "num_predict", "max_completion_tokens": "num_predict"}  # what OpenAI calls our options


class LLMProvider(StrEnum):
    """Name who serves the model, in Haystack's words; a model name with its own prefix outranks it."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    COHERE = "cohere"
    OLLAMA = "ollama"
    EMBEDDED = "embedded"


class OpenAPITool:
    """Call one operation of an OpenAPI service as a model reads it from the user's words.

    >>> from toolkit import ScriptedModel
    >>> spec = {"openapi": "3.1.0", "paths": {"/now": {"get": {"operationId": "now"}}}}
    >>> OpenAPITool(ScriptedModel(["I cannot."]), spec=spec).run([ChatMessage.from_user("The time?")])
    {'service_response': [ChatMessage(user: '{"error": "The model called no operation; it said: I cannot."}')]}

    Args:
        generator_api: a ChatModel, a model's name, or a provider with `generator_api_params={"model": …}`.
        generator_api_params: `model`, and settings that `load_model` takes; `generation_kwargs` holds options.
        spec: URL, path, dict or text of the OpenAPI document; may also be given at run time.
        credentials: a Secret, or {scheme name: Secret}.
        allowed_operations: operationIds that may be called; enforced when a call is made. None allows all.
        protocol: how operations are shown in the prompted and constrained arms.
        arm: "native", "prompted" or "constrained"; None is native where the model takes tools, else prompted.
        recipe: how the request is put and its reply is read, in place of protocol and arm.
        settings: `server`, `credential_hosts`, `timeout_s`, `max_response_bytes`, as in `OpenAPIService.load`.

    Raises:
        ConfigError: the model, document, credentials or operations cannot be used.
    """

    def __init__(
        self,
        generator_api: ChatModel | LLMProvider | str,
        generator_api_params: Mapping[str, Any] | None = None,
        spec: Source | OpenAPISpec | None = None,
        credentials: Any = None,
        allowed_operations: Iterable[str] | None = None,
        *,
        protocol: Any = "hermes",
        arm: Arm | None = None,
        recipe: Recipe | None = None,
        **settings: Any,
    ) -> None:
        self.generator_api = generator_api
        self.generator_api_params = dict(generator_api_params or {})
        self.spec = str(spec) if isinstance(spec, Path) else dict(spec) if isinstance(spec, Mapping) else spec
        self.credentials = as_credentials(credentials)
        self.allowed_operations = list(allowed_operations) if allowed_operations is not None else None
        self.protocol = protocol
        self.settings = settings
        self.options = dict(self.generator_api_params.get("generation_kwargs") or {})
        self.model = _model(generator_api, self.generator_api_params)
        self._arm = recipe.arm if recipe else arm
        self._recipe = recipe
        self.service = None if spec is None else self._load(spec, self.credentials)

    @property
    def arm(self) -> Arm:
        """Return how calls are obtained; a server may be asked whether its model takes tools."""
        return self._arm or ("native" if self.model.supports_tools else "prompted")

    def run(
        self,
        messages: Any,
        fc_generator_kwargs: Mapping[str, Any] | None = None,
        spec: Source | OpenAPISpec | None = None,
        credentials: Any = None,
    ) -> dict[str, list[ChatMessage]]:
        """Let the model choose a call, make it, and return the service's answer.

        A document given here replaces the first one; the list of allowed operations stays in force, and credentials
        from construction go along only to the servers they were given for. Only the first call of a reply is made.

        Args:
            messages: a conversation that ends with the user's instruction.
            fc_generator_kwargs: options of this request; `tools` replaces what the model is shown.
            spec: another OpenAPI document.
            credentials: other credentials.

        Returns:
            {"service_response": [message]}; its text is JSON: the answer, or {"error": …} whatever went wrong.

        Raises:
            ConfigError: no document, no instruction, or options that do not exist.
        """
        said = as_messages(messages)
        if not said or not said[-1].is_from(ChatRole.USER) or not (said[-1].text or "").strip():
            raise ConfigError("The last message must be the user's instruction, and not empty.")
        service = self._service(spec, credentials)
        recipe, tools = self._request(service.tools(), fc_generator_kwargs or {})
        meta: dict[str, Any] = {}
        try:
            answer = self._answer(service, self._choose(said, recipe, tools, meta), meta)
        except ToolError as error:
            answer = {"error": str(error)}
        return {"service_response": [ChatMessage.from_user(to_text(answer, quote=True), meta)]}

    def _answer(self, service: OpenAPIService, call: ToolCall, meta: dict[str, Any]) -> Any:
        """Make the call; a document that cannot be called is an error to report, not to raise, from here on."""
        meta |= {"operation": call.tool_name, "arguments": call.arguments}
        try:
            return service.call(call.tool_name, call.arguments)
        except UserError as error:
            return {"error": str(error)}

    def _load(self, spec: Source | OpenAPISpec, credentials: Any) -> OpenAPIService:
        return OpenAPIService.load(spec, credentials, self.allowed_operations, **self.settings)

    def _service(self, spec: Source | OpenAPISpec | None, credentials: Any) -> OpenAPIService:
        given = as_credentials(credentials)
        if spec is None:
            if self.service is None:
                raise ConfigError("There is no OpenAPI document. Give spec= to OpenAPITool or to run.")
            return self.service if given is None else replace(self.service, credentials=given)
        service = self._load(spec, given)
        if given is not None or self.credentials is None:
            return service
        home = service.home if self.service is None else service.home & self.service.home
        return replace(service, credentials=self.credentials, home=home)

    def _request(self, tools: list[Tool], kwargs: Mapping[str, Any]) -> tuple[Recipe, list[Tool]]:
        """Return how the model is asked, and which tools it is shown."""
        given = {_SPELLINGS.get(name, name): value for name, value in {**self.options, **kwargs}.items()}
        shown = as_tools(given.pop("tools")) if "tools" in given else tools
        arm = self.arm
        demanded = "auto" if arm == "native" else "any" if shown else "none"
        choice = given.pop("tool_choice", None) if arm == "native" else None
        recipe = self._recipe or Recipe.of_model(self.model, self.protocol, arm=arm)
        options = Options.of(given, recipe.settings).to_dict()
        return recipe.replace(options=options, tool_choice=choice or demanded, parallel=False), shown

    def _choose(self, messages: list[ChatMessage], recipe: Recipe, tools: list[Tool], meta: dict[str, Any]) -> ToolCall:
        """Ask the model and return its first call; that it failed, or called nothing, is a ToolInvocationError."""
        sent = request(recipe, messages, tools)
        reply = sent.send(self.model)
        try:
            check_reply(reply)
        except ModelError as error:
            raise ToolInvocationError(str(error)) from None
        found = read(recipe, reply, sent.offered)
        meta |= {"model": self.model.name, "arm": recipe.arm, "read_from": found.read_from, "reply": reply.text}
        if not found.calls:
            raise ToolInvocationError(_why_none(found, reply, tools))
        meta["calls_left_out"] = len(found.calls) - 1
        return found.calls[0].call

    def to_dict(self) -> dict[str, Any]:
        """Return the tool as plain JSON data.

        Raises:
            ConfigError: a credential stands in it itself, rather than the name of an environment variable.
            UserError: a parameter that JSON cannot hold.
        """
        kind, stored = type(self), self.credentials
        secrets = {name: secret.to_dict() for name, secret in stored.items()} if isinstance(stored, Mapping) else None
        shown = {
            "generator_api": self.model.name if isinstance(self.generator_api, ChatModel) else str(self.generator_api),
            "generator_api_params": self.generator_api_params,
            "spec": self.spec.document if isinstance(self.spec, OpenAPISpec) else self.spec,
            "allowed_operations": self.allowed_operations,
            "protocol": str(getattr(self.protocol, "name", self.protocol)),
            "arm": self._arm,
            **{name: list(v) if isinstance(v, (tuple, set, frozenset)) else v for name, v in self.settings.items()},
        }
        parameters = {name: _plain(name, value) for name, value in shown.items()}
        parameters["credentials"] = stored.to_dict() if isinstance(stored, Secret) else secrets
        return {"type": f"{kind.__module__}.{kind.__name__}", "init_parameters": parameters}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> OpenAPITool:
        """Build a tool from what `to_dict` gave."""
        parameters = dict(data["init_parameters"])
        stored = parameters.get("credentials")
        if stored and isinstance(stored.get("type"), str):
            parameters["credentials"] = Secret.from_dict(stored)
        elif stored:
            parameters["credentials"] = {name: Secret.from_dict(secret) for name, secret in stored.items()}
        return cls(**parameters)

    def __repr__(self) -> str:
        return f"OpenAPITool({scrub(self.model.name)}, {self.service or 'no document'})"[:100]


def _model(generator_api: Any, params: Mapping[str, Any]) -> ChatModel:
    """Return the model that Haystack's two arguments name."""
    from toolkit.models.registry import load_model

    if isinstance(generator_api, ChatModel):
        return generator_api
    if not isinstance(generator_api, str):
        raise ConfigError(f"generator_api is a ChatModel, a model's name or an LLMProvider, not {generator_api!r}.")
    settings = {name: value for name, value in params.items() if name not in ("model", "generation_kwargs")}
    provider, name = str(generator_api), params.get("model")
    if "/" in provider:
        return load_model(provider, **settings)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"Which model of {provider!r}? Give generator_api_params={{'model': 'ollama/qwen3:4b'}}.")
    if name.partition("/")[0] in ("ollama", "embedded", "openai"):
        return load_model(name, **settings)
    if address := settings.pop("api_base_url", None):
        name = f"{name}@{address}"
    return load_model(f"{provider}/{name}", **settings)


def _why_none(found: Extraction, reply: Reply, tools: list[Tool]) -> str:
    """Say why a reply holds no call."""
    if found.rejected:
        first, known = found.rejected[0], [tool.name for tool in tools]
        if first.name and first.name not in known:
            near = did_you_mean(first.name, known)
            return f"The model called {first.name!r}, which is not offered; nothing was sent. {near}"
        return f"The model's call cannot be used: {first.detail or first.reason}"
    return f"The model called no operation; it said: {reply.text.strip()[:200]}"


def _plain(name: str, value: Any) -> Any:
    """Return a parameter as JSON data; one that holds a credential is refused, for without it the dict is of no use."""
    refusal = ConfigError(
        f"{name} holds a credential, which must not be stored. Give it as credentials=Secret.from_env_var('…'), or in "
        "the environment variable that the model's server reads."
    )

    def odd(item: Any) -> Any:
        raise refusal if isinstance(item, Secret) else TypeError(f"an object of type {type(item).__name__} is no JSON")

    try:
        plain = json.loads(json.dumps(value, default=odd))
    except ConfigError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{name} cannot be stored as JSON: {scrub(safe_str(error))}.") from None
    is_document = name == "spec" and (not isinstance(value, str) or not is_url(value))
    if not is_document and scrub(plain) != plain:
        raise refusal
    return plain
