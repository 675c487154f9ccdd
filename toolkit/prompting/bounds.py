"""Write into a tool's descriptions what of its schema would be lost on the way to the model.

Not here: what is lost (`toolkit.models.seen`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from toolkit import resources
from toolkit.models.seen import lost_of, plain_parameters
from toolkit.prompting import templates
from toolkit.tools import Tool

_FILE = "prompts/tools/bounds.jinja"


@cache
def _source() -> tuple[str, str]:
    path = resources.path(_FILE)
    return path.read_text("utf-8"), str(path)


def with_bounds_told(tool: Tool) -> Tool:
    """Return a tool whose parameters' descriptions tell the bounds, defaults and the like that Ollama drops.

    Source: ollama#17142.

    >>> days = {"type": "integer", "minimum": 1, "maximum": 7, "description": "How many."}
    >>> told = with_bounds_told(Tool("f", "", {"type": "object", "properties": {"days": days}}))
    >>> told.parameters["properties"]["days"]["description"]
    'How many. (at least 1; at most 7)'

    Raises:
        ConfigError: the wording in `prompts/tools` is broken.
    """
    parameters = _told(plain_parameters(tool.parameters))
    return tool if parameters == tool.parameters else replace(tool, parameters=parameters)


def _told(schema: Mapping[str, Any], within: bool = False) -> dict[str, Any]:
    found = dict(schema)
    if isinstance(schema.get("properties"), Mapping):
        found["properties"] = {
            name: _told(one, True) if isinstance(one, Mapping) else one for name, one in schema["properties"].items()
        }
    if isinstance(schema.get("anyOf"), list):
        found["anyOf"] = [_told(one, True) if isinstance(one, Mapping) else one for one in schema["anyOf"]]
    if within and (bounds := lost_of(schema)):
        source, where = _source()
        said = templates.fill(source, {"bounds": bounds}, where).strip()
        found["description"] = f"{schema.get('description', '')} {said}".strip()
    return found
