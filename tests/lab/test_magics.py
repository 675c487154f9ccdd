"""`%%tools` makes tools of the functions in a cell, shows them, and says what is wrong without a traceback."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import toolkit as tk

CELL = '''
import math

def boil(minutes: int, kettle: str = "big") -> str:
    """Boil <water>.

    Args:
        minutes: how long
    """
    return f"boiled {minutes}"

async def stir(speed: float) -> str:
    """Stir."""
    return "stirred"

def _helper():
    return math.pi
'''


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    made.run_line_magic("load_ext", "toolkit")
    yield made
    InteractiveShell.clear_instance()


def test_functions_of_the_cell_become_a_toolset(shell):
    shown = shell.run_cell_magic("tools", "kitchen", CELL)
    kitchen = shell.user_ns["kitchen"]
    assert [tool.name for tool in kitchen.tools] == ["boil", "stir"]
    assert repr(shown) == "kitchen = Toolset([boil, stir])"
    call = tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("boil", {"minutes": 3})])
    assert tk.ToolInvoker(kitchen).run([call])["tool_messages"][0].tool_call_result.result == "boiled 3"


def test_what_a_model_is_told_is_shown_and_escaped(shell):
    html = shell.run_cell_magic("tools", "", CELL)._repr_html_()
    assert "tools" in shell.user_ns
    assert "Boil &lt;water&gt;." in html
    assert "kettle (string, optional)" in html
    assert "minutes (integer, required): how long" in html
    assert "_helper" not in html


@pytest.mark.parametrize(
    ("line", "cell", "says"),
    [
        ("2 kitchens", CELL, "expected a variable's name"),
        ("", "x = 1", "defines no function"),
        ("", "def f(a, b):\n    return a", "'a'"),
    ],
    ids=["name", "no function", "no types"],
)
def test_a_mistake_is_one_message(shell, line, cell, says):
    with capture_output() as said:
        shell.run_cell(f"%%tools {line}\n{cell}")
    assert says in said.stdout + said.stderr
    assert "Traceback" not in said.stdout + said.stderr
    assert "tools" not in shell.user_ns


def test_a_cell_that_fails_is_shown_by_the_shell_and_makes_no_tools(shell):
    with capture_output() as said:
        assert shell.run_cell_magic("tools", "", "def f(a: int) -> int:\n    '''F.'''\n    return a\n1/0") is None
    assert "ZeroDivisionError" in said.stdout + said.stderr
    assert "tools" not in shell.user_ns
