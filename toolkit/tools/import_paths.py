"""Name a function by its import path, and find it again.

Reading a path imports the module it names, which runs that module. Read only files you trust.
Not here: what is written beside the path (`ToolInvoker.to_dict`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from toolkit.errors import ConfigError


def dotted_path(function: Callable[..., Any]) -> str:
    """Return the import path of a function or class.

    >>> import json
    >>> dotted_path(json.dumps)
    'json.dumps'

    Raises:
        ConfigError: a lambda, a function inside a function, a bound method, or anything else no import finds.
    """
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    if not module or "<" in name or not hasattr(function, "__qualname__"):
        raise ConfigError(
            f"{name!r} cannot be written down: it has no import path. "
            "Define it with `def` at the top level of a module, and save that."
        )
    path = f"{module}.{name}"
    found = resolve(path)
    if found is not function and getattr(found, "function", None) is not function:
        raise ConfigError(f"{path!r} is another object by now. Save the function under a name of its own.")
    return path


def resolve(path: str) -> Callable[..., Any]:
    """Import and return what a path names, such as `package.module:name` or with a dot; it must be callable.

    Raises:
        ConfigError: no such path, or something that cannot be called.
    """
    parts = path.replace(":", ".", 1).split(".") if isinstance(path, str) else []
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name, None)
        if callable(found):
            return found  # type: ignore[no-any-return] # checked just above
        break
    raise ConfigError(f"{path!r} names no function. Expected an import path such as 'mypackage.tools.weather'.")


def resolve_function(path: str) -> Callable[..., Any]:
    """Return the function a path names, taken out of the Tool that `@tool` may have made of it."""
    found = resolve(path)
    inner = getattr(found, "function", None)
    return inner if callable(inner) else found
