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
