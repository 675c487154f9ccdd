"""Show a value in an error or to a model, whatever it is: shown, safe_str.

Not here: results of tools as text (`toolkit.execution.conversion`).
"""

from __future__ import annotations

import json
from typing import Any

_LONGEST = 80


def shown(value: Any) -> str:
    """Return a value as short JSON-like text; what has neither JSON nor a repr is named by its type.

    >>> shown({"a": None}), shown({1, 2}), shown("x" * 99)[-3:]
    ('{"a": null}', '{1, 2}', 'xx…')
    """
    try:
        text = json.dumps(value, ensure_ascii=False)
    except Exception:  # no JSON, nested too deeply, a number too long to print
        text = safe_str(value, repr)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def safe_str(value: object, to_text: Any = str) -> str:
    """Return `str(value)`, or a stand-in where that raises."""
    try:
        return str(to_text(value))
    except Exception:
        return f"<{type(value).__name__} without text>"
