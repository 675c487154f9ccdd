"""Under which names are tools shown in an airgap prompt, and what runs them?

Not here: reading tools of other libraries (`toolkit.agents.foreign`), running them (`toolkit.execution`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from toolkit.agents.airgap.rounds import Rounds
from toolkit.tools import Tool

_WRITABLE_NAME = re.compile(r"[\w.\-:/]+")  # what every call syntax can carry


def with_tools(rounds: Rounds, tools: Sequence[Tool]) -> tuple[Rounds, Any]:
    """Return the rounds with these tools and no others, and the invoker that runs them; None without tools."""
    shown, registered = writable(tools)
    bound = replace(rounds, tools=tuple(shown), registered=registered)
    return bound, invoker_of(shown, rounds.max_result_chars) if shown else None


def writable(tools: Sequence[Tool]) -> tuple[list[Tool], dict[str, str]]:
    """Return the tools under names that a call can carry, and what each changed name was.

    >>> shown, registered = writable([Tool("send mail", "Send it.", {})])
    >>> shown, registered
    ([Tool(send_mail())], {'send_mail': 'send mail'})
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
    return shown, registered


def invoker_of(tools: Sequence[Tool], most: int) -> Any:
    """Return what runs the tools; a failure is a result."""
    from toolkit.execution.invoker import ToolInvoker

    # JSON text keeps a result's type until its block is written; the block is what cuts long ones
    return ToolInvoker(
        tools, raise_on_failure=False, convert_result_to_json_string=True, max_result_chars=max(20_000, 4 * most)
    )
