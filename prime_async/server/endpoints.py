"""Endpoints as data: what the router, the decoder and the OpenAPI document all read.

A handler gets a :class:`Call` (decoded, authenticated, path checked) and returns an answer or a
stream. Every endpoint also answers with its trailing slash, as the official clients send some
paths.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web
from sqlalchemy import Connection

from prime_async.server.answers import Answer
from prime_async.server.auth import Caller
from prime_async.server.bodies import body as read_body
from prime_async.server.decoding import decode_body, decode_query
from prime_async.server.failures import RequestError, invalid
from prime_async.server.identifiers import fits
from prime_async.server.platform import PLATFORM, Platform
from prime_async.server.store.idempotency import IdempotencyKey, once

__all__ = ["ACCOUNT", "ROUTE", "Call", "Endpoint", "Header", "Reply", "resources_of"]

Reply = Answer | web.StreamResponse
Handler = Callable[["Call"], Awaitable[Reply]]

ROUTE: web.RequestKey[str] = web.RequestKey("route", str)
"""The route's template, for logs and metrics."""

ACCOUNT: web.RequestKey[str] = web.RequestKey("account", str)
"""The id of the account that asks, for logs."""

JSON = "application/json"

_LARGE = 128 * 1024


@dataclass(frozen=True, slots=True)
class Header:
    """A request header that an endpoint reads: its name, meaning and pattern."""

    name: str
    description: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one path.

    Attributes:
        method, path, handler: what is served; what a parameter of the path may be is told by its
            name (see :func:`prime_async.server.identifiers.pattern_of`).
        summary: one line for the OpenAPI document.
        answers: status to body type, None for no JSON body. Common errors are added for every
            endpoint.
        query, body: Structs of the query string and of the JSON body.
        body_optional: an absent body counts as ``{}``.
        streams_body: the handler reads the body itself; ``body`` only documents it.
        media: the content type of the body; other than JSON only where the handler reads it.
        other_media: further content types of it, which the handler reads.
        head: whether HEAD answers as the method does, without the body.
        auth: whether a key is needed.
        token: whether the handler checks a token of its own, in place of a key.
        headers: request headers it reads.
        ingests: whether the platform may ask who sends too many of these requests to wait.
        before: runs before the handler, once key, path and query are known to be good.
        words: puts a refusal into the words of the wire that the endpoint belongs to.
        refusal: answers a refusal in another form than the common one.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Any]
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    streams_body: bool = False
    media: str = JSON
    other_media: Sequence[str] = ()
    head: bool = False
    auth: bool = True
    token: bool = False
    headers: Sequence[Header] = field(default=())
    ingests: bool = False
    before: Callable[[Call], Awaitable[None]] | None = None
    words: Callable[[RequestError], RequestError] | None = None
    refusal: Callable[[web.Request, RequestError], web.Response] | None = None


class Call:
    """One request as its handler sees it.

    Attributes:
        platform: the running platform.
        path: the checked path parameters.
        query, body: the decoded Structs of the endpoint, or None.
        raw: the body's bytes as sent (inflated).
    """

    def __init__(self, request: web.Request, platform: Platform, endpoint: Endpoint) -> None:
        self.request = request
        self.platform = platform
        self.endpoint = endpoint
        self.path: dict[str, str] = dict(request.match_info)
        self.query: Any = None
        self.body: Any = None
        self.raw = b""
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        """Who is asking."""
        assert self._caller is not None, "the endpoint does not ask for a key"
        return self._caller

    def authenticate(self) -> None:
        """Find the caller by ``Authorization``, or by ``x-api-key``, which launchers send in its
        place; see :meth:`Keys.caller`.
        """
        sent = self.request.headers
        authorization = sent.get("Authorization")
        if authorization is None and "X-Api-Key" in sent:
            authorization = f"Bearer {sent['X-Api-Key']}"
        self._caller = self.platform.keys.caller(authorization)
        self.request[ACCOUNT] = self._caller.account.id

    @asynccontextmanager
    async def read(self, limit: int) -> AsyncIterator[bytes]:
        """Read the body within a limit; its bytes are accounted for while the block runs."""
        async with read_body(self.request, limit, self.platform) as data:
            self.raw = data
            yield data

    async def commit(self, action: Callable[[Connection], Answer], *, rows: int = 1) -> Answer:
        """Run a write; under an ``Idempotency-Key`` at most once, its answer kept for repeats."""
        key = await self._idempotency_key()
        if key is None:
            return await self.platform.database.write(action, rows=rows)
        return await self.platform.database.write(
            lambda connection: once(connection, key, action), rows=rows + 1
        )

    @property
    def key_text(self) -> str | None:
        """The ``Idempotency-Key`` of a POST; None when there is none.

        Raises:
            RequestError: 422, it is no such key.
        """
        text = self.request.headers.get("Idempotency-Key")
        if text is None or self.endpoint.method != "POST":
            return None
        if not (0 < len(text) <= 200 and text.isascii() and text.isprintable()):
            raise invalid(
                ["header", "Idempotency-Key"], "must be 1 to 200 printable ASCII characters"
            )
        return text

    async def _idempotency_key(self) -> IdempotencyKey | None:
        text = self.key_text
        if text is None:
            return None
        now = self.platform.clock.now()
        expires_at = now + self.platform.config.limits.idempotency_seconds
        return IdempotencyKey(self._scope(), text, await self._fingerprint(), now, expires_at)

    def _scope(self) -> str:
        team = getattr(self.body, "team_id", None) or self.request.query.get("team_id") or ""
        return f"{self.caller.account.id}/{team}"

    async def _fingerprint(self) -> bytes:
        sent = self.request.headers
        told = [f"{one.name}: {sent.get(one.name)}" for one in self.endpoint.headers]
        head = [f"{self.request.method} {self.request.rel_url}", *told, ""]
        digest = hashlib.sha256("\n".join(head).encode("utf-8", "surrogateescape"))
        if len(self.raw) > _LARGE:
            await self.platform.in_thread(digest.update, self.raw)
        else:
            digest.update(self.raw)
        return digest.digest()


def resources_of(prefix: str, endpoints: Sequence[Endpoint]) -> Iterator[web.Resource]:
    """Endpoints below a prefix, each with and without a trailing slash; for any application."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path.rstrip("/"), []).append(endpoint)
    for path, group in by_path.items():
        for suffix in ("", "/"):
            whole = f"{prefix}{path}{suffix}"
            resource = web.DynamicResource(whole) if "{" in whole else web.PlainResource(whole)
            for endpoint in group:
                handler = _handler(endpoint, f"{prefix}{path}")
                resource.add_route(endpoint.method, handler)
                if endpoint.head:
                    resource.add_route("HEAD", handler)
            yield resource


def _handler(
    endpoint: Endpoint, route: str
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        request[ROUTE] = route
        try:
            return await _serve(Call(request, request.app[PLATFORM], endpoint))
        except RequestError as failure:
            told = failure if endpoint.words is None else endpoint.words(failure)
            if endpoint.refusal is not None:
                return endpoint.refusal(request, told)
            if told is failure:
                raise
            raise told from failure

    return handle


async def _serve(call: Call) -> web.StreamResponse:
    endpoint = call.endpoint
    if endpoint.auth:
        call.authenticate()
        if endpoint.ingests:
            call.platform.ingest.take(call.caller.account.id)
    _check_path(call.path)
    if endpoint.query is not None:
        call.query = decode_query(call.request.query, endpoint.query)
    if endpoint.before is not None:
        await endpoint.before(call)
    if endpoint.body is not None and endpoint.media == JSON:
        _check_content_type(call.request, endpoint.other_media)
    if endpoint.body is None or endpoint.streams_body:
        return _response(await endpoint.handler(call))
    async with call.read(call.platform.config.limits.json_body_bytes) as data:
        call.body = await _decode(call, endpoint.body, data)
        return _response(await endpoint.handler(call))


async def _decode(call: Call, model: type[msgspec.Struct], data: bytes) -> msgspec.Struct:
    if not data and call.endpoint.body_optional:
        data = b"{}"
    if len(data) > _LARGE:
        return await call.platform.in_thread(decode_body, data, model)
    return decode_body(data, model)


def _check_path(path: Mapping[str, str]) -> None:
    for name, value in path.items():
        if not fits(name, value):
            raise RequestError(404, "not_found", f"nothing here has such a {name}")


def _check_content_type(request: web.Request, others: Sequence[str]) -> None:
    if "Content-Type" not in request.headers or not request.can_read_body:
        return
    kind = request.content_type
    if kind != JSON and not kind.endswith("+json") and kind not in others:
        allowed = " or ".join((JSON, *others))
        raise RequestError(415, "unsupported_media_type", f"the body must be {allowed}")


def _response(reply: Reply) -> web.StreamResponse:
    if isinstance(reply, web.StreamResponse):
        return reply
    if reply.status == 204:
        return web.Response(status=204)
    response = web.Response(
        status=reply.status, body=reply.body, content_type="application/json", charset="utf-8"
    )
    if reply.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return response
