"""Ask other models in turn when one fails: ModelFallback.

Not here: asking the same one again (`retry`).
"""

from __future__ import annotations

from toolkit.agents.builtin.wrappers import ModelCall, ModelWrapper
from toolkit.agents.middleware import ModelResult
from toolkit.agents.modes import Mode
from toolkit.agents.requests import ModelRequest
from toolkit.errors import ConfigError, LimitError
from toolkit.models.base import ChatModel
from toolkit.models.registry import as_model


class ModelFallback(ModelWrapper):
    """Try further models in turn; the last one's exception goes on.

    >>> import toolkit as tk
    >>> broken, spare = tk.ScriptedModel([RuntimeError("down")]), tk.ScriptedModel(["hello"])
    >>> tk.Agent(broken, middleware=[ModelFallback(spare)]).run("hi").text
    'hello'

    Args:
        models: ChatModels, or names for `load_model`.

    Raises:
        ConfigError: none is given.
    """

    def __init__(self, *models: ChatModel | str) -> None:
        if not models:
            raise ConfigError("ModelFallback needs at least one further model.")
        self.models: list[ChatModel] = [as_model(model) for model in models]

    async def around(self, request: ModelRequest, handler: ModelCall, mode: Mode) -> ModelResult:
        """Ask the request's own model, then the others."""
        *some, last = (request, *(request.override(model=model) for model in self.models))
        for one in some:
            try:
                return await handler(one)
            except LimitError:  # the run's own end, not a model's failure
                raise
            except Exception:  # noqa: S112 - the next one is asked
                continue
        return await handler(last)
