"""A toolset is a list of tools under unique names, and may hold a service open."""

from __future__ import annotations

import pytest

import toolkit as tk

ONE, TWO = (tk.Tool(name, "", {"type": "object"}) for name in "ab")


class Connection:
    def __init__(self):
        self.told = []

    def close(self):
        self.told.append("close")

    def reopen(self):
        self.told.append("reopen")


def test_it_is_a_list_with_names():
    both = tk.Toolset([ONE]) + [TWO]
    assert both.names == ["a", "b"]
    assert (list(both), len(both)) == ([ONE, TWO], 2)
    assert "a" in both
    assert TWO in both
    assert "c" not in both
    assert both["b"] is both[1] is TWO
    assert both == tk.Toolset([ONE]) + TWO == tk.Toolset([tk.Toolset([ONE]), [TWO]])
    assert repr(both) == "Toolset(a, b)"
    with pytest.raises(KeyError):
        both["c"]


@pytest.mark.parametrize("make", [lambda: tk.Toolset([ONE, ONE]), lambda: tk.Toolset([ONE]) + ONE], ids=["list", "sum"])
def test_two_tools_of_one_name_are_refused(make):
    with pytest.raises(tk.ConfigError, match="given more than once: 'a'"):
        make()


def test_it_closes_and_reopens_what_holds_its_tools_open():
    service = Connection()
    with tk.Toolset([ONE], service) as tools:
        tools.reopen()
    assert service.told == ["reopen", "close"]
    (tools + [TWO]).close()
    assert service.told == ["reopen", "close"]


def test_without_a_service_there_is_nothing_to_close():
    with tk.Toolset([ONE]) as tools:
        tools.reopen()
    assert tools.names == ["a"]


# ------------------------------------------------------------------ tools that come later
def noon() -> str:
    """Tell the time."""
    return "noon"


class Lazy(tk.Toolset):
    """Connect when asked to, as Haystack's MCPToolset does with eager_connect=False."""

    def __init__(self):
        super().__init__([])
        self.warmed = 0

    def warm_up(self):
        self.warmed += 1
        if not self.tools:
            self.add(noon)


ROADS = {
    "invoker": lambda tools: tk.ToolInvoker(tools).invoke(tk.ToolCall("noon")).result,
    "tools of one run": lambda tools: (
        tk.ToolInvoker([ONE_THAT_RUNS]).run(ASKED, tools=tools)["tool_messages"][0].tool_call_result.result
    ),
    "agent": lambda tools: (
        tk.Agent(tk.ScriptedModel([tk.ToolCall("noon"), "ok"]), tools).run("go").tool_results[0].result
    ),
}
ONE_THAT_RUNS = tk.Tool("a", "", {"type": "object"}, lambda: "")
ASKED = [tk.ChatMessage.from_assistant(tool_calls=[tk.ToolCall("noon")])]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("road", ROADS)
def test_a_toolset_that_connects_lazily_is_warmed_up(road, nested):
    """After haystack-core-integrations#2384 and haystack#9807."""
    lazy = Lazy()
    assert ROADS[road]([lazy] if nested else lazy) == "noon"
    assert lazy.warmed == 1


def test_a_sum_holds_what_a_lazy_part_connects_to():
    assert (Lazy() + ONE).names == (Lazy() + [ONE]).names == ["noon", "a"]
    assert (tk.Toolset([ONE]) + Lazy()).names == tk.Toolset([ONE, Lazy()]).names == ["a", "noon"]


def test_a_toolset_of_another_library_is_warmed_up():
    class Theirs:
        tools = ()

        def warm_up(self):
            self.tools = [noon]

        def __iter__(self):
            return iter(self.tools)

        def __len__(self):
            return len(self.tools)

    assert ROADS["invoker"]([Theirs()]) == "noon"


def test_a_failure_to_connect_is_the_callers_to_hear():
    class Down(tk.Toolset):
        def warm_up(self):
            raise tk.UserError("nobody answers")

    with pytest.raises(tk.UserError, match="nobody answers"):
        tk.Agent(tk.ScriptedModel(["ok"]), [Down()])


@pytest.mark.parametrize("more", [noon, tk.Tool.from_function(noon), tk.Toolset([noon]), [noon]])
def test_tools_can_be_added(more):
    tools = tk.Toolset([ONE])
    tools.add(more)
    assert tools.names == ["a", "noon"]
    with pytest.raises(tk.ConfigError, match="given more than once: 'noon'"):
        tools.add(more)
    with pytest.raises(tk.ConfigError, match="is no tool"):
        tools.add(3)
    assert tools.names == ["a", "noon"]
