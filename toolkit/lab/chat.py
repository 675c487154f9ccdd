"""How do I talk with an agent in a notebook? ChatBox: a box to type in, and the conversation above it.

The view is a pure function of the turns, `conversation_html`, which also shows where widgets do not (GitHub, print).

Not here: the agent (`toolkit.agents.two_mode.agent`), trying recipes (`toolkit.lab.playground`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ipywidgets

from toolkit.errors import ToolkitError
from toolkit.traces.json_text import html_of, in_html

_BUBBLE = (
    "<div style='margin:0.4em 0;padding:0.4em 0.7em;border:1px solid #8886;border-radius:0.6em;"
    "max-width:42em;white-space:pre-wrap;margin-{side}:3em'><small style='opacity:0.7'>{who}</small>\n{text}</div>"
)


def conversation_html(turns: Iterable[Any]) -> str:
    """Return a conversation as static HTML; what was said is escaped.

    Args:
        turns: turns with `message`, `text`, and if they have them `actions` and `reason`.
    """
    parts = []
    for turn in turns:
        done = ", ".join(action.name for action in getattr(turn, "actions", ())) or "no action"
        reason = getattr(turn, "reason", None)
        who = f"agent, {done}" + (f" ({reason})" if reason else "")  # how the answer came about
        parts.append(_BUBBLE.format(side="left", who="you", text=in_html(turn.message)))
        parts.append(_BUBBLE.format(side="right", who=in_html(who), text=in_html(turn.text)))
    return f"<div>{html_of(parts) or '<i>Nothing was said yet.</i>'}</div>"


class ChatBox:
    """Talk with an agent that has `respond(message)` and `turns`; the widget is `box`.

    >>> from toolkit import ScriptedModel, TwoModeAgent
    >>> chat = ChatBox(TwoModeAgent(ScriptedModel(["-", "Hello!"])))
    >>> chat.field.value = "Hi"
    >>> chat.send.click()
    >>> chat.agent.turns[-1].text
    'Hello!'
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.log = ipywidgets.HTML(conversation_html(agent.turns))
        self.field = ipywidgets.Text(placeholder="Say something", continuous_update=False)
        self.send = ipywidgets.Button(description="Send", button_style="primary")
        self.forget = ipywidgets.Button(description="Start again")
        self.state = ipywidgets.Label("")
        row = ipywidgets.HBox([self.field, self.send, self.forget, self.state])
        self.box = ipywidgets.VBox([self.log, row])
        self.send.on_click(lambda _: self._say())
        self.forget.on_click(lambda _: self._reset())

    def _say(self) -> None:
        message = self.field.value.strip()
        if not message:
            return
        self.send.disabled, self.state.value = True, "thinking …"
        try:
            self.agent.respond(message)
            self.state.value, self.field.value = "", ""
        except ToolkitError as error:
            self.state.value = str(error)
        except Exception as error:  # in a widget nobody else would show it
            self.state.value = f"{type(error).__name__}: {error}"
        finally:
            if self.state.value == "thinking …":
                self.state.value = "stopped"
            self.send.disabled = False
            self.log.value = conversation_html(self.agent.turns)

    def _reset(self) -> None:
        self.agent.reset()
        self.state.value, self.log.value = "", conversation_html(())

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = dict(self.box._repr_mimebundle_(**options))
        return {**bundle, "text/html": self._repr_html_()}  # for places that show no widgets

    def _repr_html_(self) -> str:
        return conversation_html(self.agent.turns)
