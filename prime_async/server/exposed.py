"""Requests that are for a port of a sandbox, not for this platform: found by their address.

An exposed port has two addresses with the same word that cannot be guessed: a path of this server,
which every client can reach, and a host name below `localhost`, which gives a page an origin of
its own. A page under the path is told to be of no origin, so that it shares nothing with the
platform or with other pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict

from prime_async.server.endpoints import ROUTE
from prime_async.server.failures import RequestError
from prime_async.server.origins import require_host
from prime_async.server.platform import PLATFORM, Platform
from prime_async.server.sandboxes.forwarding import forward

__all__ = ["EXPOSED", "serve_exposed"]

EXPOSED = "/exposed/{word}"
"""What logs and metrics show: whoever knows an address may use it."""

_PATH = re.compile(r"/exposed/([^/?]{1,128})(/[^?]*)?")
_HOST = re.compile(r"([a-z0-9-]{20,63})\.localhost(?::\d+)?", re.IGNORECASE)
_NO_ORIGIN = {
    "Content-Security-Policy": "sandbox allow-scripts allow-forms allow-popups allow-modals "
    "allow-downloads"
}


@web.middleware
async def serve_exposed(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Pass a request for an exposed port on; any other one goes its way."""
    by_host = _HOST.fullmatch(request.headers.get(hdrs.HOST, ""))
    by_path = _PATH.match(request.rel_url.raw_path)
    if by_host is None and by_path is None:
        return await handler(request)
    request[ROUTE] = EXPOSED
    if by_host is not None:
        return await _pass_on(request, by_host[1].lower(), request.rel_url.raw_path, {})
    assert by_path is not None
    require_host(request)
    return await _pass_on(request, by_path[1], by_path[2] or "/", _NO_ORIGIN)


async def _pass_on(
    request: web.Request, word: str, path: str, added: Mapping[str, str]
) -> web.StreamResponse:
    platform = request.app[PLATFORM]
    row = platform.sandboxes.exposures.find(word)
    live = None if row is None else platform.sandboxes.fleet.use(row["sandbox_id"])
    if row is None or live is None or row["protocol"] != "HTTP":
        raise RequestError(404, "not_exposed", "no port of a sandbox has this address any more")
    query = request.rel_url.raw_query_string
    target = f"{path}?{query}" if query else path
    headers = _headers(request, platform)
    return await forward(request, live.ports, row["port"], target, headers, added)


def _headers(request: web.Request, platform: Platform) -> CIMultiDict[str]:
    """What of the request's headers goes along: never a key of this platform."""
    headers = CIMultiDict(request.headers)
    try:
        platform.keys.caller(headers.get(hdrs.AUTHORIZATION))
    except RequestError:
        return headers
    del headers[hdrs.AUTHORIZATION]
    return headers
