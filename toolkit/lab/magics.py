"""Write tools in a notebook cell: `%load_ext toolkit`, then a cell that begins with `%%tools`.

    %%tools kitchen
    def boil(minutes: int) -> str:
        '''Boil water.'''
        return f"boiled for {minutes} minutes"

The cell runs as any other. Each public function that it defines becomes a tool, the `Toolset` of them lies under the
name behind `%%tools` (`tools` without one), and what a model will be told of each is shown.

Not here: making a tool of a function (`toolkit.tools`).
"""

from __future__ import annotations

import ast
from typing import Any

from toolkit.errors import ConfigError
from toolkit.execution.toolset import Toolset
from toolkit.prompting.templates import argument_lines
from toolkit.tools import Tool
from toolkit.traces.json_text import html_of, in_html

_CELL = "padding:4px 12px 4px 0;text-align:left;vertical-align:top"


def load_ipython_extension(shell: Any) -> None:
    """Register `%%tools` in a notebook; `%load_ext toolkit` calls this."""

    def tools(line: str, cell: str) -> ToolsCell | None:
        """Run the cell and keep the functions that it defines as tools."""
        return run_cell(shell, line, cell)

    shell.register_magic_function(tools, "cell", "tools")


def run_cell(shell: Any, line: str, cell: str) -> ToolsCell | None:
    """Run a cell, store its functions as a Toolset under the name in `line`, and return what to show.

    None if the cell failed, which the shell has shown then.

    Raises:
        ConfigError: the name is none, the cell defines no function, or one of them cannot be a tool.
    """
    name = line.strip() or "tools"
    if not name.isidentifier():
        raise ConfigError(f"%%tools {name!r}: expected a variable's name, such as %%tools kitchen.")
    if not shell.run_cell(cell, store_history=False).success:
        return None
    functions = _defined(shell.transform_cell(cell))
    if not functions:
        raise ConfigError("This %%tools cell defines no function. Write one with types and a docstring.")
    found = Toolset([shell.user_ns[function] for function in functions])
    shell.user_ns[name] = found
    return ToolsCell(name, found)


def _defined(source: str) -> list[str]:
    """Return the names of the public functions that a cell defines, in order, each once."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    names = [part.name for part in ast.parse(source).body if isinstance(part, kinds)]
    return list(dict.fromkeys(name for name in names if not name.startswith("_")))


class ToolsCell:
    """Show what a `%%tools` cell made: name, parameters and description of each tool, as a model is told."""

    def __init__(self, name: str, toolset: Toolset) -> None:
        self.name, self.toolset = name, toolset

    def __repr__(self) -> str:
        return f"{self.name} = Toolset([{', '.join(tool.name for tool in self.toolset.tools)}])"

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="{_CELL}">{word}</th>' for word in ("tool", "parameters", "description"))
        rows = html_of(f"<tr>{_row(tool)}</tr>" for tool in self.toolset.tools)
        title = f'<div style="margin:4px 0"><code>{in_html(self.name)}</code> holds:</div>'
        return f'{title}<table style="border-collapse:collapse"><tr>{head}</tr>{rows}</table>'


def _row(tool: Tool) -> str:
    parameters = "<br>".join(map(in_html, argument_lines(tool))) or "none"
    cells = (f"<code>{in_html(tool.name)}</code>", parameters, in_html(tool.description))
    return "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
