"""Mark what holds no calls: thoughts, echoes of results and declarations, leaked tokens, turns that were made up.

>>> from toolkit.extraction import extract
>>> extract("<think>hm</think>Hello<|im_end|>").text
'Hello'
"""

import re

from toolkit.extraction.drafts import Reading, Source
from toolkit.extraction.syntaxes import syntax
from toolkit.extraction.thinking import read_thought

_ECHO_ENDS = {
    name: re.compile(pattern)
    for name, pattern in {
        "tool_response": r"</tool_response>",
        "tool_responses": r"</tool_responses>",
        "tool_result": r"</tool_result>",
        "function_response": r"</function_response>",
        "function_results": r"</function_results>",
        "tool_description": r"</tool_description>",
        "tool_output": r"</tool_output>",
        "tool_results": r"</tool_results>",
        "observation": r"</observation>",
        "TOOL_RESULTS": r"\[/TOOL_RESULTS\]",
        "AVAILABLE_TOOLS": r"\[/AVAILABLE_TOOLS\]",
    }.items()
}
_REACT_LABEL = re.compile(
    r"\n[ \t]*(?:[*_#>-]{1,4}[ \t]*)?(?:Action|Observation|Thought|Final Answer)(?:[ \t]*\d+)?[*_]{0,2}[ \t]*:"
    r"|<tool_call>|\[TOOL_CALLS\]|\n\s*\n"
)
_MARKED = re.compile(r"<tool_call>|\[TOOL_CALLS\]|TOOL_CALL:")
_AFTER_THOUGHT = re.compile(r"\n[ \t]*(?:[*_#>-]{1,4}[ \t]*)?(?:Action|Final Answer)(?:[ \t]*\d+)?[*_]{0,2}[ \t]*:")


@syntax(
    "thoughts",
    opener=r"<(?:(?i:(?:think|thinking|thought|thoughts|reasoning|reason|scratch_?pad|seed:think|inner_monologue|analysis|reflection|ant_?thinking)\s*>)|\|(?:START_THINKING|thought_start|begin_of_thought|think_start)\|>|\|channel>\s*thought\b)",
)
def read_open(source: Source, found: re.Match[str]) -> Reading | None:
    """Read a thought in tags; the walk looks into it."""
    return _thought(source, found)


@syntax("thoughts_bracket", opener=r"\[THINK\]")
def read_bracket(source: Source, found: re.Match[str]) -> Reading | None:
    """Read a thought in brackets."""
    return _thought(source, found)


@syntax("thoughts_phrase", opener=r"\n[ \t]*(?:\*\*)?Here is my thought process:", starts="Here")
def read_phrase(source: Source, found: re.Match[str]) -> Reading | None:
    """Read Granite's thought, between two phrases."""
    return _thought(source, found)


def _thought(source: Source, found: re.Match[str]) -> Reading | None:
    at = source.text.find(found[0].lstrip("\n \t*"), found.start())
    thought = read_thought(source.text, at, source.limit)
    if thought is None:
        return None
    return Reading(thought.end, inner=(thought.start, thought.inner_end), final=not thought.closed)


@syntax(
    "thought_end",
    opener=r"<(?:\|close\|>think<\|sep\|>|/(?i:think|thinking|thought|thoughts|reasoning|reason|scratch_?pad|seed:think|inner_monologue|analysis|reflection|ant_?thinking)\s*>|\|(?:END_THINKING|thought_end|end_of_thought|think_end)\|>)",
)
def read_end(source: Source, found: re.Match[str]) -> Reading | None:
    """Read the end of a thought that was opened in the prompt; the walk takes back what stands before it."""
    return Reading(found.end())


@syntax("thought_end_bracket", opener=r"\[/THINK\]")
def read_bracket_end(source: Source, found: re.Match[str]) -> Reading | None:
    """Read the end of a bracketed thought that was opened in the prompt."""
    return Reading(found.end())


@syntax(
    "echoes",
    opener=r"<(?:tool_responses?|tool_results?|function_response|function_results|tool_description|tool_output|observation)(?:\s[^>\n]*)?>",
)
def read_echo(source: Source, found: re.Match[str]) -> Reading | None:
    """Skip a result, or the description of a tool, with what is in it."""
    name = re.match(r"<(\w+)", found[0])
    closing = source.find(_ECHO_ENDS[name[1]], found.end()) if name and name[1] in _ECHO_ENDS else None
    if closing is None:
        blank = source.find(re.compile(r"\n\s*\n"), found.end())
        return Reading(blank.start() if blank else source.limit)
    return Reading(closing.end())


@syntax("echoes_bracket", opener=r"\[(?:TOOL_RESULTS|AVAILABLE_TOOLS)\]")
def read_bracket_echo(source: Source, found: re.Match[str]) -> Reading | None:
    """Skip Mistral's results and declarations."""
    closing = source.find(_ECHO_ENDS[found[0].strip("[]")], found.end())
    if closing is not None:
        return Reading(closing.end())
    return Reading(source.skip_line(found.end()))


@syntax(
    "echoes_react",
    opener=r"\n[ \t]*[*_]{0,2}(?:Observation|Tool (?:result|output|response)|Function result)"
    r"(?:[ \t]*\d+)?[*_]{0,2}[ \t]*:",
    starts="Observation Tool Function",
)
def read_observation(source: Source, found: re.Match[str]) -> Reading | None:
    """Skip an observation up to the next label or blank line; its text stays."""
    label = _REACT_LABEL.search(source.text, found.end(), source.limit)
    end = label.start() if label else source.limit
    return Reading(end, text=source.text[found.start() : end])


@syntax(
    "final_answer",
    opener=r"\n[ \t]*(?:[*_#>-]{1,4}[ \t]*)?(?:Final Answer|FINAL ANSWER)[*_]{0,2}[ \t]*:[*_]{0,2}",
    starts="Final FINAL",
)
def read_final(source: Source, found: re.Match[str]) -> Reading | None:
    """Take the rest as the answer to the user."""
    return Reading(source.limit, text=source.text[found.end() : source.limit], final=True)


@syntax(
    "thoughts_react",
    opener=r"\n[ \t]*(?:[*_#>-]{1,4}[ \t]*)?Thought(?:[ \t]*\d+)?[*_]{0,2}[ \t]*:[*_]{0,2}",
    starts="Thought",
)
def read_react_thought(source: Source, found: re.Match[str]) -> Reading | None:
    """Read a ReAct thought, if an action or an answer follows it."""
    label = source.find(_AFTER_THOUGHT, found.end())
    if label is None:
        return None
    marked = source.find(_MARKED, found.end())
    if marked is not None and marked.start() < label.start():
        return None
    return Reading(label.start(), thinking=source.text[found.end() : label.start()])


@syntax(
    "leaked_tokens",
    opener=r"<(?:\|(?:open|close)\|>(?:response|tools|message|think)<\|sep\|>|\|(?:im_end|eot_id|eom_id|end_of_text|begin_of_text|endoftext|end|return|call|eot|assistant|END_OF_TURN_TOKEN|START_RESPONSE|END_RESPONSE|START_TEXT|END_TEXT|CHATBOT_TOKEN|START_OF_TURN_TOKEN|python_end|tool_calls?_section_end|tool_call_end|action_end|header_end|header_start)\|>(?:assistant(?=\s))?"
    r"|\|(?:im_start|start_header_id)\|>\s*assistant\s*(?:<\|end_header_id\|>)?|/?s>|end_of_turn>|start_of_turn>model|bot_end>|end_code>|｜(?:end▁of▁sentence|Assistant|tool▁calls▁end|tool▁call▁end)｜>|/tool_call>|/function_calls>|/function>|/answer>|answer>|/response>|/tool_calls>)",
)
def read_leak(source: Source, found: re.Match[str]) -> Reading | None:
    """Drop a token that the server should have taken out."""
    return Reading(found.end())


@syntax(
    "invented_turns",
    opener=r"<(?:\|(?:im_start|start_header_id)\|>\s*(?:user|system|tool|ipython)\b|\|(?:user|observation|system|tool)\|>|start_of_turn>user|｜User｜>)",
)
def read_turn(source: Source, found: re.Match[str]) -> Reading | None:
    """End the reply where the model goes on with somebody else's turn."""
    return Reading(source.limit, final=True)


@syntax(
    "invented_turns_line",
    opener=r"\n(?:###[ \t]*)?(?:User|Human|USER|HUMAN|Instruction)[ \t]*:",
    starts="User Human USER HUMAN Instruction",
)
def read_turn_line(source: Source, found: re.Match[str]) -> Reading | None:
    """Read no calls where a transcript goes on with the user's turn; its text stays."""
    return Reading(source.limit, text=source.text[found.start() : source.limit], final=True)
