"""Tell whether two texts spell one value: JSON, Python's own way, with addresses or without.

Not here: which spelling is the right one (`invoker_oracle.canonical`).
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from invoker_oracle import Fate


def is_spelling(theirs: Any, fate: Fate) -> bool:
    """Tell whether their text is a spelling of the value: as ours, Python's, JSON's with NaN, or parts as texts."""
    spellings = [fate.text]
    for spell in (str, repr, json.dumps, lambda v: json.dumps(v, ensure_ascii=False), lambda v: str(plain(v))):
        try:
            spellings.append(spell(fate.value))
        except Exception:
            continue
    if bare(theirs) in [bare(text) for text in spellings]:
        return True
    seen, shown = read(theirs), read(fate.text)
    if seen in (plain(fate.value), shown):
        return True
    parts = isinstance(seen, dict) and isinstance(shown, dict) and seen.keys() == shown.keys()
    return parts and all(read(seen[key]) == read(shown[key]) for key in seen)


def bare(text: Any) -> Any:
    """Take addresses and module names out of the text of an object."""
    text = unaddressed(text)
    return re.sub(r"<[\w.]+ object", "<object", text) if isinstance(text, str) else text


def read(text: Any) -> Any:
    """Read a text as JSON or as a Python literal, whichever it is."""
    if not isinstance(text, str):
        return text
    for reader in (json.loads, ast.literal_eval):
        try:
            return reader(text)
        except (ValueError, SyntaxError):
            continue
    return text


def plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def unaddressed(text: Any) -> Any:
    return re.sub(r"0xADDR|0x[0-9a-fA-F]+", "0x", text) if isinstance(text, str) else text
