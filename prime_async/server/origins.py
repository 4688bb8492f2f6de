"""Keeps web pages out: a page that a browser shows must not talk to the platform on the same
machine.

A page can make its own name resolve to 127.0.0.1 (DNS rebinding), so the ``Host`` header has to
name this machine; and a page's requests carry its ``Origin``, which has to be the platform itself.
The unix socket is out of a browser's reach and exempt from both.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from prime_async.server.config import is_loopback
from prime_async.server.failures import RequestError
from prime_async.server.platform import PLATFORM

__all__ = ["check_origin", "require_host"]


@web.middleware
async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests whose ``Host`` or ``Origin`` is not this platform."""
    if not _over_unix_socket(request):
        host = require_host(request)
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host:
            raise RequestError(
                403, "origin_refused", "web pages of other origins may not use this platform"
            )
    return await handler(request)


def require_host(request: web.Request) -> str:
    """The ``Host`` of a request, which has to be this machine.

    Raises:
        RequestError: 400, there is not one; 403, it is another name.
    """
    sent = request.headers.getall("Host", [])
    if len(sent) != 1:
        raise RequestError(400, "bad_host", "a request needs exactly one Host header")
    host = sent[0].strip().lower()
    name = _name(host)
    config = request.app[PLATFORM].config
    if not (is_loopback(name) or name in config.allowed_hosts or name == config.host.lower()):
        raise RequestError(403, "host_refused", "this platform does not answer to that host name")
    return host


def _name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.rpartition(":")[0] if ":" in host else host


def _over_unix_socket(request: web.Request) -> bool:
    transport = request.transport
    if transport is None:
        return False
    own: socket.socket | None = transport.get_extra_info("socket")
    return own is not None and own.family == getattr(socket, "AF_UNIX", None)
