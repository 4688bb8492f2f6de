"""OTLP/HTTP: spans of OpenTelemetry, from any exporter, become traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from prime_async.server.answers import answer
from prime_async.server.endpoints import Call, Endpoint, Reply
from prime_async.server.failures import ErrorAnswer, RequestError
from prime_async.server.otlp.decoding import Decoded, decode_json, decode_protobuf
from prime_async.server.otlp.intake import take
from prime_async.server.otlp.schema import message_class
from prime_async.server.traces.owners import TEAM_HEADER, owner_of
from prime_async.server.traces.records import Window
from prime_async.server.traces.refusals import in_traces_words

__all__ = ["ENDPOINTS", "ROOT_ENDPOINTS"]

PROTOBUF = "application/x-protobuf"

_NAMED = 5
"""Reasons in the message of a partial success."""

_UNKNOWN, _INVALID_ARGUMENT = 2, 3
_CODES = {
    401: 16,  # unauthenticated
    403: 7,  # permission denied
    408: 4,  # deadline exceeded
    429: 8,  # resource exhausted
    503: 14,  # unavailable
}
"""Codes of a ``google.rpc.Status``, which every refusal of OTLP is."""


class ExportRequest(Struct, kw_only=True, rename="camel"):
    """An ``ExportTraceServiceRequest`` of OTLP; protobuf (``application/x-protobuf``) is taken as
    well.
    """

    resource_spans: list[dict[str, Any]] | None = None


class PartialSuccess(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """How many spans were refused, and why."""

    rejected_spans: int = 0
    error_message: str = ""


class ExportAnswer(Struct, kw_only=True, rename="camel", omit_defaults=True):
    """An ``ExportTraceServiceResponse``."""

    partial_success: PartialSuccess | None = None


async def export(call: Call) -> Reply:
    """Keep spans, and make the traces they belong to anew."""
    return await _export(call)


async def export_at_root(call: Call) -> Reply:
    """Do the same under the path that exporters expect."""
    return await _export(call)


async def _export(call: Call) -> Reply:
    # Spans are kept by their ids: the key is checked and not needed.
    _ = call.key_text
    owner, kind = owner_of(call), call.request.content_type
    async with call.read(call.platform.config.limits.otlp_body_bytes) as body:
        decoded = await _decoded(call, kind, body)
        refused = await take(call, owner, decoded)
    return _answer(kind, refused)


async def _decoded(call: Call, kind: str, body: bytes) -> Decoded:
    decode = decode_protobuf if kind == PROTOBUF else decode_json
    return await call.platform.in_thread(decode, body, Window(call.platform.clock.now()))


def _answer(kind: str, refused: Sequence[str]) -> Reply:
    told = "; ".join(refused[:_NAMED]) + ("; …" if len(refused) > _NAMED else "")
    if kind != PROTOBUF:
        partial = PartialSuccess(rejected_spans=len(refused), error_message=told)
        return answer(ExportAnswer(partial_success=partial if refused else None))
    message: Any = message_class("ExportResponse")()
    if refused:
        message.partial_success.rejected_spans = len(refused)
        message.partial_success.error_message = told
    return web.Response(body=message.SerializeToString(), content_type=PROTOBUF)


def _refusal(request: web.Request, failure: RequestError) -> web.Response:
    """A refusal in the encoding of the request; in JSON the common form stands beside it."""
    code = _CODES.get(failure.status, _INVALID_ARGUMENT if failure.status < 500 else _UNKNOWN)
    body, kind = _status(request, failure, code)
    return web.Response(
        status=failure.status, body=body, content_type=kind, headers=failure.headers
    )


def _status(request: web.Request, failure: RequestError, code: int) -> tuple[bytes, str]:
    if request.content_type == PROTOBUF:
        status: Any = message_class("Refusal")(code=code, message=failure.message)
        return status.SerializeToString(), PROTOBUF
    common = msgspec.json.decode(failure.body())
    told = {"code": code, "message": failure.message, **common}
    return msgspec.json.encode(told), "application/json"


def _endpoint(path: str, handler: Any) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        handler,
        "Take spans over OTLP/HTTP",
        {200: ExportAnswer, 403: ErrorAnswer, 415: ErrorAnswer},
        body=ExportRequest,
        streams_body=True,
        headers=(TEAM_HEADER,),
        ingests=True,
        other_media=(PROTOBUF,),
        words=in_traces_words,
        refusal=_refusal,
    )


ENDPOINTS: tuple[Endpoint, ...] = (_endpoint("/otlp/v1/traces", export),)
ROOT_ENDPOINTS: tuple[Endpoint, ...] = (_endpoint("/v1/traces", export_at_root),)
