"""Attack what acts on replies: any reply through every loop, many calls in one reply, texts in every view.

Not here: how attacks are run and timed (`frame`), texts that are only read (`extraction`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import toolkit as tk
from tests.hostile.extraction import TOOLS, cases, mutated, pieces
from tests.hostile.frame import Attack, attacks
from toolkit.errors import ToolkitError
from toolkit.models import Reply

CALLS = 100_000  # characters a second of calls that are run
MARK = "<img src=x onerror=alert(1)>\x1b[31m\ud800"
VALUES: list[Any] = [
    None, True, 7, -1.5, 10**400, float("inf"), float("nan"), "", "x", MARK, "f", [], {}, [1], {"a": 1},
    {1: 2}, {None: 3},
]  # fmt: skip


def f(a: int = 0, b: str = "", c: list[Any] | None = None) -> str:
    """Say what was given."""
    return f"{a} {b} {c}"


def recipes() -> list[tk.Recipe]:
    arms = [("native", None), ("prompted", "hermes"), ("prompted", "airgap"), ("constrained", "action_json")]
    limits = {"max_model_calls": 4, "concurrent": False}
    return [tk.Recipe("scripted", arm=arm, agent=limits, **({"protocol": name} if name else {})) for arm, name in arms]  # type: ignore[arg-type]


def run(design: str, lines: list[Any], recipe: tk.Recipe) -> Any:
    """Run one design on a script; what it raises has to be an error of ours, with a trace that can be shown."""
    model = tk.ScriptedModel([*lines, "done"], cycle=True)
    made: Any = {
        "agent": lambda: tk.Agent(model, [f], recipe=recipe).run,
        "airgap": lambda: tk.AirgapChat(model, max_rounds=3).bind_tools([f]).invoke,
        "two_mode": lambda: tk.TwoModeAgent(model, [f]).respond,
    }[design]()
    try:
        return made("go")
    except ToolkitError as error:
        return getattr(error, "trace", None)


def show(found: Any) -> None:
    """Make every view of a result; nothing in it is markup of the text's own, and all of it can be written out."""
    if found is None:
        return
    for view in ("_repr_html_", "to_text", "to_json", "__repr__"):
        if (make := getattr(found, view, None)) is not None:
            made = make()
            made.encode()
            assert "<img" not in made or view != "_repr_html_", f"{view} holds markup of the text"
            assert "\x1b" not in made or view != "to_text", f"{view} holds a terminal's codes"


def any_value(chance: random.Random, deep: int = 0) -> Any:
    """Return a value that a server might give where another kind belongs, nested at times."""
    value = chance.choice(VALUES)
    for _ in range(chance.choice([0, 0, 1, 3, 60]) if not deep else 0):
        value = chance.choice([[value], {"a": value}])
    return value


@attacks("agents")
def any_reply(chance: random.Random) -> Iterator[Attack]:
    """Put mutated replies through every design."""
    known, every = cases(), [*pieces(), MARK]

    def make(seed: int) -> Any:
        own = random.Random(seed)
        return [mutated(own.choice(known)["text"][:3000], own, every) for _ in range(2)], own

    while True:
        yield _loop("replies", chance.getrandbits(32), make)


@attacks("agents")
def any_call(chance: random.Random) -> Iterator[Attack]:
    """Let the server read calls with any names and arguments."""

    def make(seed: int) -> Any:
        own = random.Random(seed)
        calls = [_call(own) for _ in range(own.randint(1, 3))]
        text = own.choice(["", MARK, "f(a=1)"])
        return [Reply(text, tool_calls=tuple(calls), finish_reason="tool_calls")], own

    while True:
        yield _loop("calls", chance.getrandbits(32), make)


def _call(chance: random.Random) -> tk.ToolCall:
    given = {chance.choice(["a", "b", "c", "z", MARK]): any_value(chance) for _ in range(chance.randint(0, 3))}
    return tk.ToolCall(chance.choice(["f", "g", "", MARK, "F"]), given, chance.choice([None, "1", "1", MARK]))


def _loop(name: str, seed: int, make: Callable[[int], Any]) -> Attack:
    def go(made: Any) -> None:
        lines, own = made
        show(run(own.choice(["agent", "airgap", "two_mode"]), lines, own.choice(recipes())))

    return Attack(f"{name} of seed {seed}", lambda _: make(seed), go, 0)


@attacks("agents")
def many_calls(chance: random.Random) -> Iterator[Attack]:
    """Let one reply hold calls without end."""
    forms = ['<tool_call>{{"name": "f", "arguments": {{"a": {n}}}}}</tool_call>\n', 'TOOL_CALL: f {{"a": {n}}}\n']
    for design in ("airgap", "agent"):
        for form in forms:

            def make(size: int, form: str = form, design: str = design) -> Any:
                return design, ["".join(form.format(n=n) for n in range(size // len(form)))], recipes()[1]

            yield Attack(f"{design} {form!r} * n", make, lambda made: run(*made), 8_000, CALLS)


@attacks("agents")
def views(chance: random.Random) -> Iterator[Attack]:
    """Show texts as long as they come: a view grows with its text, and far less than it."""
    for piece in [
        MARK,
        "&",
        "<",
        '"',
        "\n",
        "a",
        "<think>",
        '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>',
    ]:

        def make(size: int, piece: str = piece) -> str:
            return piece * (size // len(piece))

        def look(text: str) -> None:
            found = tk.extract(text, TOOLS)
            show(found)
            assert len(found._repr_html_()) < 2 * len(text) + 500_000, "a view is far longer than its text"

        yield Attack(f"view of {piece!r} * n", make, look)
