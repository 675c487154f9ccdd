"""Load a package of an optional extra, or say which line installs it.

Not here: which extras exist (`pyproject.toml`).
"""

from __future__ import annotations

import importlib
from typing import Any

from toolkit.errors import UserError


def load_extra(module: str, extra: str) -> Any:
    """Import `module`, which the extra `extra` brings.

    Raises:
        UserError: it is not installed; the message holds the pip line.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise UserError(f'{module!r} is not installed. Install it: pip install "local-tool-calling[{extra}]"') from None
