"""Tweak a prompt and watch what a model makes of it: Playground, for a notebook cell.

The widgets only set and read a `Session`, which drives the same code as the batch run.
Not here: what a run does (`toolkit.lab.session`), how it is shown (`toolkit.lab.views`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from toolkit.errors import ToolkitError
from toolkit.evaluation.cases import load_cases
from toolkit.lab import views
from toolkit.lab.session import Session, Trial
from toolkit.prompting.protocols import ARMS, list_protocols
from toolkit.recipes import Recipe
from toolkit.tools import as_tools


class Playground(widgets.VBox):  # type: ignore[misc]
    """Edit a recipe and its templates, run one case, see prompt, reply, result and tokens.

    Args:
        recipe: where to start; by default the embedded model with the hermes protocol, prompted.
        cases: cases to choose from, or a name for `load_cases`.
        tools: tools that can really run; by default the five actions of the marketplace.
        folder: where *Save* writes.
        models: loaded models by name, in place of `load_model`.

    Attributes:
        session: the state behind the widgets.
        last: the last `Trial`, or None.
    """

    def __init__(
        self,
        recipe: Recipe | None = None,
        cases: Any = "marketplace",
        tools: Iterable[Any] | None = None,
        folder: str | Path = "runs/playground",
        models: dict[str, Any] | None = None,
    ) -> None:
        start = recipe or Recipe("embedded/smollm2-135m", options={"num_ctx": 4096, "num_predict": 128})
        offered = as_tools(_marketplace() if tools is None else tools)
        functions = {tool.name: tool for tool in offered}
        self.session = Session(start, load_cases(cases), functions, models=dict(models or {}))
        self.folder = Path(folder)
        self.last: Trial | None = None
        self._shown = ("", "")  # recipe hash and case that the shown reply belongs to
        self._busy = False
        self._make_widgets()
        super().__init__(self._laid_out(), layout={"width": "100%"})
        self._load_template()
        self._connect()
        self.refresh()

    def _make_widgets(self) -> None:
        recipe, settings = self.session.recipe, self.session.recipe.settings
        wide = {"style": {"description_width": "92px"}, "layout": {"width": "auto"}}
        self.model = widgets.Combobox(
            value=recipe.model, options=_model_names(recipe.model), description="Model", continuous_update=False, **wide
        )
        self.arm = widgets.ToggleButtons(options=list(ARMS), value=recipe.arm, style={"button_width": "108px"})
        protocols = list(dict.fromkeys([*list_protocols(), recipe.protocol]))
        self.protocol = widgets.Dropdown(options=protocols, value=recipe.protocol, description="Protocol", **wide)
        labels = [(f"{case.id}: {case.question[:60]}", case.id) for case in self.session.cases]
        self.case = widgets.Dropdown(options=labels, description="Case", **wide)
        self.num_predict = widgets.BoundedIntText(settings.num_predict, 1, 4096, description="Max. tokens", **wide)
        self.temperature = widgets.FloatSlider(
            settings.temperature, min=0, max=2, step=0.1, description="Temperature", continuous_update=False, **wide
        )
        self.template = widgets.Dropdown(description="Template", **wide)
        self.editor = widgets.Textarea(layout={"width": "auto", "height": "300px"})
        self.name = widgets.Text("my recipe", description="Name", **wide)
        self.run_button = widgets.Button(description="Run", button_style="primary", icon="play")
        self.save_button = widgets.Button(description="Save", icon="save")
        self.status = widgets.HTML()
        self.prompt_view = widgets.HTML()
        self.reply_view = widgets.HTML(views.note_html("Press Run to ask the model."))
        self.result_view = widgets.HTML()

    def _laid_out(self) -> list[Any]:
        buttons = widgets.HBox([self.run_button, self.save_button])
        left = widgets.VBox(
            [
                self.model, self.arm, self.protocol, self.case, self.num_predict, self.temperature,
                self.template, self.editor, self.name, buttons, self.status,
            ],
            layout={"width": "42%", "min_width": "340px"},
        )  # fmt: skip
        head = ["What is sent", "What came back", "Verdict and results"]
        shown = [self.prompt_view, self.reply_view, self.result_view]
        blocks = [
            part for title, view in zip(head, shown, strict=True) for part in (widgets.HTML(f"<b>{title}</b>"), view)
        ]
        right = widgets.VBox(blocks, layout={"width": "58%", "padding": "0 0 0 16px"})
        return [widgets.HBox([left, right], layout={"width": "100%"})]

    def _connect(self) -> None:
        for widget in (self.model, self.arm, self.num_predict, self.temperature, self.case):
            widget.observe(self._changed, "value")
        self.protocol.observe(self._changed_protocol, "value")
        self.template.observe(self._changed_template, "value")
        self.editor.observe(self._edited, "value")
        self.run_button.on_click(lambda _: self.run())
        self.save_button.on_click(lambda _: self.save())

    def _changed(self, _: Any) -> None:
        self.refresh()

    def _changed_protocol(self, _: Any) -> None:
        self._guarded(self._apply)
        self._load_template()
        self.refresh()

    def _changed_template(self, _: Any) -> None:
        if not self._busy:
            self._show_template()

    def _edited(self, change: Any) -> None:
        if not self._busy:
            self.session.edit(self.template.value, change["new"])
            self.refresh()

    def _load_template(self) -> None:
        self._busy = True  # setting a widget from here must not count as an edit
        self.template.options = self.session.templates()
        self.template.value = "system.jinja"
        self._busy = False
        self._show_template()

    def _show_template(self) -> None:
        self._busy = True
        self.editor.value = self.session.protocol.files[self.template.value]
        self._busy = False

    def _apply(self) -> None:
        options = {
            **self.session.recipe.options, "num_predict": self.num_predict.value, "temperature": self.temperature.value,
        }  # fmt: skip
        self.session.change(
            model=self.model.value.strip(), arm=self.arm.value, protocol=self.protocol.value, options=options
        )

    def refresh(self) -> None:
        """Show the prompt that the settings now lead to, or what is wrong with them."""
        self._guarded(self._refresh)

    def _refresh(self) -> None:
        self._apply()
        if self.last is not None and self._shown != (self._hash(), self.case.value):
            self._clear("The recipe or the case has changed. Press Run to ask the model.")
        self.prompt_view.value = views.prompt_html(self.session.prompt(self.session.cases[self.case.value]))
        edited = ", ".join(self.session.edits)
        self.status.value = views.note_html(f"recipe {self._hash()}" + (f" · edited: {edited}" if edited else ""))

    def _hash(self) -> str:
        return self.session.recipe.using(self.session.protocol).hash

    def _clear(self, note: str) -> None:
        self.last = None
        self.reply_view.value, self.result_view.value = views.note_html(note), ""

    def run(self) -> None:
        """Ask the model and show its reply, the verdict and the results."""
        self._clear("Asking the model…")
        self.status.value = views.note_html("Asking the model…")
        self.run_button.disabled = True
        try:
            self._guarded(self._run)
        finally:
            self.run_button.disabled = False

    def _run(self) -> None:
        self._apply()
        self._shown = (self._hash(), self.case.value)
        self.last = self.session.run(self.session.cases[self.case.value])
        self.reply_view.value = self.last.asked.extraction._repr_html_()
        self.result_view.value = views.results_html(self.last)
        self._refresh()

    def save(self) -> None:
        """Write the recipe, and the protocol's folder where it was edited."""
        self._guarded(self._save)

    def _save(self) -> None:
        path = self.session.save(self.folder, self.name.value.strip()).resolve()
        domain = self.session.cases[self.case.value].domain or "all"
        command = f"python -m toolkit evaluate {shlex.quote(str(path))} --cases {shlex.quote(domain)}"
        self.status.value = views.note_html(f"Saved. Run it: {command}")

    def _guarded(self, action: Any) -> None:
        try:
            action()
        except ToolkitError as error:
            self.status.value = views.note_html(str(error), bad=True)
            if self.last is None:
                self._clear("No reply: see the message under the buttons.")


def _model_names(first: str) -> list[str]:
    """Return the models that can be picked: embedded ones, and those of a running Ollama server."""
    from toolkit.models import list_models

    return list(dict.fromkeys([first, *(line.name for line in list_models() if not line.name.endswith("…"))]))


def _marketplace() -> list[Any]:
    from toolkit.worlds.marketplace import Marketplace

    return list(Marketplace().actions())
