"""Connections with limits aiohttp does not have: slow heads, clients that stop reading, too many
connections.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from aiohttp import web

from prime_async.server.config import Limits
from prime_async.server.failures import RequestError
from prime_async.server.logs import log_event
from prime_async.server.metrics import Metrics
from prime_async.server.observing import FEATURES, INTERNAL_ERROR, failure_response, new_request_id

__all__ = ["ConnectionFactory", "GuardedConnection"]


LINGERING_SECONDS = 2.0
"""How long the rest of a refused body is read and dropped, so that the client sees the answer."""

_NOT_HTTP = RequestError(400, "bad_request", "the request is not valid HTTP or over the limits")


class GuardedConnection(web.RequestHandler):
    """One client connection.

    A request head has to be complete ``head_seconds`` after the connection opened, or after the
    first byte that follows an answer. An answer that the client does not read for
    ``write_stall_seconds`` ends the connection.
    """

    __slots__ = ("_answered", "_factory", "_head_timer", "_heads", "_stall_timer")

    def __init__(self, factory: ConnectionFactory, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._factory = factory
        self._answered = 0
        self._heads = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._factory.opened(self)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._factory.closed(self)
        self._cancel_head_timer()
        self._cancel_stall_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # aiohttp counts a request when its head is complete.
        if self._request_count != self._heads:
            self._heads = self._request_count
            self._cancel_head_timer()
        elif self._head_timer is None and data and self._heads == self._answered:
            self._expect_head()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._answered += 1

    def pause_writing(self) -> None:
        super().pause_writing()
        limit = self._factory.limits.write_stall_seconds
        self._stall_timer = self._loop.call_later(limit, self._end, "write_stall")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_stall_timer()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a head that is not HTTP in the same form as every other error."""
        if request.writer.output_size > 0:
            # The answer is already on its way: all that is left is to cut it, so that nobody takes
            # it for whole.
            raise ConnectionResetError("the answer could not be completed")
        request_id = new_request_id()
        if status == 400:
            # The kind only: the text of a parse error quotes the request.
            kind = type(exc).__name__
            log_event(logging.WARNING, "bad_request", request_id=request_id, kind=kind)
            response = failure_response(_NOT_HTTP)
        else:
            log_event(logging.ERROR, "unexpected", request_id=request_id, error=exc)
            response = failure_response(INTERNAL_ERROR)
        response.headers["X-Request-Id"] = request_id
        response.headers["X-Prime-Features"] = FEATURES
        response.force_close()
        return response

    def _expect_head(self) -> None:
        limit = self._factory.limits.head_seconds
        self._head_timer = self._loop.call_later(limit, self._end, "head")

    def _end(self, limit: str) -> None:
        transport = self.transport
        if transport is not None:
            self._factory.metrics.slow_clients.labels(limit).inc()
            transport.abort()

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


class ConnectionFactory:
    """Makes the protocol of each connection that a listener accepts, and counts the open ones."""

    def __init__(self, server: web.Server, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self._server = server
        self._open: set[GuardedConnection] = set()

    def __call__(self) -> asyncio.Protocol:
        limits = self.limits
        return GuardedConnection(
            self,
            self._server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.keepalive_seconds,
            access_log=cast(logging.Logger, None),
            max_line_size=limits.header_line_bytes,
            max_field_size=limits.header_field_bytes,
            max_headers=limits.headers,
            lingering_time=LINGERING_SECONDS,
            auto_decompress=False,
        )

    def opened(self, connection: GuardedConnection) -> None:
        """Note a connection; end it at once when there are too many."""
        self._open.add(connection)
        self.metrics.connections.set(len(self._open))
        if len(self._open) > self.limits.connections:
            self.metrics.refused_connections.inc()
            connection.force_close()

    def closed(self, connection: GuardedConnection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self.metrics.connections.set(len(self._open))
