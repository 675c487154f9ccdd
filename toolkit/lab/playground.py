"""Tweak a prompt and watch what a model makes of it: Playground, for a notebook cell.

The widgets only set and read a recipe and the texts of its protocol, and drive the same code as a batch run:
`request`, `ask`, `score`. What they show is static HTML; everything from models and tools is escaped, and colours come
from JupyterLab's theme where there is one.
Not here: the highlighted reply (`toolkit.extraction.html`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from toolkit.asking import Asked, Request, ask, disarmed, disarmed_html, lost_html, request
from toolkit.errors import ToolkitError
from toolkit.evaluation.cases import Case, load_cases
from toolkit.evaluation.saving import file_name, save_recipe, writable_folder
from toolkit.evaluation.scoring import Verdict, score
from toolkit.execution import ToolInvoker
from toolkit.messages import ChatMessage, ToolCallResult
from toolkit.models import list_models, load_model
from toolkit.models.base import ChatModel
from toolkit.models.seen import lost_keywords
from toolkit.prompting.protocols import ARMS, Protocol, list_protocols, load_protocol
from toolkit.recipes import Recipe
from toolkit.tools import as_tools
from toolkit.traces.json_text import as_json, html_of, in_html
from toolkit.worlds.marketplace import Marketplace

_BORDER = "1px solid var(--jp-border-color2, rgba(128,128,128,.4))"
_PRE = (
    "margin:0;white-space:pre-wrap;overflow-wrap:anywhere;max-height:22em;overflow-y:auto;"
    "font:12px/1.5 var(--jp-code-font-family, monospace);background:transparent;color:inherit"
)
_ROLES = {"system": "#7b5ea7", "user": "#2f6f9f", "assistant": "#2e7d4f", "tool": "#8a6d1c"}
_GOOD, _BAD, _NEUTRAL = "#2e7d4f", "#b3403a", "#777777"


@dataclasses.dataclass(frozen=True)
class Trial:
    """Hold one trial of a case: what was asked, the verdict, and what the called tools returned."""

    asked: Asked
    verdict: Verdict
    results: tuple[ToolCallResult, ...]


class Playground(widgets.VBox):  # type: ignore[misc]
    """Edit a recipe and its templates, run one case, see prompt, reply, result and tokens.

    Args:
        recipe: where to start; by default the embedded model with the hermes protocol, prompted.
        cases: cases to choose from, or a name for `load_cases`.
        tools: tools that can really run; by default the five actions of the marketplace.
        folder: where *Save* writes.
        models: loaded models by name, in place of `load_model`.

    Attributes:
        recipe: the recipe as it stands; its protocol holds the edited templates.
        edits: file name -> edited content of the protocol's templates.
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
        self.recipe = recipe or Recipe("embedded/smollm2-135m", options={"num_ctx": 4096, "num_predict": 128})
        self.cases = load_cases(cases)
        self.functions = {tool.name: tool for tool in as_tools(Marketplace().actions() if tools is None else tools)}
        self.folder = Path(folder)
        self.models: dict[str, ChatModel] = dict(models or {})
        self.edits: dict[str, str] = {}
        self.last: Trial | None = None
        self._shown = ("", "")  # recipe hash and case that the shown reply belongs to
        self._busy = False  # setting a widget from here must not count as an edit
        self._make_widgets()
        super().__init__(self._laid_out(), layout={"width": "100%"})
        self._load_template()
        self._connect()
        self.refresh()

    def _make_widgets(self) -> None:
        recipe, settings = self.recipe, self.recipe.settings
        models = dict.fromkeys([recipe.model, *(line.name for line in list_models() if not line.name.endswith("…"))])
        wide = {"style": {"description_width": "92px"}, "layout": {"width": "auto"}}
        self.model = widgets.Combobox(
            value=recipe.model, options=list(models), description="Model", continuous_update=False, **wide
        )
        self.arm = widgets.ToggleButtons(options=list(ARMS), value=recipe.arm, style={"button_width": "108px"})
        protocols = list(dict.fromkeys([*list_protocols(), recipe.protocol]))
        self.protocol = widgets.Dropdown(options=protocols, value=recipe.protocol, description="Protocol", **wide)
        labels = [(f"{case.id}: {case.question[:60]}", case.id) for case in self.cases]
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
        self.reply_view = widgets.HTML(_note("Press Run to ask the model."))
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
            widget.observe(lambda _: self.refresh(), "value")
        self.protocol.observe(self._changed_protocol, "value")
        self.template.observe(self._changed_template, "value")
        self.editor.observe(self._edited, "value")
        self.run_button.on_click(lambda _: self.run())
        self.save_button.on_click(lambda _: self.save())

    def _changed_protocol(self, _: Any) -> None:
        self._guarded(self._apply)
        self._load_template()
        self.refresh()

    def _changed_template(self, _: Any) -> None:
        if not self._busy:
            self._show_template()

    def _edited(self, change: Any) -> None:
        if self._busy:
            return
        name, content = self.template.value, change["new"]
        self.edits.pop(name, None)
        if load_protocol(self.recipe.protocol).files[name] != content:
            self.edits[name] = content
        self.refresh()

    def _load_template(self) -> None:
        self._busy = True
        self.template.options = [name for name in self._protocol().files if name.endswith(".jinja")]
        self.template.value = "system.jinja"
        self._show_template()

    def _show_template(self) -> None:
        self._busy = True
        self.editor.value = self._protocol().files[self.template.value]
        self._busy = False

    def _protocol(self) -> Protocol:
        """Return the protocol with the edits in it."""
        protocol = load_protocol(self.recipe.protocol)
        if not self.edits:
            return protocol
        folder = Path(f"{protocol.name} (edited)")  # so that errors do not blame the file on disk
        return dataclasses.replace(protocol, files={**protocol.files, **self.edits}, folder=folder)

    def _apply(self) -> None:
        """Bring the recipe up to what the widgets say; another protocol drops the edits made to the last one."""
        options = {
            **self.recipe.options, "num_predict": self.num_predict.value, "temperature": self.temperature.value,
        }  # fmt: skip
        chosen = {"model": self.model.value.strip(), "arm": self.arm.value, "protocol": self.protocol.value}
        recipe = self.recipe.replace(name="", options=options, **chosen)
        if recipe.protocol != self.recipe.protocol:
            load_protocol(recipe.protocol)
            self.edits.clear()
        self.recipe = recipe
        self.recipe = recipe.using(self._protocol())

    @property
    def _case(self) -> Case:
        case: Case = self.cases[self.case.value]
        return case

    def refresh(self) -> None:
        """Show the prompt that the settings now lead to, or what is wrong with them."""
        self._guarded(self._refresh)

    def _refresh(self) -> None:
        self._apply()
        if self.last is not None and self._shown != (self.recipe.hash, self.case.value):
            self._clear("The recipe or the case has changed. Press Run to ask the model.")
        messages, tools = self._case.messages, self._case.tools
        changed = disarmed_html(disarmed(self.recipe, messages, tools))
        sent = request(self.recipe, messages, tools)
        self.prompt_view.value = _prompt(sent.messages) + self._tools(sent) + changed
        edited = f" · edited: {', '.join(self.edits)}" if self.edits else ""
        self.status.value = _note(f"recipe {self.recipe.hash}{edited}")

    def _tools(self, sent: Request) -> str:
        """Return the tools of the native arm as they reach the model, and what of them never does."""
        if not sent.tools:
            return ""
        specs = [tool.tool_spec for tool in sent.tools]
        try:
            model = self.models.get(self.recipe.model) or load_model(self.recipe.model)  # contacts nobody
        except ToolkitError:
            return _box("tools", as_json(specs, indent=2), _NEUTRAL)
        kept = model.tools_as_kept(specs)
        lost = lost_html(lost_keywords(specs)) if kept != specs else ""
        return _box("tools, as they reach the model", as_json(kept, indent=2), _NEUTRAL) + lost

    def _clear(self, note: str) -> None:
        self.last = None
        self.reply_view.value, self.result_view.value = _note(note), ""

    def run(self) -> None:
        """Ask the model and show its reply, the verdict and the results."""
        self._clear("Asking the model…")
        self.status.value = _note("Asking the model…")
        self.run_button.disabled = True
        try:
            self._guarded(self._run)
        finally:
            self.run_button.disabled = False

    def _run(self) -> None:
        self._apply()
        self._shown, case = (self.recipe.hash, self.case.value), self._case
        asked = ask(self.recipe, case, model=self._model())
        self.last = Trial(asked, score(case, asked.reply, asked.extraction), self._execute(asked))
        self.reply_view.value = asked.extraction._repr_html_()
        self.result_view.value = _results(self.last)
        with contextlib.suppress(ToolkitError):  # not every server shows it
            self.result_view.value += _box("What the model read", asked.seen, _NEUTRAL)
        self._refresh()

    def _model(self) -> ChatModel:
        name = self.recipe.model
        if name not in self.models:
            model = load_model(name)
            model.check()
            self.models[name] = model
        return self.models[name]

    def _execute(self, asked: Asked) -> tuple[ToolCallResult, ...]:
        """Run the calls whose tools have functions; a case's own tools are only shown."""
        calls = [call for call in asked.extraction.calls if call.tool_name in self.functions]
        if not calls:
            return ()
        invoker = ToolInvoker(list(self.functions.values()), raise_on_failure=False)
        messages = invoker.run(messages=[ChatMessage.from_assistant(tool_calls=calls)])["tool_messages"]
        return tuple(result for message in messages for result in message.tool_call_results)

    def save(self) -> None:
        """Write the recipe as TOML, and the protocol's folder beside it where it was edited.

        `batch/evaluate.ipynb` takes the path in its parameter `recipes`.
        """
        self._guarded(self._save)

    def _save(self) -> None:
        name = self.name.value.strip() or self.recipe.name
        path = save_recipe(self.recipe.replace(name=name), writable_folder(self.folder), file_name(name)).resolve()
        command = (
            f"python -m toolkit evaluate {shlex.quote(str(path))} --cases {shlex.quote(self._case.domain or 'all')}"
        )
        self.status.value = _note(f"Saved. Run it: {command}")

    def _guarded(self, action: Any) -> None:
        try:
            action()
        except ToolkitError as error:
            self.status.value = _note(str(error), bad=True)
            if self.last is None:
                self._clear("No reply: see the message under the buttons.")


def _prompt(messages: Iterable[ChatMessage]) -> str:
    """Return the messages exactly as they are sent, one box each."""
    return html_of(_box(m.role.value, m.text or "", _ROLES[m.role.value]) for m in messages)


def _results(trial: Trial) -> str:
    """Return verdict, tokens, and what each executed call returned."""
    reply, verdict = trial.asked.reply, trial.verdict
    colour = _GOOD if verdict.right else _BAD
    word = verdict.outcome.replace("_", " ")
    detail = f" · {in_html(verdict.detail)}" if verdict.detail else ""
    if reply.fault:
        detail = f" · {in_html(reply.fault.message)}"
    parts = [f'<div style="margin:4px 0"><b style="color:{colour}">{word}</b>{detail}</div>', _tokens(reply)]
    for result in trial.results:
        title = f"{result.origin.tool_name} {'failed' if result.error else 'returned'}"
        parts.append(_box(title, _pretty(result.result), _BAD if result.error else _GOOD))
    if trial.asked.extraction.calls and not trial.results:
        parts.append(_note("The called tool is only shown in this case; it has no function to run."))
    return html_of(parts)


def _tokens(reply: Any) -> str:
    cached = f" ({reply.cached_tokens} cached)" if reply.cached_tokens else ""
    known = [
        f"{reply.prompt_tokens}{cached} tokens in" if reply.prompt_tokens is not None else "",
        f"{reply.completion_tokens} out" if reply.completion_tokens is not None else "",
        f"{reply.seconds:.2f} s",
        f"ended by {reply.finish_reason}",
    ]
    return _note(" · ".join(part for part in known if part))


def _note(text: str, bad: bool = False) -> str:
    """Return one line of plain words."""
    return f'<div style="color:{_BAD if bad else _NEUTRAL};font-size:12px;margin:4px 0">{in_html(text)}</div>'


def _pretty(value: Any) -> str:
    try:
        return as_json(json.loads(value) if isinstance(value, str) else value, indent=2)
    except ValueError:
        return str(value)


def _box(title: str, text: str, colour: str) -> str:
    return (
        f'<div style="border:{_BORDER};border-left:3px solid {colour};'
        f'border-radius:3px;padding:4px 8px;margin:0 0 6px">'
        f'<div style="color:{colour};font-size:11px;font-weight:600">{in_html(title)}</div>'
        f'<pre style="{_PRE}">{in_html(text)}</pre></div>'
    )
