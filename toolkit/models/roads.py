"""Tell which of its three roads an Ollama server takes with a model: who renders the prompt, and who reads the reply.

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
ROADS: dict[str, str] = {
    "native": "llama.cpp's template and parser",
    "go": "Go template, generic parser",
    "builtin": "built-in renderer and parser",
}
# a Modelfile as `show` prints it holds other people's texts, in which a line may look like one of its own
_TEXTS = re.compile(r'""".*?"""|^(?:TEMPLATE|SYSTEM|MESSAGE \w+) "(?!"")[^"]*"', re.DOTALL | re.MULTILINE)
_OWN = re.compile(r"^(?:PARSER|RENDERER)[ \t]+(\S+)", re.MULTILINE)
_GO = re.compile(r"\{\{-?\s*(?:[.$(]|/\*|(?:range|if|with|end|else|define|template|block)\b)")
_HARMONY = ("<|start|>", "<|end|>")
_FIRST = (0, 30)  # version that takes the template in the file of the weights (Source: ollama#17282)


def parser_of(show: Mapping[str, Any]) -> str:
    """Return the name of the parser built into the server that reads this model; empty where there is none."""
    if named := show.get("parser") or show.get("renderer"):
        return str(named)
    own = _OWN.findall(_TEXTS.sub("", str(show.get("modelfile") or "")))
    if own:
        return str(own[-1])  # the parser is printed after the renderer
    details, template = show.get("details"), str(show.get("template") or "")
    family = details.get("family") if isinstance(details, Mapping) else ""
    return "harmony" if family in ("gptoss", "gpt-oss") and all(mark in template for mark in _HARMONY) else ""


def road(show: Mapping[str, Any], version: str = "0.0.0") -> Road:
    """Return the road of a model from what `/api/show` says of it; `template` in it is the one in force.

    Source: ollama#17282.

    >>> road({"template": "{%- if tools %}…", "modelfile": "TEMPLATE {{ .Prompt }}"})
    'native'
    >>> road({"template": "{{ .Prompt }}", "modelfile": "RENDERER qwen3-coder"})
    'builtin'
    """
    if parser_of(show):
        return "builtin"
    template = str(show.get("template") or "").strip()
    if template in ("", "{{ .Prompt }}"):  # none of its own: llama.cpp's ChatML
        return "native" if _lets_llama_render(version) else "go"
    return "go" if _GO.search(template) or "{%" not in template else "native"


def _lets_llama_render(version: str) -> bool:
    """Tell whether a server lets llama.cpp render; a build without a version is a new one."""
    found = re.match(r"v?(\d+)\.(\d+)", version.removeprefix("ollama "))
    return found is None or (int(found[1]), int(found[2])) == (0, 0) or (int(found[1]), int(found[2])) >= _FIRST
