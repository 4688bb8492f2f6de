"""The platform about itself: health, counters, and its own description."""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct

from prime_async._version import __version__
from prime_async.server.answers import Answer, answer
from prime_async.server.endpoints import Call, Endpoint, Reply

__all__ = ["ENDPOINTS", "Health"]


class Health(Struct, kw_only=True):
    """Answer of the health check; ``instance`` is new at every start, ``live`` counts what a
    restart would disturb.
    """

    status: str
    version: str
    instance: str
    live: int = 0


async def health(call: Call) -> Reply:
    """Say that the platform is up."""
    platform = call.platform
    live = len(platform.sandboxes.fleet.live)
    return answer(Health(status="ok", version=__version__, instance=platform.instance, live=live))


async def metrics(call: Call) -> Reply:
    """Give the counters in Prometheus' text format."""
    return web.Response(
        body=call.platform.metrics.text(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def openapi(call: Call) -> Reply:
    """Give the OpenAPI document."""
    # Built from the tables of all routes, this one among them: imported when it is asked for.
    from prime_async.server.openapi import document_bytes

    return Answer(200, await call.platform.in_thread(document_bytes))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/healthz", health, "Health check", {200: Health}, auth=False),
    Endpoint("GET", "/metrics", metrics, "Counters for Prometheus", {200: str}),
    Endpoint("GET", "/openapi.json", openapi, "This document", {200: dict}, auth=False),
)
