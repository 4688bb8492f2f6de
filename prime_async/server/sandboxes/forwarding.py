"""Passes a request on to a port of a sandbox and its answer back, streamed both ways.

Who knows the address of an exposed port may use it, so nothing of this platform goes along: not its
key, which a client may send everywhere out of habit, and not its place on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
import anyio
from aiohttp import WSMsgType, hdrs, web
from multidict import CIMultiDict
from yarl import URL

from prime_async.server.failures import RequestError
from prime_async.server.runtimes.errors import SandboxRuntimeError
from prime_async.server.sandboxes.ports import Ports

__all__ = ["Forwarded", "forward"]

_PIECE = 64 * 1024
_MESSAGE_BYTES = 16 * 1024 * 1024
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OF_WEBSOCKET = "sec-websocket-"


class Forwarded(web.StreamResponse):
    """An answer of a sandbox: its headers are its own."""


async def forward(
    request: web.Request,
    ports: Ports,
    port: int,
    target: str,
    headers: CIMultiDict[str],
    added: Mapping[str, str],
) -> web.StreamResponse:
    """Pass a request on.

    Args:
        target: path and query as the sandbox shall see them, as they were sent.
        headers: those of the request that may go along.
        added: headers of the answer beside those of the sandbox.

    Raises:
        RequestError: 502, nothing answers there as a server should; 504, not in time.
        ConnectionResetError: the answer broke off.
    """
    url = URL(f"http://localhost:{port}{target}", encoded=True)
    try:
        with ports.stream():
            if _wants_websocket(request):
                return await _websocket(request, ports, port, url, headers)
            return await _exchange(request, ports, port, url, headers, added)
    except (aiohttp.ClientError, SandboxRuntimeError) as error:
        raise RequestError(
            502, "port_not_answering", f"nothing in the sandbox answers on port {port} ({error})"
        ) from error
    except TimeoutError as error:
        raise RequestError(
            504, "port_timeout", f"port {port} of the sandbox did not take the connection in time"
        ) from error


async def _exchange(
    request: web.Request,
    ports: Ports,
    port: int,
    url: URL,
    headers: CIMultiDict[str],
    added: Mapping[str, str],
) -> web.StreamResponse:
    body = request.content if request.body_exists else None
    async with ports.session(port).request(
        request.method,
        url,
        headers=_outgoing(request, headers, port),
        data=body,
        allow_redirects=False,
    ) as inner:
        answered = _end_to_end(inner.headers)
        answered.extend(added)
        response = Forwarded(status=inner.status, reason=inner.reason, headers=answered)
        await response.prepare(request)
        async for piece in inner.content.iter_chunked(_PIECE):
            await response.write(piece)
        if ports.ended and not _has_an_end(inner.headers):
            raise ConnectionResetError("the sandbox ended before its answer did")
        await response.write_eof()
    return response


def _has_an_end(headers: Mapping[str, str]) -> bool:
    """Whether an answer says where it ends; else it ends with its connection, for any reason."""
    chunked = "chunked" in headers.get(hdrs.TRANSFER_ENCODING, "").lower()
    return chunked or hdrs.CONTENT_LENGTH in headers


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The headers that are for the other end, not for the next hop."""
    named = {name.strip().lower() for name in headers.get(hdrs.CONNECTION, "").split(",")}
    dropped = _HOP_BY_HOP | named
    kept = [(name, value) for name, value in headers.items() if name.lower() not in dropped]
    return CIMultiDict(kept)


def _outgoing(request: web.Request, headers: CIMultiDict[str], port: int) -> CIMultiDict[str]:
    """The headers a server in the sandbox sees: it is asked under its own name."""
    sent = _end_to_end(headers)
    own = f"localhost:{port}"
    origin = sent.get(hdrs.ORIGIN)
    if origin is not None and urlsplit(origin).netloc.lower() == request.host.lower():
        sent[hdrs.ORIGIN] = f"http://{own}"
    sent[hdrs.HOST] = own
    sent["X-Forwarded-Host"] = request.host
    sent["X-Forwarded-Proto"] = request.scheme
    return sent


def _wants_websocket(request: web.Request) -> bool:
    upgrade = request.headers.get(hdrs.UPGRADE, "").lower()
    return request.method == "GET" and upgrade == "websocket"


async def _websocket(
    request: web.Request, ports: Ports, port: int, url: URL, headers: CIMultiDict[str]
) -> web.StreamResponse:
    asked = request.headers.get(hdrs.SEC_WEBSOCKET_PROTOCOL, "")
    protocols = [one.strip() for one in asked.split(",") if one.strip()]
    sent = _outgoing(request, headers, port)
    kept = CIMultiDict(
        (name, value) for name, value in sent.items() if not name.lower().startswith(_OF_WEBSOCKET)
    )
    async with ports.session(port).ws_connect(
        url, headers=kept, protocols=protocols, max_msg_size=_MESSAGE_BYTES
    ) as inner:
        chosen = () if inner.protocol is None else (inner.protocol,)
        outer = web.WebSocketResponse(protocols=chosen, max_msg_size=_MESSAGE_BYTES)
        await outer.prepare(request)
        async with anyio.create_task_group() as group:
            group.start_soon(_pump, outer, inner, group.cancel_scope)
            await _pump(inner, outer, group.cancel_scope)
    return outer


_Socket = aiohttp.ClientWebSocketResponse | web.WebSocketResponse


async def _pump(source: _Socket, sink: _Socket, both: anyio.CancelScope) -> None:
    """Pass messages on until one side is done, and end the other with the same words."""
    try:
        async for message in source:
            if message.type is WSMsgType.TEXT:
                await sink.send_str(message.data)
            elif message.type is WSMsgType.BINARY:
                await sink.send_bytes(message.data)
        await sink.close(code=source.close_code or 1000)
    except (ConnectionError, RuntimeError):
        # The other side is gone, or is closing already.
        await source.close()
    both.cancel()
