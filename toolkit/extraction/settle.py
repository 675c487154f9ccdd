"""Turn a Draft into a call or a rejection: resolve its name, decode its arguments, apply the vetoes, coerce.

Not here: where it stands in the text (`places`), how it was written (`syntaxes`).
"""

from __future__ import annotations

import re
from typing import Any

from toolkit.extraction.budget import Budget
from toolkit.extraction.coerce import Coercion
from toolkit.extraction.drafts import NOTHING, Draft
from toolkit.extraction.lenient_json import read_json
from toolkit.extraction.negatives import is_example_name, is_no_tool, is_schema, is_template
from toolkit.extraction.resolve import LONGEST_NAME, NAME, ToolSpec, clean
from toolkit.extraction.source import Source
from toolkit.extraction.types import Confidence, ExtractedCall, Rejected

GUESSES = {
    "name_namespace", "positional_arguments", "bare_argument", "flat_arguments", "expression_text", "unquoted_value",
    "missing_open_tag", "name_from_arguments", "mixed_syntax",
}  # fmt: skip

# what may stand behind a call that was cut
TAIL = re.compile(r"(?:\s|</s>|<\|(?:im_end|eot_id|eom_id|end|call|return)\|>)*+(?:<[^>\n]{0,48}|✿\w{0,8})?$")
_DOUBTS = {
    "schema_echo": "It repeats the declaration of the tool.",
    "signature": "It shows the signature of the tool.",
    "example": "It is shown, not made.",
}


class Refused(Exception):  # noqa: N818 - control flow, never seen outside the package
    """Say why a draft is no call."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail


def settle(draft: Draft, source: Source, explicit: bool) -> ExtractedCall | Rejected:
    """Return the call that a draft means, or why it is none."""
    try:
        return _call(draft, source, explicit)
    except Refused as refused:
        return Rejected(draft.span, draft.syntax, refused.reason, refused.detail, draft.name or None)


def _call(draft: Draft, source: Source, explicit: bool) -> ExtractedCall:
    if draft.doubtful in _DOUBTS:
        raise Refused(draft.doubtful, _DOUBTS[draft.doubtful])
    name, tool, repairs, closest = _name(draft, source, explicit)
    arguments, more = _arguments(draft, tool, explicit, source)
    repairs = [*draft.repairs, *repairs, *more]
    if is_schema(arguments, tool):
        raise Refused("schema_echo", "A schema stands in place of arguments.")
    if is_template(arguments, tool):
        raise Refused("placeholder", "Every value only holds a place.")
    notes: tuple[str, ...] = ()
    if tool is not None:
        coercion = Coercion(tool.parameters)
        arguments = coercion.untyped(arguments) if draft.untyped else coercion.arguments(arguments, draft.sources)
        repairs, notes = repairs + coercion.repairs, tuple(coercion.notes)
    elif draft.untyped:
        arguments = Coercion({}).untyped(arguments)
    if "duplicate_keys" in repairs:
        notes = (*notes, "a key was given twice; the last one counts")
    codes = tuple(dict.fromkeys(filter(None, repairs))) if repairs else ()
    unknown = tool is None and not source.tools.open
    return ExtractedCall(
        name, arguments, None, draft.span, draft.syntax, codes, confidence(codes), notes, unknown, closest,
        _written(draft),
    )  # fmt: skip


def _written(draft: Draft) -> Any:
    """Return the arguments word for word; None where there is no JSON value."""
    if draft.arguments is NOTHING or draft.positional or draft.untyped:
        return None
    return {} if draft.arguments is None or draft.arguments == "" else draft.arguments


def confidence(repairs: tuple[str, ...]) -> Confidence:
    """Return how sure a reading with these repairs is."""
    if not repairs:
        return "exact"
    return "guessed" if GUESSES & set(repairs) else "repaired"


def _name(draft: Draft, source: Source, explicit: bool) -> tuple[str, ToolSpec | None, list[str], tuple[str, ...]]:
    """Return the tool's name, its declaration, what was mended and the closest names."""
    written = draft.name.strip()
    if not written:
        raise Refused("no_name", "The call has no name.")
    found = source.tools.resolve(draft.name)
    if found.tool is not None:
        return found.tool.name, found.tool, list(found.repairs), ()
    name = clean(written) if len(written) <= LONGEST_NAME else ""
    if is_no_tool(name):
        raise Refused("no_tool_wanted", f"{name!r} says that no tool is wanted.")
    if not NAME.fullmatch(name):
        raise Refused("no_name", f"{written[:60]!r} is no name of a tool.")
    if is_example_name(name):
        raise Refused("placeholder", f"{name!r} only holds a name's place.")
    if not explicit and not source.tools.open:
        raise Refused("undeclared", f"No tool is called {name!r}, and nothing marks this as a call.")
    return (
        name,
        None,
        [] if name == draft.name else ["name_decoration"],
        source.tools.closest(name) if source.budget.hint() else (),
    )


def _arguments(draft: Draft, tool: ToolSpec | None, explicit: bool, source: Source) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments as an object, and what was mended."""
    value: Any = draft.arguments
    repairs: list[str] = []
    if draft.positional:
        value, repairs = _positional(draft, tool)
    if isinstance(value, str):
        value, more = _decoded(value, draft.text_argument, source.budget)
        repairs += more
    if value is NOTHING or value is None or (isinstance(value, str) and value.strip() in ("", "None", "{}")):
        if not explicit and (tool is None or tool.required):
            raise Refused("no_arguments", "It names a tool and gives no arguments.")
        if value is NOTHING and tool is not None and tool.required:
            cut = not draft.closed and TAIL.match(source.text, draft.span[1]) is not None
            raise Refused(
                "truncated" if cut else "no_arguments_given", "It gives no arguments, and the tool requires some."
            )
        return {}, repairs
    if isinstance(value, dict):
        return value, repairs
    if isinstance(value, str) and draft.text_argument:
        return _text_argument(value, tool), [*repairs, "bare_argument"]
    if isinstance(value, list) and (pairs := _pairs(value)) is not None:
        return pairs, [*repairs, "listed_arguments"]
    raise Refused("bad_arguments", f"Arguments must be an object, not {repr(value)[:60]}.")


def _decoded(text: str, may_be_text: bool, budget: Budget) -> tuple[Any, list[str]]:
    """Return what is written in a text, and what was mended; a text that `may_be_text` is more if it is an object."""
    value: Any = text
    repairs: list[str] = []
    for code in ("string_arguments", "double_encoded"):
        if not isinstance(value, str) or not (inner := value.strip()):
            break
        read = read_json(inner, 0, budget)
        if read.problem == "not_finite" and inner.startswith("{"):
            raise Refused("bad_arguments", "A number in the JSON of the arguments is not finite.")
        if read.problem is not None or inner[read.end :].strip():
            break
        value = read.value
        repairs += [code, *read.repairs]
    if may_be_text and (isinstance(value, (int, float)) or (isinstance(value, list) and _pairs(value) is None)):
        return text, []
    return value, repairs


def _pairs(value: list[Any]) -> dict[str, Any] | None:
    """Return the arguments in a list of one object, or of `{"name": …, "value": …}` pairs."""
    if value and all(isinstance(item, dict) and item.keys() == {"name", "value"} for item in value):
        return {str(item["name"]): item["value"] for item in value}
    return value[0] if len(value) == 1 and isinstance(value[0], dict) else None


def _text_argument(value: str, tool: ToolSpec | None) -> dict[str, Any]:
    """Give bare text to the single parameter that can take it."""
    if tool is None:
        raise Refused("bad_arguments", "Bare text, and the tool is not declared.")
    if not tool.properties:
        return {}
    wanted = list(tool.required) if len(tool.required) == 1 else list(tool.properties)
    if len(wanted) != 1:
        raise Refused("bad_arguments", f"Bare text for a tool with {len(wanted)} parameters.")
    text = value.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return {wanted[0]: text[1:-1] if quoted else text}


def _positional(draft: Draft, tool: ToolSpec | None) -> tuple[dict[str, Any], list[str]]:
    """Map arguments without names to parameters, in the order of the schema."""
    given = draft.arguments if isinstance(draft.arguments, dict) else {}
    first = draft.positional[0]
    if len(draft.positional) == 1 and not given and isinstance(first, dict):
        known = tool.properties if tool is not None else {}
        if tool is None or (all(key in known for key in first) and len(first) > 0) or len(known) != 1:
            return first, ["dict_arguments"]
    if tool is None:
        raise Refused("bad_arguments", "Arguments without names, and the tool is not declared.")
    free = [name for name in tool.properties if name not in given]
    if len(draft.positional) > len(free):
        raise Refused("bad_arguments", f"{len(draft.positional)} arguments without names for {len(free)} parameters.")
    named = dict(zip(free, draft.positional, strict=False))
    for place, name in enumerate(named):
        if str(place) in draft.sources:
            draft.sources[name] = draft.sources[str(place)]
    return {**named, **given}, ["positional_arguments"]
