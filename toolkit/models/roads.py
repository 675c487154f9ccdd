"""Tell which of its three roads an Ollama server takes with a model, and how a request keeps what the model writes.

    native     llama.cpp renders the model's own template and reads the calls; it sorts the keys of a schema
    go         Ollama renders the Modelfile's Go template; its generic parser reads calls where tools were sent
    builtin    a renderer and a parser of Ollama's own, which reads every text and drops or refuses what it cannot

Not here: asking the server (`ollama`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

Road = Literal["native", "go", "builtin"]
Transport = Literal["chat", "raw"]
ROADS: dict[str, str] = {
    "native": "llama.cpp's template and parser",
    "go": "Go template, generic parser",
    "builtin": "built-in renderer and parser",
}

# a Modelfile as `show` prints it holds other people's texts, in which a line may look like one of its own
_TEXTS = re.compile(r'"""(.*?)"""|^(?:TEMPLATE|SYSTEM) "(?!"")([^"]*)"', re.DOTALL | re.MULTILINE)
_OWN = re.compile(r"^(?:PARSER|RENDERER)\s+(\S+)", re.MULTILINE)
_NONE = re.compile(r"^TEMPLATE \{\{ \.Prompt \}\}$", re.MULTILINE)  # so that of the weights is in force
_HARMONY = ("<|start|>", "<|end|>")
# one hands over all that was written, of the other raw completion hides the marks that part thoughts from the answer
_LOSING_NOTHING = ("passthrough", "olmo3-think", "harmony")


def parser_of(show: Mapping[str, Any]) -> str:
    """Return the name of the parser built into the server that reads this model; empty where there is none."""
    if named := show.get("parser") or show.get("renderer"):
        return str(named)
    own = _OWN.findall(_TEXTS.sub("", str(show.get("modelfile") or "")))
    if own:
        return str(own[-1])  # the parser is printed after the renderer
    details, template = show.get("details") or {}, str(show.get("template") or "")
    harmony = details.get("family") in ("gptoss", "gpt-oss") and all(mark in template for mark in _HARMONY)
    return "harmony" if harmony else ""


def road(show: Mapping[str, Any]) -> Road:
    """Return the road of a model from what `/api/show` says of it: the template in it is the one in force.

    >>> road({"template": "{%- if tools %}…", "modelfile": "TEMPLATE {{ .Prompt }}"})
    'native'
    >>> road({"template": "{{ .Prompt }}", "modelfile": "RENDERER qwen3-coder"})
    'builtin'
    """
    if parser_of(show):
        return "builtin"
    template, modelfile = str(show.get("template") or ""), _TEXTS.sub("", str(show.get("modelfile") or ""))
    none = template.strip() in ("", "{{ .Prompt }}") or _NONE.search(modelfile)
    return "native" if none or "{%" in template else "go"


def lossless(taken: str, parser: str, held: bool, thinking: bool) -> Transport:
    """Return how to put a conversation so that what the model writes comes back whole, keys in the order asked.

    Args:
        taken: the road.
        parser: see `parser_of`.
        held: whether decoding is held to a schema.
        thinking: whether thoughts were asked for; raw completion holds to a schema from the first token on.
    """
    if held and thinking:
        return "chat"
    loses = taken == "builtin" and parser not in _LOSING_NOTHING
    return "raw" if loses or (taken == "native" and held) else "chat"
