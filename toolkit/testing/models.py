"""Describe the models that a fake Ollama server holds, and what the server says about them.

Not here: their prompts (`prompts`), what they write (`script`), which are loaded (`runners`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from toolkit.testing.prompts import CHATML, CHATML_JINJA, HERMES, HERMES_GO
from toolkit.testing.script import tokens

Road = Literal["native", "go", "builtin"]
_STOPS = ("<|im_start|>", "<|im_end|>")


@dataclass
class FakeModel:
    """Hold what makes a model of a server behave as it does.

    Attributes:
        name: with or without its tag.
        road: who renders the prompt and reads the calls: llama.cpp (`native`), a Go template and Ollama's generic
            parser (`go`), or a renderer and parser built into Ollama (`builtin`).
        tools: whether it takes tools.
        thinking: whether it has the capability.
        vision: whether it takes images.
        parser: the built-in parser: qwen3-coder, qwen3, ministral, passthrough; also names the renderer.
        tag: what opens a call on the go road; `{` where the template writes calls as bare JSON.
        template: Jinja on the native road (`{{ .Prompt }}` for none), a Go template else; the usual one if None.
        parses_thinking: native road: whether llama.cpp finds a reasoning format in the template.
        parameters: of the Modelfile, such as `{"stop": ["END"], "num_ctx": 4096}`.
        system: of the Modelfile.
        messages: of the Modelfile.
        trained: tokens of the window it was trained for.
        info: what the file of the weights says of itself.
        dimensions: of its embeddings; 0 for a model that writes.
        blob: names the file of the weights; models of one blob share a process.
        counts: returns how many tokens a text has.
        load_s: seconds that loading takes.
        shows: the answer of `show`, for a server of another version.
    """

    name: str
    road: Road = "go"
    tools: bool = True
    thinking: bool = False
    vision: bool = False
    parser: str = ""
    tag: str = "<tool_call>"
    template: str | None = None
    parses_thinking: bool = False
    parameters: dict[str, Any] | None = None
    system: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    parent: str = ""
    family: str = "llama"
    parameter_size: str = "134.52M"
    quantization: str = "Q4_1"
    trained: int = 8192
    info: Mapping[str, Any] | None = None
    dimensions: int = 0
    blob: str = ""
    digest: str = ""
    size: int = 96_576_768
    counts: Callable[[str], int] = lambda text: len(tokens(text))
    load_s: float = 0.0
    shows: Mapping[str, Any] | None = None
    modified: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        if self.road == "builtin" and not self.parser:
            self.parser = "qwen3-coder"
        if self.template is None:
            native = HERMES if self.tools else CHATML_JINJA
            go = HERMES_GO if self.road == "go" and self.tools else CHATML
            self.template = native if self.road == "native" else go
        if self.parameters is None:
            self.parameters = {} if self.road == "native" else {"stop": list(_STOPS)}
        self.digest = self.digest or hashlib.sha256(self.full_name.encode()).hexdigest()
        self.blob = self.blob or hashlib.sha256(self.digest.encode()).hexdigest()

    @property
    def full_name(self) -> str:
        """Return the name with its tag."""
        return with_tag(self.name)

    @property
    def templated(self) -> bool:
        """Tell whether it has a template at all."""
        return self.template not in ("", "{{ .Prompt }}")

    @property
    def capabilities(self) -> list[str]:
        """Return what `show` says that the model can do, in the server's order."""
        if self.dimensions:
            return ["embedding"]
        can = [
            word for word, has in (("vision", self.vision), ("tools", self.tools), ("thinking", self.thinking)) if has
        ]
        return [*can, "completion"] if self.road == "native" else ["completion", *can]

    @property
    def details(self) -> dict[str, Any]:
        """Return the block `details`."""
        return {
            "parent_model": self.parent, "format": "gguf", "family": self.family, "families": [self.family],
            "parameter_size": self.parameter_size, "quantization_level": self.quantization,
        }  # fmt: skip

    def shown(self) -> dict[str, Any]:
        """Return the answer of `/api/show`, without its list of tensors."""
        if self.shows is not None:
            return dict(self.shows)
        parameters = _parameters(self.parameters or {})
        answer = {
            "modelfile": self._modelfile(),
            "parameters": "\n".join(f"{name:<30} {_quoted(value)}" for name, value in parameters),
            "template": self.template, "system": self.system, "details": self.details,
            "messages": list(self.messages), "model_info": self.info or self._info(), "capabilities": self.capabilities,
            "modified_at": stamp(self.modified),
        }  # fmt: skip
        return {name: value for name, value in answer.items() if value not in ("", [])}

    def listed(self) -> dict[str, Any]:
        """Return the entry of `/api/tags`."""
        window = {"context_length": self.trained, "embedding_length": self.dimensions or 576}
        return {
            "name": self.full_name, "model": self.full_name, "modified_at": stamp(self.modified), "size": self.size,
            "digest": self.digest, "details": self.details | window, "capabilities": self.capabilities,
        }  # fmt: skip

    def _modelfile(self) -> str:
        template = "{{ .Prompt }}" if self.road == "native" else self.template or ""
        quoted = f'"""{template}"""' if '"' in template else f'"{template}"' if "\n" in template else template
        lines = [
            '# Modelfile generated by "ollama show"', "# To build a new Modelfile based on this, replace FROM with:",
            f"# FROM {self.full_name}", "", f"FROM sha256-{self.blob}", f"TEMPLATE {quoted}",
            *([f"SYSTEM {self.system}"] if self.system else []),
            *([f"RENDERER {self.parser}", f"PARSER {self.parser}"] if self.road == "builtin" else []),
            *(f"PARAMETER {name} {value}" for name, value in _parameters(self.parameters or {})),
            *(f"MESSAGE {message['role']} {message['content']}" for message in self.messages),
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def _info(self) -> dict[str, Any]:
        info = {
            "general.architecture": self.family, "general.parameter_count": 134_515_008, "general.type": "model",
            f"{self.family}.context_length": self.trained, f"{self.family}.embedding_length": self.dimensions or 576,
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": None,
        }  # fmt: skip
        return dict(sorted(info.items()))


def _parameters(parameters: Mapping[str, Any]) -> list[tuple[str, Any]]:
    lists = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in parameters.items()}
    return [(name, one) for name, values in lists.items() for one in values]


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def with_tag(name: str) -> str:
    """Return a name with the tag `latest` where it has none.

    >>> with_tag("library/qwen3"), with_tag("registry.ollama.ai/library/qwen3:4b")
    ('qwen3:latest', 'qwen3:4b')
    """
    name = re.sub(r"^(registry\.ollama\.ai/)?(library/)?", "", name.strip())
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def stamp(when: datetime, ahead: timedelta = timedelta()) -> str:
    """Return a time as Go writes it, with nanoseconds."""
    return f"{when + ahead:%Y-%m-%dT%H:%M:%S.%f}000Z"
