"""Hold what a playground edits: a recipe, the protocol's files, and the case that is asked.

A session has no widgets, so everything the playground does can be tested and scripted. It drives the same code as
a batch run: `request`, `ask`, `score`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolkit.asking import Asked, ask, request
from toolkit.errors import ConfigError
from toolkit.evaluation.cases import Case, Cases
from toolkit.evaluation.saving import file_name, save_protocol, writable_folder
from toolkit.evaluation.scoring import Verdict, score
from toolkit.messages import ChatMessage, ToolCallResult
from toolkit.models.base import ChatModel
from toolkit.prompting.protocols import Protocol, load_protocol
from toolkit.recipes import Recipe
from toolkit.tools import Tool


@dataclass(frozen=True)
class Trial:
    """Hold one trial of a case: what was asked, the verdict, and what the called tools returned."""

    asked: Asked
    verdict: Verdict
    results: tuple[ToolCallResult, ...]


@dataclass
class Session:
    """Edit a recipe and run single cases with it.

    Attributes:
        recipe: the recipe as it stands.
        cases: the cases to choose from.
        functions: tools that can really run, by name; a case's own tools are only shown.
        edits: file name -> edited content of the protocol's templates.
        models: loaded models by name.
    """

    recipe: Recipe
    cases: Cases
    functions: Mapping[str, Tool] = field(default_factory=dict)
    edits: dict[str, str] = field(default_factory=dict)
    models: dict[str, ChatModel] = field(default_factory=dict)

    def change(self, **changes: Any) -> None:
        """Change fields of the recipe; another protocol drops the edits made to the last one.

        Raises:
            ConfigError: an unknown field or an unusable value.
        """
        recipe = self.recipe.replace(**{"name": "", **changes})
        if recipe.protocol != self.recipe.protocol:
            load_protocol(recipe.protocol)
            self.edits.clear()
        self.recipe = recipe

    @property
    def protocol(self) -> Protocol:
        """Return the protocol with the edits in it."""
        protocol = load_protocol(self.recipe.protocol)
        if not self.edits:
            return protocol
        folder = Path(f"{protocol.name} (edited)")  # so that errors do not blame the file on disk
        return dataclasses.replace(protocol, files={**protocol.files, **self.edits}, folder=folder)

    def templates(self) -> list[str]:
        """Return the names of the files that can be edited."""
        return [name for name in self.protocol.files if name.endswith(".jinja")]

    def edit(self, name: str, content: str) -> None:
        """Replace the content of one template.

        Raises:
            ConfigError: the protocol has no such file.
        """
        if name not in self.protocol.files:
            raise ConfigError(f"Protocol {self.recipe.protocol!r} has no file {name!r}.")
        if load_protocol(self.recipe.protocol).files[name] == content:
            self.edits.pop(name, None)
        else:
            self.edits[name] = content

    def prompt(self, case: Case) -> list[ChatMessage]:
        """Return exactly what would be sent for a case.

        Raises:
            ConfigError: a template fails.
        """
        return list(request(self._current(), case.messages, case.tools).messages)

    def run(self, case: Case) -> Trial:
        """Ask the model, give the verdict, and run the calls whose tools have functions.

        Raises:
            UserError: the model cannot be reached, or a template fails.
        """
        asked = ask(self._current(), case, model=self.model())
        return Trial(asked, score(case, asked.reply, asked.extraction), self._execute(asked))

    def model(self) -> ChatModel:
        """Return the recipe's model, loaded once.

        Raises:
            UserError: it cannot be reached.
        """
        name = self.recipe.model
        if name not in self.models:
            from toolkit.models import load_model

            model = load_model(name)
            model.check()
            self.models[name] = model
        return self.models[name]

    def save(self, folder: str | Path, name: str = "") -> Path:
        """Write the recipe as TOML, and the protocol's folder beside it where it was edited; return the TOML's path.

        `batch/evaluate.ipynb` takes the path in its parameter `recipes`.

        Raises:
            UserError: the folder cannot be written.
        """
        where = writable_folder(folder)
        label = file_name(name or self.recipe.name)
        recipe = self.recipe.replace(name=name or self.recipe.name)
        if self.edits:
            recipe = recipe.replace(protocol=str(save_protocol(self.protocol, where / f"{label}_protocol")))
        return recipe.save(where / f"{label}.toml")

    def _current(self) -> Recipe:
        return self.recipe.using(self.protocol)

    def _execute(self, asked: Asked) -> tuple[ToolCallResult, ...]:
        from toolkit.execution import ToolInvoker

        calls = [call for call in asked.extraction.calls if call.tool_name in self.functions]
        if not calls:
            return ()
        invoker = ToolInvoker(list(self.functions.values()), raise_on_failure=False)
        messages = invoker.run(messages=[ChatMessage.from_assistant(tool_calls=calls)])["tool_messages"]
        return tuple(result for message in messages for result in message.tool_call_results)
