"""Hold the syntaxes that differ only in their tags: a known body (`bodies`) between an opener and a closer.

Adding one is adding a row, and a test reads its example. A closer may be missing in a reply.

Not here: syntaxes with a logic of their own (the other modules).
"""

import re
from typing import Any

from toolkit.extraction.bodies import THOUGHT_END, told, wrapped
from toolkit.extraction.drafts import Reading, Syntax
from toolkit.extraction.elements import CALLERS
from toolkit.extraction.parameters import DSML
from toolkit.extraction.source import Source
from toolkit.extraction.syntaxes import register


def _read(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read the body behind an opener, or the arguments behind an element that holds a name."""
    if _HOLDS_NAME.match(source.text, found.end(), source.limit):
        last = source.text.rfind("<", found.start(), found.end())  # the opener may stand there twice
        reading = wrapped(source, found.start(), last, syntax)
        if reading is not None:
            return reading if syntax.name == "hermes" else told(source, reading)
    pos = source.past(THOUGHT_END, found.end())
    return wrapped(source, found.start() + found[0].startswith("\n"), pos, syntax)


def _read_tag(source: Source, found: re.Match[str], syntax: Syntax) -> Reading | None:
    """Read calls in tags from the first call's own tag on."""
    reading = wrapped(source, found.start(), found.start(), syntax)
    if reading is None and found[0][-1].isspace():  # its attributes name no tool, so it is a wrapper
        behind = source.text.find(">", found.end(), source.limit) + 1
        return wrapped(source, found.start(), behind, syntax) if behind else None
    return reading and told(source, reading)


def row(name: str, summary: str, example: str, opener: str, closer: str, labels: str = "", **more: Any) -> None:
    """Register one; `tagged` says that the opener is the call's own tag, so where a wrapper is left out."""
    read = _read_tag if more.pop("tagged", False) else _read
    register(name, read, example, opener, summary=f"Read {summary}.", closer=closer, labels=labels, **more)


_HOLDS_NAME = re.compile(r"\s*+[^\W\d][\w.\-:/\\]{0,200}+\s*+</")
_JSON = '{"name": "f", "arguments": {"a": 1}}'
_FUNCTION = "<function=f>\n<parameter=a>\n1\n</parameter>\n</function>"
_INVOKE = '<invoke name="f"><parameter name="a">1</parameter></invoke>'
_DSML = '<｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter></｜DSML｜invoke>'
_PAIRS = "f<longcat_arg_key>a</longcat_arg_key><longcat_arg_value>1</longcat_arg_value>"
_TAG = (
    r"\s*+(?i:tool|function_?call|tool_?use|tools|tool_?request|tool_code|call|functions?|action|api_call|use_?tool"
    r"|use_mcp_tool|invoke|tool_?invocation|tool_?invoke)"
    r"\s*+>"
)
_BAR = "[|｜]"
_CALLS_END = r"</(?:\w++:)?(?:function_calls|functions|tool_calls?)>"
_DSML_CALLS = rf"{DSML}(?:function_calls?|tool_calls?|tool_uses?|calls)>"
_PYTHON = {"json": "olmo3", "python": "olmo3", "compact": "olmo3", "name": "olmo3"}  # what is no <invoke>
# Where two openers fit, the earlier row is tried first.
# fmt: off
row(
    "hermes", '`<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes, Qwen 2.5 and 3, many tunes',
    f"<tool_call>\n{_JSON}\n</tool_call>",
    r"<\s*+(?i:tool_call)\s*+>(?:\s*+<\s*+(?i:tool_call)\s*+>)*+",
    r"(?:<\s*+)?/\s*+(?i:tool_call)\s*+>(?:\s*+</tool_call>)*+|<\|/?tool_call\|>",
    "glm45 glm47 qwen3_coder anthropic_xml granite3 functionary_v31",
    forms={"invoke": "anthropic_xml", "name": "glm45"},
)
row(
    "minimax_m2", '`<minimax:tool_call>` with `<invoke name="NAME">`: MiniMax M2',
    f"<minimax:tool_call>{_INVOKE}</minimax:tool_call>",
    r"<minimax:(?:function_calls\s*+>|tool_call>(?=\s*+(?:<invoke|[{\[])))", _CALLS_END,
    "anthropic_xml", forms=_PYTHON,
)
row(
    "minimax_m2", '`<minimax:invoke name="NAME">` without its wrapper',
    f"<minimax:{_INVOKE[1:]}", r"<minimax:invoke\s++name\s*+=", _CALLS_END, "anthropic_xml", tagged=True,
)
row(
    "anthropic_xml", '`<function_calls>` with `<invoke name="NAME"><parameter name="KEY">…`: Claude; Olmo 3',
    f"<function_calls>{_INVOKE}</function_calls>",
    r"<(?:(?:\w++:)?function_calls\s*+>|\w++:tool_call>(?=\s*+<invoke))", _CALLS_END,
    "minimax_m2 olmo3 minicpm_xml", forms=_PYTHON,
)
row(
    "anthropic_xml", '`<invoke name="NAME">` without its wrapper',
    _INVOKE, r"<(?:\w++:)?invoke\s++name\s*+=", _CALLS_END, "minimax_m2 olmo3 minicpm_xml", tagged=True,
)
row(
    "minicpm_xml", '`<function name="NAME"><param name="KEY">…`: MiniCPM 4',
    '<function name="f"><param name="a">1</param></function>',
    r"<(?:\w++:)?function\s++name\s*+=", _CALLS_END,
    "anthropic_xml", tagged=True,
)
row(
    "qwen3_coder", "`<function=NAME>` with `<parameter=KEY>` tags, or with JSON: Qwen3-Coder, Functionary 3.1",
    _FUNCTION,
    r"<\s*+function\s*+=\s*+", r"</(?i:tool_calls?|function_calls|functions?)>|<\|eo[mt]_id\|>",
    "functionary_v31", tagged=True,
)
row(
    "deepseek_dsml", '`<｜DSML｜function_calls>` with `<｜DSML｜invoke name="NAME">`: DeepSeek V3.2 and later',
    f"<｜DSML｜function_calls>{_DSML}</｜DSML｜function_calls>",
    f"<{_DSML_CALLS}", f"</{_DSML_CALLS}",
)
row(
    "deepseek_dsml", '`<｜DSML｜invoke name="NAME">` without its wrapper',
    _DSML, rf"<{DSML}invoke\s", f"</{_DSML_CALLS}", tagged=True,
)
row(
    "tool_tag", "a call in `<tool>`, `<function_call>`, `<tool_use>` and the like: Granite 20B, Gemma, small tunes",
    '<tool>{"name": "f", "parameters": {"a": 1}}</tool>', f"<{_TAG}", f"</{_TAG}",
    "granite20b bfcl_xml minicpm_xml qwen3_coder anthropic_xml", forms={"invoke": "anthropic_xml"},
)
row(
    "tool_tag", '`<tool name="NAME">`, `<tool_call tool="NAME">` and the like, with arguments in any form',
    '<tool_call name="f">{"a": 1}</tool_call>', rf"<(?:\w++:)?(?i:{CALLERS})(?:\s(?=[^<>]{{1,400}}>)|\s*+=)",
    _CALLS_END, "tool_tag", tagged=True,
)
row(
    "tool_calls_tag", '`<tool_calls>[{"name": …, "arguments": {…}}, …]</tool_calls>`: Jamba, Hunyuan A13B',
    f"<tool_calls>[{_JSON}]</tool_calls>", r"<(?i:tool_calls)>", r"</(?i:tool_calls)>", "glm45",
)
row(
    "nemotron_toolcall", "`<TOOLCALL>[…]</TOOLCALL>` with JSON or Python calls in it: Nemotron",
    "<TOOLCALL>[f(a=1)]</TOOLCALL>", r"<(?i:toolcalls?)>", r"</(?i:toolcalls?)>",
)
row(
    "granite3", '`<|tool_call|>[{"name": …, "arguments": {…}}]`, without a closer: Granite 3.0 to 3.3, Phi-4-mini',
    f"<|tool_call|>[{_JSON}]",
    rf"<{_BAR}\s*+(?i:tool_call)\s*+{_BAR}>",
    rf"<{_BAR}\s*+/(?i:tool_call){_BAR}>|</(?i:tool_call)>|<{_BAR}(?i:tool_call_end){_BAR}>"
    rf"|<{_BAR}(?i:tool_call){_BAR}>(?=\s*+$)",
    "phi4mini",
)
row(
    "apertus", "`<|tools_prefix|>[{NAME: {…}}, …]<|tools_suffix|>`: Apertus",
    '<|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>', r"<\|tools_prefix\|>", r"<\|tools_suffix\|>",
    forms={"key": "apertus"},
)
row(
    "command_r7b", '`<|START_ACTION|>[{"tool_name": …, "parameters": {…}}]<|END_ACTION|>`: Command R7B, Command A',
    '<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>',
    r"<\|START_ACTION\|>", r"<\|END_ACTION\|>",
)
row(
    "dots", "`<dots_function_call>` with JSON or `<invoke>` in it: dots.llm1",
    f"<dots_function_call>{_JSON}</dots_function_call>", r"<dots_function_call>", r"</dots_function_call>",
)
row(
    "gigachat", '`<|function_call|>{"name": …, "arguments": {…}}`: GigaChat 3',
    f"<|function_call|>{_JSON}",
    r"<\|(?:function_call|content_invoke_tool_json)\|>", r"<\|/?(?:function_call|message_sep|end)\|>", "inkling",
)
row(
    "gorilla", "`<<function>>f(a=1)<<function>>g(b=2)`: Gorilla OpenFunctions",
    "<<function>>f(a=1)", r"<<function>>", r"<</function>>",
)
row(
    "internlm2", '`<|action_start|><|plugin|>{"name": …, "parameters": {…}}<|action_end|>`: InternLM 2 to 3',
    '<|action_start|><|plugin|>\n{"name": "f", "parameters": {"a": 1}}<|action_end|>',
    r"<\|action_start\|>\s*+(?:<\|\w++\|>)?", r"<\|action_end\|>",
)
row(
    "lfm2", "`<|tool_call_start|>[f(a=1)]<|tool_call_end|>`: LFM2, MiniCPM 3",
    "<|tool_call_start|>[f(a=1)]<|tool_call_end|>", r"<\|tool_call_start\|>", r"<\|tool_call_end\|>",
)
row(
    "llama31_json", '`<|python_tag|>{"name": …, "parameters": {…}}`, perhaps with `;` between: Llama 3.1 to 3.3',
    '<|python_tag|>{"name": "f", "parameters": {"a": 1}}<|eom_id|>',
    r"<\|python_tag\|>", r"<\|(?:eom_id|eot_id)\|>", "llama_pythonic",
)
row(
    "llama4_python_tag", "`<|python_start|>[f(a=1)]<|python_end|>`: Llama 4",
    "<|python_start|>[f(a=1)]<|python_end|>", r"<\|python_start\|>", r"<\|python_end\|>",
)
row(
    "longcat", "`<longcat_tool_call>NAME` with `<longcat_arg_key>` pairs: LongCat",
    f"<longcat_tool_call>{_PAIRS}</longcat_tool_call>",
    r"<longcat_tool_call>", r"</longcat_tool_call>", forms={"pairs": "longcat"},
)
row(
    "seed_oss", "`<seed:tool_call><function=NAME>` with `<parameter=KEY>` tags: Seed-OSS",
    f"<seed:tool_call>\n{_FUNCTION}\n</seed:tool_call>", r"<seed:tool_call>", r"</seed:tool_call>",
    forms={"function": "seed_oss", "function_json": "seed_oss"},
)
row(
    "mistral_array", "`[TOOL_CALLS] [{…}, …]`, and `NAME[ARGS]{…}` or `NAME{…}` behind it: Mistral",
    f"[TOOL_CALLS] [{_JSON}]",
    r"\[TOOL_CALLS?\](?:\s*+\[TOOL_CALLS?\])*+", r"\[/TOOL_CALLS?\]|</s>",
    "mistral_args mistral_compact", forms={"args": "mistral_args", "compact": "mistral_compact"},
)
row(
    "nexus_raven", "`Call: f(a=1); g(b=2)<bot_end>`: NexusRaven",
    "Call: f(a=1)<bot_end>", r"\n[ \t]*+Call:(?=\s*+[A-Za-z_][\w.\-]*+\()", r"<bot_end>", starts="Call",
)
# fmt: on
