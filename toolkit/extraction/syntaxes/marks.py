"""Mark what holds no calls: thoughts, echoes of results and declarations, leaked tokens, turns that were made up.

>>> from toolkit.extraction import extract
>>> extract("<think>hm</think>Hello<|im_end|>").text
'Hello'

Not here: what becomes of calls in a thought (`toolkit.extraction.walk`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from toolkit.extraction.budget import LOOK
from toolkit.extraction.drafts import Kind, Read, Reading, Syntax
from toolkit.extraction.places import named
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import syntax

_WORDS = (
    "think|thinking|thought|thoughts|reasoning|reason|scratch_?pad|seed:think|inner_monologue|analysis|reflection"
    "|ant_?thinking"
)
# an example, what opens a thought, what closes it, and whether a closer alone ends one that the prompt opened
_THOUGHTS = [
    ("<think>hm</think>", rf"<(?i:(?:{_WORDS})\s*+>)", rf"</(?i:(?:{_WORDS})\s*+>)", True),
    ("<|START_THINKING|>hm<|END_THINKING|>", r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", True),
    ("<|thought_start|>hm<|thought_end|>", r"<\|thought_start\|>", r"<\|thought_end\|>", True),
    ("<|begin_of_thought|>hm<|end_of_thought|>", r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", True),
    ("<|think_start|>hm<|think_end|>", r"<\|think_start\|>", r"<\|think_end\|>", True),
    ("<|open|>think<|sep|>hm<|close|>think<|sep|>", r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>", True),
    ("<|channel>thought\nhm<channel|>", r"<\|channel>\s*+thought\b", r"<channel\|>", False),
    ("[THINK]hm[/THINK]", r"\[THINK\]", r"\[/THINK\]", True),
    ("◁think▷hm◁/think▷", "◁think▷", "◁/think▷", True),
    (
        "Here is my thought process:\nhm\nHere is my response:\n",
        r"\n[ \t]*+(?:\*\*)?Here is my thought process:", r"(?i:Here is my response:)", False,
    ),
]  # fmt: skip
_ECHOES = "tool_responses?|tool_results?|function_response|function_results|tool_description|tool_output|observation"
_NOISE = (  # behind "<"
    r"\|(?:open|close)\|>(?:response|tools|message)++<\|sep\|>"
    r"|\|(?:im_end|eot_id|eom_id|eom|end_of_text|begin_of_text|endoftext|end|return|call|eot|assistant|END_OF_TURN_TOKEN"
    r"|START_RESPONSE|END_RESPONSE|START_TEXT|END_TEXT|CHATBOT_TOKEN|START_OF_TURN_TOKEN|python_end"
    r"|tool_calls?_section_end|tool_call_end|action_end|header_end|header_start)\|>(?:assistant(?=\s))?"
    r"|\|(?:im_start|start_header_id)\|>\s*+assistant\s*+(?:<\|end_header_id\|>)?"
    r"|/?s>|end_of_turn>|start_of_turn>model|bot_end>|end_code>"
    r"|｜(?:end▁of▁sentence|Assistant|tool▁calls▁end|tool▁call▁end)｜>"
    r"|/(?:tool_calls?|function_calls|toolcalls?|use_mcp_tool|function|response)>|/?answer>"
)
_TURN = (  # behind "<"
    r"\|(?:im_start|start_header_id)\|>\s*+(?:user|system|tool|ipython)\b|\|(?:user|observation|system|tool)\|>"
    r"|start_of_turn>user|｜User｜>"
)
DRESS = r"[ \t]*+(?:[*_#>-]{1,4}[ \t]*+)?"  # what models put before a label
COLON = r"(?:[ \t]*+\d++)?[*_]{0,2}[ \t]*+:"
_NEAR = 2_000  # characters in which what stands in a wrapper shows itself
_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n")
_LABEL = re.compile(
    rf"\n{DRESS}(?:Action|Observation|Thought|Final Answer){COLON}|<tool_call>|\[TOOL_CALLS\]|\n[^\S\n]*+\n"
)
_MARKED = re.compile(r"<tool_call>|\[TOOL_CALLS\]|TOOL_CALL:")
# a call's first tag where a thought ends in it, and the rest of the call behind that end
_RUN_IN = re.compile(r"<tool_call>\s{0,20}+\Z")
_CALL_AHEAD = re.compile(r"\s*+(?:[\w.\-]++\s*+<\w{0,20}arg_key>|\{|<function=|<invoke )")
_AFTER_THOUGHT = re.compile(rf"\n{DRESS}(?:Action|Final Answer){COLON}")


def mark(kind: Kind, example: str, opener: str, **more: Any) -> Callable[[Read], Read]:
    """Register the function below as the reader of a mark."""
    return syntax(kind, example, opener, kind=kind, **more)


def read_thought(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read a thought between two marks; the walk looks into it."""
    depth, closing = 1, None
    for either in _pair(syntax.opener, syntax.closer).finditer(source.text, found.end(), source.limit):
        if named(source, *either.span(), hides=True):
            continue
        depth += -1 if either.lastgroup else 1
        closing = either if either.lastgroup else closing
        source.budget.spend(LOOK)
        if depth == 0:
            break
    else:
        source.touch_end()
    if closing is None:
        return Reading(source.limit, inner=(found.end(), source.limit))
    opened = _RUN_IN.search(source.text, max(found.end(), closing.start() - 40), closing.start())
    if opened is not None and _CALL_AHEAD.match(source.text, closing.end(), source.limit):
        return Reading(opened.start(), inner=(found.end(), opened.start()))
    return Reading(closing.end(), inner=(found.end(), closing.start()))


@cache
def _pair(opener: str, closer: re.Pattern[str]) -> re.Pattern[str]:
    """Return the pattern of both marks; nested and repeated closing marks belong to the outermost thought."""
    return re.compile(rf"{opener}|(?P<closer>{closer.pattern})")


@mark("noise", "<|im_end|>", f"<(?:{_NOISE})")
def read_mark(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read a mark that stands for itself: a leaked token, or the end of a thought that was opened in the prompt."""
    return Reading(found.end())


@mark("noise", "<tool_calls><think>hm</think>", r"<(?:tool_?calls?|function_?calls?|use_mcp_tool)>(?=\s*+<[a-zA-Z])")
def read_wrapper(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read the opening tag of a wrapper round wrappers; more text may show that it is a call's own."""
    return Reading(found.end(), open=source.limit - found.start() < _NEAR)


for example, opener, closer, ends in _THOUGHTS:
    mark("thought", example, opener, closer=closer, starts="Here" if opener.startswith(r"\n") else "")(read_thought)
    if ends:
        mark("thought_end", example[example.index("hm") :], closer)(read_mark)


@mark("echo", "<tool_response>1</tool_response>", rf"<(?:{_ECHOES})(?:\s[^<>\n]*+)?>")
@mark("echo", "[TOOL_RESULTS]1[/TOOL_RESULTS]", r"\[(?:TOOL_RESULTS|AVAILABLE_TOOLS)\]")
def read_echo(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Skip a result, or the description of a tool, with what is in it."""
    bracket, name = found[0][0], re.split(r"\W", found[0][1:], maxsplit=1)[0]
    closing = source.find(_closer(bracket, name), found.end())
    if closing is not None:
        return Reading(closing.end())
    if bracket == "[":
        return Reading(source.skip_line(found.end()))
    blank = source.find(_BLANK_LINE, found.end())
    return Reading(blank.start() if blank else source.limit)


@cache
def _closer(bracket: str, name: str) -> re.Pattern[str]:
    return re.compile(rf"\[/{name}\]" if bracket == "[" else f"</{name}>")


_RESULT = rf"\n[ \t]*+[*_]{{0,2}}(?:Observation|Tool (?:result|output|response)|Function result){COLON}"


@mark("echo", "Observation: 1\n\n", _RESULT, starts="Observation Tool Function")
def read_observation(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Skip an observation up to the next label or blank line; its text stays."""
    label = _LABEL.search(source.text, found.end(), source.limit)
    end = label.start() if label else source.limit
    return Reading(end, text=source.text[found.start() : end])


@mark("echo", "✿RESULT✿: 1", "✿RESULT✿")
def read_flower(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Skip a result that a model of Qwen-Agent made up, to the next such mark."""
    end = source.text.find("✿", found.end(), source.limit)
    return Reading(source.limit if end < 0 else end)


@mark("thought", "Thought: hm\nFinal Answer:", rf"\n{DRESS}Thought{COLON}[*_]{{0,2}}", starts="Thought")
def read_react_thought(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read a ReAct thought, if an action or an answer follows it."""
    label, marked = source.find(_AFTER_THOUGHT, found.end()), source.find(_MARKED, found.end())
    if label is None or (marked is not None and marked.start() < label.start()):
        return None
    return Reading(label.start(), thinking=source.text[found.end() : label.start()])


@mark(
    "end", "Final Answer: 1", rf"\n{DRESS}(?:Final Answer|FINAL ANSWER)[*_]{{0,2}}[ \t]*+:[*_]{{0,2}}",
    starts="Final FINAL",
)  # fmt: skip
def read_final(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Take the rest as the answer to the user."""
    return Reading(source.limit, text=source.text[found.end() : source.limit])


@mark("end", "<|im_start|>user\n", f"<(?:{_TURN})")
def read_turn(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """End the reply where the model goes on with somebody else's turn."""
    return Reading(source.limit)


@mark(
    "end", "User: hm", r"\n(?:###[ \t]*+)?(?:User|Human|USER|HUMAN|Instruction)[ \t]*+:",
    starts="User Human USER HUMAN Instruction",
)  # fmt: skip
def read_turn_line(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read no calls where a transcript goes on with the user's turn; its text stays."""
    return Reading(source.limit, text=source.text[found.start() : source.limit])
