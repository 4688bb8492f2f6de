"""The outermost middleware: request ids, one error format, a log line, counters."""

from __future__ import annotations

import logging
import re
import secrets
import time

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from prime_async._version import __version__
from prime_async.server.endpoints import ACCOUNT, ROUTE
from prime_async.server.exposed import EXPOSED
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.platform import PLATFORM
from prime_async.server.sandboxes.forwarding import Forwarded
from prime_async.server.store.writer import storage_failure
from prime_async.server.traces.inflating import HAS_ZSTD

__all__ = [
    "FEATURES",
    "INTERNAL_ERROR",
    "failure_response",
    "mark_response",
    "new_request_id",
    "observe",
]

FEATURES = ", ".join(
    (
        "idempotency",
        "sample-ranges",
        "sandbox-leases",
        "resumable-uploads",
        "file-info",
        "file-trees",
        "start-many",
        "auth-batch",
        "run-metrics-batch",
        "run-samples-inline",
        "run-leases",
        "otlp-traces",
        "traces-export",
        "traces-aggregate",
        *(["traces-zstd"] if HAS_ZSTD else []),
    )
)
"""What this server can do beyond the official wire, told on every answer."""

INTERNAL_ERROR = RequestError(
    500, "internal_error", "the platform failed; its log has the request id"
)

_CLOSING = RequestError(
    503, "shutting_down", "the platform is shutting down", headers={"Connection": "close"}
)

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ID_KEY: web.RequestKey[str] = web.RequestKey("request_id", str)


def new_request_id() -> str:
    """Make a request id."""
    return f"req_{secrets.token_hex(8)}"


@web.middleware
async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors as JSON, log and count."""
    started = time.perf_counter()
    status = 499
    try:
        with request.app[PLATFORM].in_flight:
            response = await _answer(request, handler)
        status = response.status
    finally:
        _record(request, status, time.perf_counter() - started)
    return response


async def mark_response(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Put the request id and the features on an answer that is about to be sent."""
    if isinstance(response, Forwarded):
        return
    response.headers["X-Request-Id"] = _request_id(request)
    response.headers["X-Prime-Features"] = FEATURES
    response.headers["Server"] = f"prime-async/{__version__}"
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("X-Content-Type-Options", "nosniff")


def failure_response(failure: RequestError) -> web.Response:
    """The answer of a failure."""
    return web.Response(
        status=failure.status,
        body=failure.body(),
        content_type="application/json",
        charset="utf-8",
        headers=failure.headers,
    )


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.app[PLATFORM].in_flight.closing:
        return failure_response(_CLOSING)
    try:
        return await handler(request)
    except ConnectionError:
        raise
    except Exception as error:
        if request.writer.output_size > 0:
            # Part of an answer is out: a second one in its place would pass for its rest.
            log_event(logging.WARNING, "answer_cut", request_id=_request_id(request), error=error)
            raise ConnectionResetError("the answer could not be completed") from error
        return failure_response(_failure(request, error))


def _failure(request: web.Request, error: Exception) -> RequestError:
    if isinstance(error, RequestError):
        return error
    if isinstance(error, web.HTTPException):
        return _from_router(error)
    return storage_failure(error) or _unexpected(request, error)


def _unexpected(request: web.Request, error: Exception) -> RequestError:
    # The traceback goes to the log under the request's id; the client learns the id only.
    log_event(logging.ERROR, "unexpected", request_id=_request_id(request), error=error)
    return INTERNAL_ERROR


def _from_router(refusal: web.HTTPException) -> RequestError:
    if isinstance(refusal, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(refusal.allowed_methods))
        return RequestError(
            405, "method_not_allowed", f"this path takes {allowed}", headers={"Allow": allowed}
        )
    if refusal.status == 404:
        return RequestError(404, "not_found", "there is no such path on this platform")
    return RequestError(refusal.status, "refused", refusal.reason)


def _request_id(request: web.BaseRequest) -> str:
    known = request.get(_ID_KEY)
    if known is None:
        sent = request.headers.get("X-Request-Id", "")
        known = sent if _REQUEST_ID.fullmatch(sent) else new_request_id()
        request[_ID_KEY] = known
    return known


def _record(request: web.Request, status: int, seconds: float) -> None:
    route = request.get(ROUTE, "unmatched")
    metrics = request.app[PLATFORM].metrics
    # A method is any word a client likes: unknown ones share a label.
    method = request.method if request.method in hdrs.METH_ALL else "OTHER"
    metrics.requests.labels(method, route, status).inc()
    metrics.seconds.labels(method, route).observe(seconds)
    log_event(
        logging.INFO,
        "request",
        method=request.method,
        # A token in a path is a secret.
        path=route if route == EXPOSED or "{token}" in route else request.path,
        status=status,
        ms=seconds * 1000,
        account=request.get(ACCOUNT),
        request_id=_request_id(request),
    )
