"""Call REST APIs described by an OpenAPI document: OpenAPITool.

`spec` (read the document) · `schema` · `operations` (operations as functions) · `request` and `encoding` and `body`
(a call as an HTTP request) · `auth` · `http` (send it, bounded) · `service` (all of it) · `tool` (with a model).
"""

from toolkit.execution.openapi.tool import LLMProvider, OpenAPITool

__all__ = ["LLMProvider", "OpenAPITool"]
