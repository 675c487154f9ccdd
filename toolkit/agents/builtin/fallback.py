"""Ask other models in turn when one fails: ModelFallback.

Not here: asking the same one again (`retry`).
"""

from __future__ import annotations

from typing import Any

from toolkit.agents.middleware import AgentMiddleware
from toolkit.errors import ConfigError, LimitError
from toolkit.models.base import ChatModel


class ModelFallback(AgentMiddleware):
    """Try further models in turn; the last one's exception goes on.

    >>> import toolkit as tk
    >>> broken, spare = tk.ScriptedModel([RuntimeError("down")]), tk.ScriptedModel(["hello"])
    >>> tk.Agent(broken, middleware=[ModelFallback(spare)]).run("hi").text
    'hello'

    Args:
        models: ChatModels, or names for `load_model`, loaded when first needed.

    Raises:
        ConfigError: none is given.
    """

    def __init__(self, *models: ChatModel | str) -> None:
        if not models:
            raise ConfigError("ModelFallback needs at least one further model.")
        self.models: list[Any] = list(models)

    def _model(self, number: int) -> ChatModel:
        if isinstance(self.models[number], str):
            from toolkit.models.registry import load_model

            self.models[number] = load_model(self.models[number])
        found: ChatModel = self.models[number]
        return found

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Ask the request's own model, then the others."""
        for number in range(-1, len(self.models)):
            try:
                return handler(request if number < 0 else request.override(model=self._model(number)))
            except LimitError:  # the run's own end, not a model's failure
                raise
            except Exception:
                if number == len(self.models) - 1:
                    raise
        raise AssertionError("the last model either answers or raises")

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Ask the request's own model, then the others."""
        for number in range(-1, len(self.models)):
            try:
                return await handler(request if number < 0 else request.override(model=self._model(number)))
            except LimitError:  # the run's own end, not a model's failure
                raise
            except Exception:
                if number == len(self.models) - 1:
                    raise
        raise AssertionError("the last model either answers or raises")
