"""Where do the two prompts and the examples of the two-mode agent come from?

`prompts/two_mode/`: `tool.jinja` and `chat.jinja` with named slots, `faithful_tool.txt` and `faithful_chat.txt` with
the numbered slots of the published rule, `examples.jsonl`. Templates run in jinja2's immutable sandbox, so braces in
what a user says are only braces.

Not here: filling them (`toolkit.agents.two_mode.agent`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit import resources
from toolkit.errors import ConfigError
from toolkit.prompting import templates


@dataclass(frozen=True)
class Template:
    """Hold a template and where it lies.

    Attributes:
        source: its text.
        where: what an error calls it.
    """

    source: str
    where: str

    def fill(self, **values: Any) -> str:
        """Return the prompt.

        Raises:
            ConfigError: it uses an unknown variable.
        """
        return templates.fill(self.source, values, self.where)


def load_text(value: str | Path | None, name: str) -> Template:
    """Read a prompt: its text, a file, or None for the one in `prompts/two_mode/`.

    Raises:
        ConfigError: the file cannot be read.
    """
    if isinstance(value, str):
        return Template(value, name)
    path = resources.path(f"prompts/two_mode/{name}") if value is None else Path(value)
    try:
        return Template(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"Cannot read the prompt {str(path)!r}: {error}.") from None


def load_template(value: str | Path | None, name: str) -> Template:
    """Read a jinja template; see `load_text`.

    Raises:
        ConfigError: the file cannot be read, or is no template.
    """
    found = load_text(value, name)
    templates.check(found.source, found.where)
    return found


def load_examples(examples: Iterable[Mapping[str, Any]] | None, names: Collection[str]) -> list[dict[str, Any]]:
    """Return few-shot turns as {"user", "reply", "rows"}: the reply as the model should write it, the data it gave.

    Args:
        examples: dicts with user, action, action_input and rows; None for the bundled ones, where they fit the actions.
        names: the actions there are.

    Raises:
        ConfigError: an example lacks user or action, or names an unknown action.
    """
    if examples is not None:
        return [_example(row, names) for row in examples]
    lines = resources.path("prompts/two_mode/examples.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    fits = {row["action"] for row in rows} - {"none"} <= set(names)
    return [_example(row, names) for row in rows] if fits else []


def _example(row: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    if not isinstance(row.get("user"), str) or row.get("action") not in ("none", *names):
        raise ConfigError(
            f"{dict(row)!r} is no example: give user, action (none, {', '.join(names)}) and action_input."
        )
    call = {key: row[key] for key in ("action", "action_input") if key in row}
    return {"user": row["user"], "reply": templates.as_json(call), "rows": list(row.get("rows", ()))}
