"""The OpenAPI 3.1 document, made from the endpoint tables and their Structs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from prime_async._version import __version__
from prime_async.server.endpoints import Endpoint, Header
from prime_async.server.failures import ErrorAnswer, ValidationAnswer
from prime_async.server.identifiers import pattern_of

__all__ = ["document", "document_bytes"]

_TEMPLATE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+)\}")

_KEY = Header(
    "Idempotency-Key",
    "Makes a repeated POST answer what the first one did, without doing it again; kept 7 days",
    "^[!-~]([ -~]{0,198}[!-~])?$",
)


@cache
def document_bytes() -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document())


def document() -> dict[str, Any]:
    """Build the document."""
    # The tables are put together in app.py, which imports every route, which imports this module.
    from prime_async.server.app import (
        API_ENDPOINTS,
        API_PREFIX,
        GATEWAY_ENDPOINTS,
        GATEWAY_PREFIX,
        ROOT_ENDPOINTS,
    )

    tables = (API_PREFIX, API_ENDPOINTS), (GATEWAY_PREFIX, GATEWAY_ENDPOINTS), ("", ROOT_ENDPOINTS)
    placed = [(prefix, one) for prefix, endpoints in tables for one in endpoints]
    schemas = _Schemas([endpoint for _, endpoint in placed])
    paths: dict[str, Any] = {}
    for prefix, endpoint in placed:
        path = paths.setdefault(f"{prefix}{endpoint.path}", {})
        path[endpoint.method.lower()] = _operation(endpoint, schemas, prefix)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "prime-async embedded platform",
            "version": __version__,
            "description": "The platform's wire protocol on one machine. Every path also answers "
            "with a trailing slash, and what is below /api/v1/rft below /api/internal/rft as well; "
            "every answer has X-Request-Id and X-Prime-Features.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "header": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-api-key",
                    "description": "The same key; read when there is no bearer key",
                },
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token for one sandbox, from its /auth",
                },
            },
        },
    }


class _Schemas:
    """JSON Schemas of all types that the endpoints name."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        types: list[Any] = [ErrorAnswer, ValidationAnswer, *_types(endpoints)]
        unique = list(dict.fromkeys(types))
        schemas, components = msgspec.json.schema_components(unique, ref_template=_TEMPLATE)
        self._by_type = dict(zip(unique, schemas, strict=True))
        self.components = components

    def of(self, kind: Any) -> dict[str, Any]:
        schema: dict[str, Any] = self._by_type[kind]
        return schema

    def properties(self, model: type[msgspec.Struct]) -> dict[str, Any]:
        """The properties of a Struct, one schema each."""
        name = self.of(model)["$ref"].rpartition("/")[2]
        properties: dict[str, Any] = self.components[name]["properties"]
        return properties


def _types(endpoints: Sequence[Endpoint]) -> Iterator[Any]:
    for endpoint in endpoints:
        yield from (one for one in endpoint.answers.values() if one is not None)
        yield from (one for one in (endpoint.query, endpoint.body) if one is not None)


def _operation(endpoint: Endpoint, schemas: _Schemas, prefix: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "tags": [(prefix if endpoint.token else endpoint.path).strip("/").partition("/")[0]],
        "parameters": _parameters(endpoint, schemas, prefix),
        "responses": _responses(endpoint, schemas),
        "security": _security(endpoint),
    }
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": not endpoint.body_optional,
            "content": {endpoint.media: {"schema": schemas.of(endpoint.body)}},
        }
    return operation


def _security(endpoint: Endpoint) -> list[dict[str, list[str]]]:
    if endpoint.token:
        return [{"token": []}]
    return [{"key": []}, {"header": []}] if endpoint.auth else []


def _operation_id(endpoint: Endpoint) -> str:
    area = endpoint.handler.__module__.rpartition(".")[2]
    return f"{area}_{endpoint.handler.__name__}"


def _parameters(endpoint: Endpoint, schemas: _Schemas, prefix: str) -> list[dict[str, Any]]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)}
        for name in _PARAMETER.findall(prefix + endpoint.path)
    ]
    if endpoint.query is not None:
        for name, schema in schemas.properties(endpoint.query).items():
            parameters.append({"name": name, "in": "query", "schema": _without_null(schema)})
    headers = list(endpoint.headers)
    described = any(header.name == _KEY.name for header in headers)
    if endpoint.method == "POST" and endpoint.auth and not described:
        headers.append(_KEY)
    return parameters + [_header_parameter(header) for header in headers]


def _path_schema(name: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern_of(name)}


def _header_parameter(header: Header) -> dict[str, Any]:
    schema = {"type": "string", "pattern": header.pattern}
    return {
        "name": header.name,
        "in": "header",
        "description": header.description,
        "schema": schema,
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query string has no null: an absent value stands for it."""
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _responses(endpoint: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    answers: dict[int, Any] = {**endpoint.answers, **_common(endpoint)}
    return {str(status): _response(status, answers[status], schemas) for status in sorted(answers)}


def _common(endpoint: Endpoint) -> dict[int, Any]:
    """The errors that the frame around the handlers gives."""
    common: dict[int, Any] = dict.fromkeys((400, 403, 404, 503), ErrorAnswer)
    if endpoint.auth or endpoint.token:
        common[401] = ErrorAnswer
    if endpoint.query is not None or endpoint.body is not None or endpoint.method == "POST":
        common[422] = ValidationAnswer
    if endpoint.body is not None:
        common |= {408: ErrorAnswer, 413: ErrorAnswer, 415: ErrorAnswer}
    if endpoint.method in {"POST", "PUT", "DELETE", "PATCH"}:
        common[507] = ErrorAnswer
    if endpoint.ingests:
        common[429] = ErrorAnswer
    return common


def _response(status: int, kind: Any, schemas: _Schemas) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "headers": {
            "X-Request-Id": {"required": True, "schema": {"type": "string"}},
            "X-Prime-Features": {"required": True, "schema": {"type": "string"}},
        },
    }
    if kind is str:
        response["content"] = {"text/plain": {"schema": {"type": "string"}}}
    elif kind is not None:
        response["content"] = {"application/json": {"schema": schemas.of(kind)}}
    return response
