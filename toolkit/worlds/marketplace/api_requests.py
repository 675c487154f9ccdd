"""Read an HTTP request as its OpenAPI document says: which operation, with which checked arguments.

    >>> operation, path = find_operation("GET", "/designers/Oda%20Fjelde")
    >>> operation["operationId"], path
    ('get_designer', {'name': 'Oda Fjelde'})

The document is the only description of the API; nothing here knows what an operation does.
Not here: answering (`toolkit.worlds.marketplace.api`), calling such an API (`toolkit.execution`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, unquote

from toolkit import resources

Json = dict[str, Any]


class RequestError(Exception):
    """Refuse a request with a status code; becomes the JSON of the `Error` schema.

    Attributes:
        status: HTTP status code.
        where: the parameter or the place in the body that is wrong; "" for the whole request.
        allow: the methods that the path knows, where the method is wrong.
    """

    def __init__(self, status: HTTPStatus, message: str, where: str = "", allow: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.status, self.where, self.allow = status, where, allow

    def to_dict(self) -> Json:
        """Return the error as the API shows it."""
        error = {"code": self.status.phrase.lower().replace(" ", "_"), "message": str(self)}
        return {"error": {**error, "where": self.where} if self.where else error}


@cache
def document() -> Json:
    """Return the OpenAPI document of the marketplace."""
    text = resources.path("data/marketplace/openapi.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def find_operation(method: str, path: str) -> tuple[Json, dict[str, str]]:
    """Return the operation that a request means, its parameters complete, and the values in its path.

    Raises:
        RequestError: no such path, or the path does not know the method.
    """
    for template, item in document()["paths"].items():
        found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template), path)
        if not found:
            continue
        if method.lower() not in item:
            allow = tuple(sorted(key.upper() for key in item if key != "parameters"))
            raise RequestError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path!r} allows {', '.join(allow)} only.", allow=allow)
        operation = item[method.lower()]
        parameters = [resolve(p) for p in (*item.get("parameters", ()), *operation.get("parameters", ()))]
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        return {**operation, "parameters": parameters}, values
    raise RequestError(HTTPStatus.NOT_FOUND, f"There is no path {path!r}. See /openapi.json.")


def resolve(value: Json) -> Json:
    """Follow a reference into the document, if `value` is one."""
    while "$ref" in value:
        target: Any = document()
        for step in value["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        value = target
    return value


def read_parameters(operation: Json, path: Mapping[str, str], query: str, headers: Mapping[str, str]) -> Json:
    """Return the checked parameters by name; one that was not sent has its default or is left out.

    Raises:
        RequestError: a missing, malformed or unknown parameter.
    """
    sent = parse_qs(query, keep_blank_values=True)
    known = {p["name"] for p in operation["parameters"] if p["in"] == "query"}
    for name in sent.keys() - known:
        raise RequestError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"Unknown parameter {name!r}. Known: {', '.join(sorted(known)) or 'none'}.",
            name,
        )
    values = {}
    for parameter in operation["parameters"]:
        name, schema = parameter["name"], resolve(parameter["schema"])
        one = {"path": path.get(name), "header": headers.get(name)}.get(parameter["in"])
        texts = sent.get(name, []) if parameter["in"] == "query" else [one] if one is not None else []
        if texts:
            values[name] = _checked(_typed(texts, schema), schema, name)
        elif "default" in schema:
            values[name] = schema["default"]
    return values


def read_body(operation: Json, raw: bytes) -> Json:
    """Return the checked JSON body; {} for an operation without one.

    Raises:
        RequestError: no JSON, or it does not fit the schema.
    """
    if "requestBody" not in operation:
        return {}
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, f"The body is no JSON: {error}.", "body") from None
    return dict(_checked(body, operation["requestBody"]["content"]["application/json"]["schema"], "body"))


def _typed(texts: list[str], schema: Json) -> Any:
    """Turn text into the schema's type; text that is none stays text, for validation to refuse."""
    if schema["type"] == "array":
        return [_typed([text], schema["items"]) for text in texts]
    pattern = {"integer": r"-?\d{1,18}", "number": r"-?\d{1,18}(\.\d{1,18})?"}.get(schema["type"])
    if pattern and re.fullmatch(pattern, texts[-1], re.ASCII):
        return float(texts[-1]) if "." in texts[-1] else int(texts[-1])
    return texts[-1]


def _checked(value: Any, schema: Json, where: str) -> Any:
    import jsonschema_rs

    try:
        jsonschema_rs.validate({**schema, "components": document()["components"]}, value)
    except jsonschema_rs.ValidationError as error:
        place = ".".join([where, *map(str, error.instance_path)])
        raise RequestError(HTTPStatus.UNPROCESSABLE_ENTITY, error.message, place) from None
    return value
