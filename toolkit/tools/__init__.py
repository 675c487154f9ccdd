"""Describe what a model may call: Tool, `@tool`, and what reads tools of any library.

`tool` (Tool) · `reading` (as_tools) · `signatures` (schemas from functions) · `schemas` (checks, and the schema of a
reply) · `wiring` (what a tool reads from the state and shows of its result) · `import_paths`.
Not here: running tools, grouping those of a service (`toolkit.execution`).
"""

from toolkit.tools.reading import as_tool, as_tools, single_tools
from toolkit.tools.tool import Effect, Tool, check_schema, tool, validator_for

__all__ = ["Effect", "Tool", "as_tool", "as_tools", "check_schema", "single_tools", "tool", "validator_for"]
