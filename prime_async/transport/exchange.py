"""A request sent once: its head, its body, the answer, and what is known when there is none."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NoReturn

import aiohttp
import anyio
import yarl

from prime_async.errors import APIError, ProtocolError
from prime_async.transport.body import Body, Payload, StreamedBody
from prime_async.transport.faults import Fault, classify, without_request
from prime_async.transport.gate import Gate
from prime_async.transport.policy import MAX_RETRY_AFTER
from prime_async.transport.responses import Response, error_from_response
from prime_async.transport.sessions import SessionPool

__all__ = ["Call", "Exchange"]

_FEATURES_HEADER = "X-Prime-Features"
_MAX_ANSWER = 256 * 2**20
_MAX_REFUSAL = 4 * 2**20
"""Bytes that are read of an answer that refuses; the rest is of no use."""

_REFUSAL_SECONDS = 10.0
"""How long the body of such an answer may take: its status has already said the most."""


@dataclass(slots=True)
class Call:
    """One logical request over all its tries."""

    method: str
    path: str
    url: str
    """What is shown of the address."""
    address: str | yarl.URL = field(repr=False)
    params: list[tuple[str, str]]
    headers: dict[str, str] = field(repr=False)  # the key is in it, and tools print local variables
    body: Body | StreamedBody | None
    safe: bool
    deduplicated_by: str | None
    deadline: float
    closings: int
    tries: int
    refused_by: Collection[str] = ()
    last_error: APIError | None = None
    unsettled: bool = False
    """A try ended so that the request may have been carried out, and a repeat could do harm."""
    perhaps_done: bool = False
    """A try ended so that the request may have been carried out."""
    on_the_wire: bool = False
    """A try is under way that has a connection: it may be carried out at any moment."""


class Exchange:
    """Sends a call once.

    Args:
        sessions: where connections are from.
        gate: closed where the platform asks for a pause.
        follow_redirects: False makes a redirect an error.
        key: is cut out of what errors quote.
    """

    def __init__(
        self, sessions: SessionPool, gate: Gate, *, follow_redirects: bool, key: str | None
    ) -> None:
        self._sessions = sessions
        self._gate = gate
        self._follow_redirects = follow_redirects
        self._key = key
        self.features: frozenset[str] | None = None
        """What the platform can do beyond the official wire; None while it has not told."""

    async def whole(self, call: Call) -> Response:
        """Send a call and read its answer.

        Raises:
            APIError: the child of the answer's status, or of what broke.
        """
        raw = await self.head(call)
        try:
            body = await _read(raw, call)
        except Exception as error:
            self._raise_fault(call, classify(error), error)
        finally:
            raw.release()
        call.on_the_wire = False
        return Response(raw.status, raw.headers, body, call.method, call.url, self._key)

    async def head(self, call: Call) -> aiohttp.ClientResponse:
        """Send a call and return the answer when its head says 2xx; raises as :meth:`whole`."""
        session = await self._sessions.get()
        proxy = self._sessions.proxy
        payload = None if call.body is None else Payload(call.body)
        try:
            raw = await session.request(
                call.method,
                call.address,
                params=call.params,
                headers=self._headers_through_proxy(call),
                data=payload,
                allow_redirects=self._follow_redirects,
                proxy=None if proxy is None else proxy.url,
                proxy_headers=None if proxy is None else proxy.headers,
                trace_request_ctx=call,  # sessions.py notes in it that there is a connection
            )
        except Exception as error:
            if payload is not None and payload.failure is not None:
                # Of the file or iterator behind the body, and no fault of the connection.
                raise payload.failure from None
            self._raise_fault(call, classify(error), error)
        self._learn(raw)
        if raw.history:
            _refuse_changed(raw, call)
        if not 200 <= raw.status < 300:
            await self._raise_status(call, raw)
        return raw

    def _headers_through_proxy(self, call: Call) -> dict[str, str]:
        """Plain http through a proxy carries the proxy's credentials itself; https hands them over
        at CONNECT.
        """
        proxy = self._sessions.proxy
        if proxy is None or call.url.startswith("https:"):
            return call.headers
        return {**call.headers, **proxy.headers}

    def _learn(self, raw: aiohttp.ClientResponse) -> None:
        """Note what the platform can do.

        An answer without the header takes nothing back, and only a 2xx says that there is nothing:
        a refusal may come from a gateway that never asked the platform.
        """
        text = raw.headers.get(_FEATURES_HEADER)
        if text is not None:
            self.features = frozenset(part.strip() for part in text.split(",") if part.strip())
        elif self.features is None and raw.status < 300:
            self.features = frozenset()

    async def _raise_status(self, call: Call, raw: aiohttp.ClientResponse) -> NoReturn:
        error = error_from_response(
            status=raw.status,
            headers=raw.headers,
            body=await _read_refusal(raw),
            method=call.method,
            url=call.url,
            replayable=call.safe,
            key=self._key,
        )
        call.on_the_wire = False
        if error.code is not None and error.code in call.refused_by:
            error.ambiguous = False
        elif raw.status >= 500 or raw.status == 408:
            call.perhaps_done = True
        if error.retry_after is not None and raw.status in (429, 503):
            self._gate.close_for(min(error.retry_after, MAX_RETRY_AFTER))
        if raw.status == 401 and (elsewhere := _moved_to(raw)):
            error.hint = f"it redirects to {elsewhere}, where the key is not sent: use that address"
        raise error

    def _raise_fault(self, call: Call, fault: Fault | None, error: Exception) -> NoReturn:
        call.on_the_wire = False
        if fault is None:
            raise error
        call.perhaps_done = call.perhaps_done or fault.arrived
        raise fault.to_error(method=call.method, url=call.url, safe=call.safe) from without_request(
            error
        )


async def _read(raw: aiohttp.ClientResponse, call: Call) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in raw.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER:
            raw.close()
            raise ProtocolError(
                f"the answer to {call.method} {call.url} is larger than {_MAX_ANSWER >> 20} MiB",
                status=raw.status,
                method=call.method,
                url=call.url,
            )
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _read_refusal(raw: aiohttp.ClientResponse) -> bytes:
    """Read what there is of the body of a refusal; that it breaks off or never ends is no news."""
    body = bytearray()
    whole = False
    with anyio.move_on_after(_REFUSAL_SECONDS):
        try:
            async for piece in raw.content.iter_any():
                body += piece
                if len(body) > _MAX_REFUSAL:
                    break
            else:
                whole = True
        except aiohttp.ClientError:
            pass  # the status alone already says what happened
    if whole:
        raw.release()
    else:
        raw.close()
    return bytes(body)


def _refuse_changed(raw: aiohttp.ClientResponse, call: Call) -> None:
    """Refuse a redirect that made a GET of the request: its answer would be that of another one.

    HTTP says so of 301, 302 and 303. They are met where an address begins with http and not https.
    """
    if raw.method == call.method:
        return
    raw.close()
    status = raw.history[0].status
    raise ProtocolError(
        f"HTTP {status} for {call.method} {call.url}: it redirects elsewhere, which drops the body",
        status=status,
        method=call.method,
        url=call.url,
        ambiguous=status == 303,  # which is how a POST that was carried out may be answered
        hint=f"use the address that it redirects to: {raw.url.origin()}",
    )


def _moved_to(raw: aiohttp.ClientResponse) -> str | None:
    """Return the host that a redirect led to, None where it stayed on its own."""
    if not raw.history or raw.history[0].url.origin() == raw.url.origin():
        return None
    return str(raw.url.origin())
