"""Under which names are tools shown in an airgap prompt? Under such as a call can carry.

Not here: running them (`toolkit.execution`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from toolkit.tools import Tool

_WRITABLE_NAME = re.compile(r"[\w.\-:/]+")  # what every call syntax can carry


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
