"""Fill the agent's messages to the model; their wording lies in `prompts/agents/`, since it is an experiment variable.

Not here: the prompts of a protocol (`toolkit.prompting.protocols`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from toolkit import resources
from toolkit.prompting import templates
from toolkit.prompting.disarming import disarming


@cache
def _source(name: str) -> tuple[str, str]:
    path = resources.path(f"prompts/agents/{name}.jinja")
    return path.read_text("utf-8"), str(path)


def say(message: str, /, **values: Any) -> str:
    """Fill the message `prompts/agents/MESSAGE.jinja`.

    >>> say("surplus_call", name="add")
    'Only one call a turn. "add" was not run; call it again now if you still need it.'

    Raises:
        ConfigError: no such message, or its template fails.
    """
    source, where = _source(message)
    return templates.fill(source, values, where).strip()


def quote(message: str, /, **values: Any) -> str:
    """Fill a message that is a prompt of its own; what it quotes holds no tokens of a chat template.

    Raises:
        ConfigError: no such message, or its template fails.
    """
    return say(message, **disarming(()).value(values))
