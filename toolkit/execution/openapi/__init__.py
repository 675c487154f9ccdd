"""Call REST APIs described by an OpenAPI document: OpenAPITool.

`spec` (read the document) · `schema` · `operations` (operations as functions) · `request` (a call as an HTTP request)
· `auth` · `http` (send it, bounded) · `service` (all of it) · `tool` (with a model).
"""
