"""Tell what looks like a call and is none: schema echoes, placeholders, examples, quotations, records.

Not here: calls in thoughts (`thinking`), names that are not declared (`settle`).
"""

from __future__ import annotations

import re
from typing import Any

from toolkit.extraction.resolve import ToolSpec, fold

# What templates write where a value belongs. No mere oddity: `$0`, `___`, `TODO`, `<>`, `{}` or `{1}` may be values.
_PLACE = re.compile(
    r"""\s*+(?:<(?![|｜])[^\W\d][^<>]*+>|\{{1,2}[ ]?[^\W\d][\w .-]*+\}{1,2}|\[[A-Z][A-Z _-]*+\]|\.\.\.|…|\?++
    |(?:YOUR|INSERT|ENTER)_[A-Z0-9_]++|[A-Z_]{1,80}_HERE|your_\w++|your[ ][\w ]{1,80}[ ]here|\w{1,80}[ _-]goes[ _-]here
    |(?:value|arg|argument|param|parameter)_?\d++)\s*+""",
    re.VERBOSE,
)
_DECLARATION = re.compile(
    r"[\s\[{]*+(?:\"type\"\s*+:\s*+\"function\"\s*+,\s*+)?(?:\"function\"\s*+:\s*+\{\s*+)?"
    r"\"name\"\s*+:\s*+\"[^\"\n]{1,200}\"\s*+,\s*+\"description\"\s*+:"
)
_EXAMPLE_NAMES = re.compile(
    r"(?:example[_-]?)?(?:function|func|tool|action)[_-]?(?:name)?\d*+(?:[_-]?here)?|your[_-]\w++|name|<.{0,200}>|\{.{0,200}\}|\.++|…|NAME"
)
_NO_TOOL = {
    "none", "na", "null", "nil", "finalanswer", "final", "answer", "notool", "nofunction", "noaction",
    "directlyanswer", "nothing", "noneneeded", "respond",
}  # fmt: skip
_PARAMETER = re.compile(r"(?!(?:[Tt]rue|[Ff]alse|[Nn]one|null)\b)[A-Za-z_]\w*+\s*+\??\s*+(?:[:=]|$)")
_AFFIXES = re.compile(r"^(?:your|the|some|given|input)_|_(?:value|val|here|input)$", re.IGNORECASE)
_TYPE_WORDS = {
    "string", "integer", "number", "boolean", "array", "object", "str", "int", "float", "bool", "list", "dict", "any",
}  # fmt: skip
_SCHEMA_TYPES = _TYPE_WORDS | {"null", "tuple", "double", "long", "char"}
# Words that speak about a call: the first kind also in the line that leads in to it, the second only on its own line.
_STRONG = r"""for\s++(?:example|instance)|e\.g\.|i\.e\.|(?:an?|the)\s++examples?\b
    |(?:request|payload|body|invocation)s?\s++looks?\s++like|examples?\s*+(?:usage|call|output)?\s*+:|you\s++(?:wrote|said|sent|typed|pasted)|user\s++(?:wrote|said|sent|typed)|wrote:|syntax\s++is|usage\s*+:|template
    |in\s++(?:the|your)\s++(?:\w++\s++)?logs?\b|logs?\s++(?:shows?|lines?|entry|says?|reads?)|in\s++the\s++docs
    |declared\s++(?:like|as)|server\s++(?:answers|returns|responds|sent)|transcript|quoted?\b|last\s++time|yourself\b
    |if\s++(?:i|you|we|the\s++\w++)\s++(?:had|were|was|wanted|could)"""
_WEAK = r"""examples?\b|would\s++(?:be|look|call|use|send|have|see|write|read|say)\b|could\s++(?:be|send|call|use|look)
    |might\s++(?:be|send|call|look|use)|you\s++(?:call|can\s++call|could|would)|looks?\s++like|such\s++as|instead\s++of
    |(?:not|don't|never)\s++(?:call|send|run|use)\b|syntax|usage\b|placeholders?|signature|pattern\s++is
    |format\s++(?:is|of|would)|documentation|manual|declar(?:ed|ation)|definition|defined\s++as|schema\b|returned|responded
    |was\s++called|earlier|previously|previous\s++turn"""
# For text in lower case: a third of the time that a pattern takes which ignores case.
_LEADS_HEDGED = re.compile(rf"\b(?:{_STRONG})", re.VERBOSE)
_HEDGE = re.compile(rf"\b(?:{_STRONG}|{_WEAK})", re.VERBOSE)
# Words of a lead that explains what a reader could write; only for what is bare, since weak models lead in to a real
# list or object so.
_EXPLAINS = re.compile(
    rf"""{_HEDGE.pattern}|\b(?:docs?|readme|python|equivalent|users?|invocation|shows?|says|in\s++(?:code|general)
    |you(?:'d|\s++(?:can|may|might|should|need|have)))\b""",
    re.VERBOSE,
)
# Words of a lead with which a model says what it does now.
_ANNOUNCES = re.compile(
    r"\b(?:i|i'(?:ll|m|d)|let|let's|we|we'll|calling|using|invoking|executing|running|here(?:'s|\s++is|\s++are)"
    r"|calls?(?=\W{0,4}$)|action|output|answer|response)\b"
)
_HEDGE_AFTER = re.compile(
    r"\W{0,3}\s*+(?:would|could|might|is\s++(?:an?\s++example|what|how|the\s++(?:syntax|format|call))|looks?\s++like|was\b|failed|perhaps|maybe|with\s++your\s++own|where\b|in\s++(?:your|the)\s++log)",
    re.IGNORECASE,
)


_SCHEMA_KEYS = frozenset({"properties", "type", "parameters", "required", "description"})


def is_schema(arguments: dict[str, Any], tool: ToolSpec | None) -> bool:
    """Tell whether a schema stands where arguments belong; for a declared tool it must be of that tool's parameters.

    >>> is_schema({"type": "object", "properties": {"city": {"type": "string"}}}, None)
    True
    """
    if not arguments or (_SCHEMA_KEYS.isdisjoint(arguments) and not isinstance(next(iter(arguments.values())), dict)):
        return False
    declared = tool.properties if tool is not None else {}
    given = {key: arguments[key] for key in _SCHEMA_KEYS if key in arguments and key not in declared}
    if "description" in given and isinstance(given.get("parameters"), dict):
        return True
    properties, required = given.get("properties"), given.get("required")
    if given.get("type", "object") == "object" and (properties or "type" in given):
        if isinstance(properties, dict):
            return _of_tool(properties, tool) or not (properties or declared)
        if isinstance(required, list) and "type" in given:
            return True
    described = all(isinstance(value, dict) and _declares(value) for value in arguments.values())
    return described and _of_tool(arguments, tool) and not all(_is_object(declared.get(key)) for key in arguments)


def _of_tool(keys: dict[str, Any], tool: ToolSpec | None) -> bool:
    """Tell whether there are parameters of the tool among these, as far as that is known."""
    return tool is None or not keys.keys().isdisjoint(tool.properties)


def _declares(value: dict[str, Any]) -> bool:
    """Tell whether an object reads as the schema of a parameter: a type's name, or a description."""
    kind = value.get("type")
    return "description" in value or (isinstance(kind, str) and kind.lower() in _SCHEMA_TYPES) or isinstance(kind, list)


def _is_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") in ("object", "dict")


def is_cut_echo(text: str) -> bool:
    """Tell whether a value that is cut begins as a tool's declaration, with its description behind its name.

    >>> is_cut_echo('{"name": "f", "description": "Finds'), is_cut_echo('{"name": "f", "arguments": {"description": "a')
    (True, False)
    """
    return _DECLARATION.match(text) is not None


def is_template(arguments: dict[str, Any], tool: ToolSpec | None = None) -> bool:
    """Tell whether arguments are copied from a template: each value only holds the place of a parameter's value.

    A tool's template shows its parameters; where none of them is given, odd values mean what they say.

    >>> is_template({"city": "<city>", "day": "YOUR_DAY"}), is_template({"city": "Oslo", "day": "..."})
    (True, False)
    """
    if not arguments or not _of_tool(arguments, tool):
        return False
    declared = tool.properties if tool is not None else {}
    return all(isinstance(value, str) and _holds_place(value, declared.get(key)) for key, value in arguments.items())


def _holds_place(value: str, schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return len(value) <= 80 and (_PLACE.fullmatch(value) is not None or value.strip() == kind)


def is_signature(sources: dict[str, str], keywords: dict[str, Any], positional: int) -> bool:
    """Tell whether a Python-like call only names its parameters or their types, as documentation does."""
    if not keywords and not positional:
        return False
    named = all(_names_itself(sources.get(key, "?"), key) for key in keywords)
    bare = [sources.get(str(place), "?").strip() for place in range(positional)]
    return named and all(_PARAMETER.match(source) is not None for source in bare)


def _names_itself(source: str, key: str) -> bool:
    """Tell whether a value only repeats its parameter's name, as `base=base_value` does, or names a type."""
    written = source.strip("[]{}<> ")
    if written in (key, "...", "…", "") or written in _TYPE_WORDS:
        return True
    if written.isidentifier() and f"_{key}_" in f"_{written}_":  # such as amount=loan_amount
        return True
    stem = _AFFIXES.sub("", written) if written.isidentifier() else ""
    return len(stem) < len(written) and stem == _AFFIXES.sub("", key)


def is_no_tool(name: str) -> bool:
    """Tell whether a name says that no tool is wanted, such as `Final Answer` or `None`."""
    return fold(name) in _NO_TOOL


def is_example_name(name: str) -> bool:
    """Tell whether a name only holds a name's place, such as `example_function_name`."""
    return _EXAMPLE_NAMES.fullmatch(name.strip()) is not None


def explains(lead: str) -> bool:
    """Tell whether the line that leads in to a bare call tells a reader what to write.

    >>> explains("In Python you would write:"), explains("I call it like this:")
    (True, False)
    """
    return _EXPLAINS.search(lead.lower()) is not None


def announces(lead: str) -> bool:
    """Tell whether the line that leads in to a call says that the model makes it."""
    return _ANNOUNCES.search(lead.lower()) is not None


def hedged(before: str, after: str = "", lead: str = "") -> bool:
    """Tell whether the words round a candidate speak about it instead of making it: on its line, or in the lead to it.

    >>> hedged("For example, you could send "), hedged("Here is the call: "), hedged("", lead="It would be:")
    (True, False, False)
    """
    if lead and _LEADS_HEDGED.search(lead.lower()) is not None:
        return True
    return (before != "" and _HEDGE.search(before.lower()) is not None) or _HEDGE_AFTER.match(after) is not None
