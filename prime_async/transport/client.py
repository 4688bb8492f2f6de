"""`Transport`: one configured way to the platform, with deadlines, retries and a shared budget."""

from __future__ import annotations

import logging
import math
import platform
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import aiohttp
import anyio
import yarl

from prime_async import values
from prime_async._version import __version__
from prime_async.errors import (
    APIConnectionError,
    APIError,
    APITimeoutError,
    ProtocolError,
)
from prime_async.transport.addresses import check_headers, check_method, query_pairs
from prime_async.transport.body import Body, BytesBody, StreamedBody
from prime_async.transport.deadlines import check_timeout
from prime_async.transport.exchange import Call, Exchange
from prime_async.transport.gate import Gate
from prime_async.transport.policy import (
    MAX_RETRY_AFTER,
    Replay,
    RetryBudget,
    RetryPolicy,
    is_safe,
    process_budget,
)
from prime_async.transport.responses import Response
from prime_async.transport.sessions import CONNECTIONS, SessionPool
from prime_async.transport.streams import StreamedResponse

__all__ = ["DEFAULT_TIMEOUT", "IDEMPOTENCY", "WIRE_KEY", "Transport"]

DEFAULT_TIMEOUT = 60.0
"""Seconds a plain call may take in all, retries included."""

IDEMPOTENCY = "idempotency"
"""Feature of platforms that answer a repeated ``Idempotency-Key`` with the first answer."""

WIRE_KEY = "wire-key"
"""Stands for a key that is part of the request itself, which every platform knows."""

_LOGGER = logging.getLogger("prime_async.transport")


class Transport:
    """Sends requests to one platform.

    Args:
        base_url: the platform's address, without ``/api/v1``.
        api_key: sent as a bearer token; None sends none.
        unix_socket: path of a socket to use in place of TCP.
        user_agent: replaces the default ``prime-async/<version> python/<version>``.
        headers: sent with every request besides.
        timeout: default seconds per call, retries included.
        retry: how often and how soon; see :class:`RetryPolicy`.
        budget: limits retries over all clients that share it; default is the process's own.
        prefix: what stands before every path.
        connections: how many are held at most; further requests wait for one.
        follow_redirects: False makes a redirect an error, for places that tokens must not leave.
        signed: paths are addresses that carry their own permission: they are sent letter by letter,
            and no error or log shows them.

    Raises:
        UsageError: a header, or `user_agent`, cannot be sent.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None = None,
        unix_socket: str | None = None,
        user_agent: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        retry: RetryPolicy | None = None,
        budget: RetryBudget | None = None,
        prefix: str = "/api/v1",
        connections: int = CONNECTIONS,
        follow_redirects: bool = True,
        signed: bool = False,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeout = check_timeout(timeout, DEFAULT_TIMEOUT)
        self.retry = retry or RetryPolicy()
        self._budget = budget or process_budget
        self._headers = {
            "Accept": "application/json",
            "User-Agent": user_agent
            or f"prime-async/{__version__} python/{platform.python_version()}",
            **(headers or {}),
        }
        check_headers(self._headers)
        self._key = api_key or None
        self._sessions = SessionPool(self.base_url, unix_socket, connections)
        self._prefix = prefix
        self._signed = signed
        self._gate = Gate()
        self._exchange = Exchange(
            self._sessions, self._gate, follow_redirects=follow_redirects, key=self._key
        )

    def __repr__(self) -> str:
        return f"Transport(base_url={self.base_url!r})"

    @property
    def features(self) -> frozenset[str]:
        """What the platform can do beyond the official wire; empty until its first answer."""
        return self._exchange.features or frozenset()

    async def open(self) -> None:
        """Be ready to send; no connection is made yet.

        Raises:
            PrimeError: no event loop of asyncio is running.
            WrongLoopError: the transport is in use on another loop that is still alive.
            ConfigError: proxy or certificate variables are broken.
        """
        await self._sessions.get()

    async def aclose(self) -> None:
        """Close the connections, which ends the calls under way. The transport opens new ones when
        it is used again.
        """
        await self._sessions.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        body: Body | StreamedBody | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        replay: Replay = Replay.AUTO,
        idempotency_key: str | None = None,
        deduplicated_by: str | None = None,
        tries: int | None = None,
        refused_by: Collection[str] = (),
        auth: bool = True,
    ) -> Response:
        """Send one request and return its 2xx answer.

        Args:
            path: below ``/api/v1``, with a leading slash; ids in it come from ``path_segment``.
            params: query; None values are left out, lists repeat the name.
            json: encoded by the table of values; `body` is for anything larger.
            timeout: seconds in all, retries included; None is the transport's default, ``math.inf``
                unlimited.
            replay: whether a repeat is harmless.
            idempotency_key: sent as ``Idempotency-Key``; makes a repeat harmless where the platform
                knows keys.
            deduplicated_by: name of the platform feature that makes a repeat of this request
                harmless.
            tries: requests at most, the first one included; None is what the transport's policy
                says.
            refused_by: error codes with which the platform says that it did nothing.

        Raises:
            ValueEncodingError: `json` holds what cannot be written; nothing was sent.
            UsageError: a header or the method cannot be sent.
            Exception: whatever the source of a :class:`StreamedBody` raised.
            APITimeoutError: the deadline passed.
            APIConnectionError: no connection, or it broke.
            APIError: the child of the answer's status.
            ProtocolError: the answer is not HTTP, or too large.
        """
        seconds = check_timeout(timeout, self.timeout)
        call = self._call(method, path, params, headers, auth, seconds)
        call.safe = is_safe(method, replay)
        call.deduplicated_by = deduplicated_by
        call.tries = self.retry.tries if tries is None else tries
        call.refused_by = refused_by
        call.body = (
            BytesBody(values.encode(json, root="body"))
            if body is None and json is not None
            else body
        )
        if idempotency_key is not None:
            check_headers({"Idempotency-Key": idempotency_key})
            call.headers["Idempotency-Key"] = idempotency_key
            call.deduplicated_by = deduplicated_by or IDEMPOTENCY
        response = None
        with anyio.move_on_at(call.deadline):
            response = await self._tries(call)
        if response is None:
            self._out_of_time(call, seconds)
        return response

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Body | StreamedBody | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        idle_timeout: float = DEFAULT_TIMEOUT,
        replay: Replay = Replay.AUTO,
        auth: bool = True,
    ) -> AsyncIterator[StreamedResponse]:
        """Open a streamed answer; retried only until its head arrives.

        Args:
            timeout: seconds for the whole stream; None is unlimited here, silence is bounded by
                `idle_timeout`.
            idle_timeout: seconds without a byte before the stream counts as dead.

        Raises:
            APITimeoutError, APIConnectionError, APIError: as :meth:`request`, from here or from the
                iterators.
        """
        seconds = check_timeout(timeout, math.inf)
        # Uncompressed: aiohttp takes a compressed stream whose end is missing for a whole one.
        plain = {"Accept-Encoding": "identity", **(headers or {})}
        call = self._call(method, path, params, plain, auth, seconds)
        call.safe, call.body = is_safe(method, replay), body
        raw = None
        with anyio.move_on_at(min(call.deadline, anyio.current_time() + idle_timeout)):
            raw = await self._tries_to_head(call)
        if raw is None:
            self._out_of_time(call, min(seconds, idle_timeout))
        try:
            _refuse_compressed(raw, call)
            yield StreamedResponse(raw, call.method, call.url, call.deadline, idle_timeout)
        finally:
            raw.close()

    def _call(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        auth: bool,
        seconds: float,
    ) -> Call:
        check_method(method)
        check_headers(headers or {})
        merged = {**self._headers, **(headers or {})}
        if auth and self._key:
            merged["Authorization"] = f"Bearer {self._key}"
        address = f"{self.base_url}{self._prefix}{path}"
        return Call(
            method=method,
            path="/…" if self._signed else path,
            url=f"{self.base_url}/…" if self._signed else address,
            address=yarl.URL(address, encoded=True) if self._signed else address,
            params=query_pairs(params),
            headers=merged,
            body=None,
            safe=False,
            deduplicated_by=None,
            deadline=anyio.current_time() + seconds,
            closings=self._sessions.closings,
            tries=self.retry.tries,
        )

    async def _tries(self, call: Call) -> Response:
        attempt = 1
        while True:
            await self._gate.wait()
            self._check_open(call)
            try:
                if call.unsettled:
                    await self._settle(call)
                response = await self._exchange.whole(call)
            except APIError as error:
                if error.status == 404 and call.method == "DELETE" and call.perhaps_done:
                    return Response(204, {}, b"", call.method, call.url)  # an earlier try did it
                call.last_error = error
                await self._prepare_retry(call, error, attempt)
            else:
                self._budget.succeeded()
                return response
            attempt += 1

    async def _tries_to_head(self, call: Call) -> aiohttp.ClientResponse:
        attempt = 1
        while True:
            await self._gate.wait()
            self._check_open(call)
            try:
                return await self._exchange.head(call)
            except APIError as error:
                call.last_error = error
                await self._prepare_retry(call, error, attempt)
            attempt += 1

    async def _prepare_retry(self, call: Call, error: APIError, attempt: int) -> None:
        """Wait until the next try is due, or raise the error when there is none."""
        self._check_open(call)
        call.unsettled = call.unsettled or (error.ambiguous and not call.safe)
        error.ambiguous = call.unsettled  # an earlier try may have been carried out
        if attempt >= call.tries or not self._may_repeat(call, error):
            raise error
        delay = self.retry.delay(attempt, error.retry_after)
        if delay > MAX_RETRY_AFTER:
            error.hint = (
                f"the platform asks to wait {delay:.0f} s; we wait {MAX_RETRY_AFTER:.0f} s at most"
            )
            raise error
        if anyio.current_time() + delay >= call.deadline:
            raise error
        if not self._budget.take():
            error.hint = "not tried again: this process has spent its retry budget"
            raise error
        _LOGGER.info(
            "retry method=%s url=%s attempt=%d in=%.2fs cause=%s",
            call.method,
            call.url,
            attempt,
            delay,
            error,
        )
        await anyio.sleep(delay)

    def _check_open(self, call: Call) -> None:
        """Do not open connections again for a call whose client was closed meanwhile."""
        if call.closings == self._sessions.closings:
            return
        last = call.last_error
        raise APIConnectionError(
            f"{call.method} {call.url}: the client was closed while this call was under way",
            method=call.method,
            url=call.url,
            ambiguous=last is not None and last.ambiguous,
            hint="close a client when its calls have ended",
        ) from last

    def _may_repeat(self, call: Call, error: APIError) -> bool:
        if call.unsettled and call.deduplicated_by is None:
            return False
        return error.retryable

    async def _settle(self, call: Call) -> None:
        """Before repeating what may have been carried out: make sure that the platform recognises
        the repeat.

        Asks the platform when no answer has told yet, as often as it takes within the tries. Raises
        the error of the unsettled try when repeating could do the work twice.
        """
        if call.deduplicated_by == WIRE_KEY:
            return
        if self._exchange.features is None:
            try:
                await self._exchange.whole(self._probe(call))
            except APIError as error:
                if (
                    self._exchange.features is None
                ):  # still no word from the platform: this counts as a try
                    assert call.last_error is not None
                    raise call.last_error from error
        if call.deduplicated_by not in self.features:
            call.deduplicated_by = None
            assert call.last_error is not None
            raise call.last_error

    def _probe(self, call: Call) -> Call:
        probe = self._call("GET", "/user/whoami", None, None, True, math.inf)
        probe.safe = True
        probe.deadline = call.deadline
        return probe

    def _out_of_time(self, call: Call, seconds: float) -> NoReturn:
        last = call.last_error
        ambiguous = not call.safe and (call.on_the_wire or call.unsettled)
        raise APITimeoutError(
            f"{call.method} {call.url} did not end within {seconds:g} s"
            + (f"; last: {last}" if last else ""),
            budget="total",
            seconds=seconds,
            method=call.method,
            url=call.url,
            ambiguous=ambiguous,
            hint="it may have been carried out" if ambiguous else None,
        ) from last


def _refuse_compressed(raw: aiohttp.ClientResponse, call: Call) -> None:
    coding = raw.headers.get("Content-Encoding", "identity")
    if coding.strip().lower() != "identity":
        raise ProtocolError(
            f"{call.method} {call.url} answers a request for plain bytes with {coding}",
            status=raw.status,
            method=call.method,
            url=call.url,
            hint="a proxy on the way compresses what it should pass on",
        )
