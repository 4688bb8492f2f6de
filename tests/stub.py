"""STUB of the field reports: a local HTTP server that logs every request and misbehaves as told.

    async with Stub() as stub:                       # in the loop of the test
        stub.script(Answer(429, headers={"Retry-After": "1"}), Answer(json={"ok": True}))
        ...
        assert [request.method for request in stub.requests] == ["GET", "GET"]

    with stub_in_thread() as stub:                   # for sync clients and loop-lag checks
        ...

Answers come from, in this order: the script (each used once), the routes, the default. The stub is
an HTTP proxy too: an absolute target is answered like its own path, CONNECT leads to ``tunnel_to``.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json as jsonlib
import re
import ssl as ssllib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from multidict import CIMultiDict

from tests import http1

__all__ = ["Answer", "Handler", "Request", "Stub", "stub_in_thread"]


@dataclass(slots=True)
class Request:
    """One request as it arrived."""

    number: int
    connection: int
    time: float
    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes = b""
    complete: bool = False

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def json(self) -> Any:
        """Decode the body as strict JSON: NaN and infinities are errors."""
        return jsonlib.loads(self.body, parse_constant=_refuse_constant)

    @property
    def proxy_login(self) -> tuple[str, str] | None:
        """Name and password in ``Proxy-Authorization``."""
        return _basic(self.headers.get("Proxy-Authorization"))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _basic(value: str | None) -> tuple[str, str] | None:
    if value is None or not value.startswith("Basic "):
        return None
    name, _, password = base64.b64decode(value[6:]).decode().partition(":")
    return name, password


@dataclass(frozen=True, slots=True)
class Answer:
    """What to answer, and how to break it.

    Attributes:
        body: sent as it is; ``json`` is encoded instead when given.
        pieces: body in pieces, sent chunked; a number between them is a pause in seconds.
        delay: seconds before the head.
        length: a Content-Length other than the true one.
        end: after the body: "keep" the connection, "close" it, "cut" it (FIN, whatever was
            promised), "reset" it or stay "silent" for as long as the client waits.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    json: Any = None
    pieces: Sequence[bytes | float] | None = None
    delay: float = 0.0
    length: int | None = None
    end: Literal["keep", "close", "cut", "reset", "silent"] = "keep"

    def encoded(self) -> bytes:
        """Return the body in one piece."""
        return self.body if self.json is None else jsonlib.dumps(self.json).encode()


NOTHING = Answer(status=0, end="cut")
"""Close without a word, once the request has arrived."""

Handler = Answer | Callable[[Request], Answer | Awaitable[Answer]]


@dataclass(slots=True)
class _Route:
    method: str
    path: re.Pattern[str]
    handler: Handler

    def matches(self, request: Request) -> bool:
        return self.method in ("*", request.method) and bool(self.path.fullmatch(request.path))


class Stub:
    """The server. Loopback, a free port.

    Attributes:
        requests: every request, in order of arrival.
        connections: how many connections were accepted so far.
        open_connections: how many are open now.
        keep_bodies: False keeps the lengths out of memory: bodies are read and dropped.
        default: the answer where neither script nor route has one.
        tunnel_to: where CONNECT leads, whatever host it names; None refuses it (502).
        proxy_login: name and password a proxy request must carry, else 407.
    """

    def __init__(self, *, ssl: ssllib.SSLContext | None = None, keep_bodies: bool = True) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.open_connections = 0
        self.keep_bodies = keep_bodies
        self.default: Handler = Answer(json={})
        self.tunnel_to: tuple[str, int] | None = None
        self.proxy_login: tuple[str, str] | None = None
        self._ssl = ssl
        self._script: list[Handler] = []
        self._routes: list[_Route] = []
        self._tasks: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self._arrival = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}"

    def script(self, *answers: Handler) -> None:
        """Answer the next requests with these, one each, before any route is asked."""
        self._script.extend(answers)

    def route(self, method: str, path: str, handler: Handler) -> None:
        """Answer requests whose path matches the whole pattern; the newest route wins.

        ``*`` stands for any method.
        """
        self._routes.insert(0, _Route(method, re.compile(path), handler))

    def seen(self, method: str, path: str) -> list[Request]:
        """Return the requests of one kind so far; ``path`` is a pattern for the whole path."""
        wanted = _Route(method, re.compile(path), self.default)
        return [request for request in self.requests if wanted.matches(request)]

    async def wait_for(self, count: int, *, timeout: float = 5.0) -> None:
        """Wait until this many requests have arrived (in the stub's own loop only)."""
        async with asyncio.timeout(timeout), self._arrival:
            await self._arrival.wait_for(lambda: len(self.requests) >= count)

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(
            self._connection,
            "127.0.0.1",
            self.port,
            ssl=self._ssl,
            limit=http1.WINDOW,
            backlog=1024,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
        for task, writer in self._tasks.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = writer
        number = self.connections = self.connections + 1
        self.open_connections += 1
        try:
            while await self._exchange(number, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssllib.SSLError):
            pass  # the client went away, which is its right
        except asyncio.CancelledError:
            pass  # by `aclose`; the streams of Python 3.11 would log it as a failure
        finally:
            self.open_connections -= 1
            self._tasks.pop(task, None)
            writer.close()

    async def _exchange(
        self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Serve one request; tell whether the connection can carry another."""
        head = await http1.read_head(reader)
        if head is None:
            return False
        request = await self._log(connection, head)
        if request.method == "CONNECT":
            await self._tunnel(request, reader, writer)
            return False
        parts = [piece async for piece in http1.iter_body(reader, head) if self.keep_bodies]
        request.body = b"".join(parts)
        request.complete = True
        if "://" in request.target and not self._proxy_allowed(request):
            answer = _PROXY_LOGIN_NEEDED
        else:
            answer = await self._choose(request)
        again = await _send(answer, request, writer)
        if answer.end == "silent":
            await reader.read()  # until the client leaves
        return again

    async def _log(self, connection: int, head: http1.Head) -> Request:
        request = Request(
            number=len(self.requests),
            connection=connection,
            time=time.monotonic(),
            method=head.method,
            target=head.target,
            headers=head.headers,
        )
        async with self._arrival:
            self.requests.append(request)
            self._arrival.notify_all()
        return request

    async def _choose(self, request: Request) -> Answer:
        handler: Handler = self.default
        if self._script:
            handler = self._script.pop(0)
        else:
            for route in self._routes:
                if route.matches(request):
                    handler = route.handler
                    break
        if isinstance(handler, Answer):
            return handler
        answer = handler(request)
        return answer if isinstance(answer, Answer) else await answer

    def _proxy_allowed(self, request: Request) -> bool:
        return self.proxy_login is None or request.proxy_login == self.proxy_login

    async def _tunnel(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        request.complete = True
        if not self._proxy_allowed(request):
            await _send(_PROXY_LOGIN_NEEDED, request, writer)
            return
        if self.tunnel_to is None:
            await _send(Answer(502), request, writer)
            return
        far_reader, far_writer = await asyncio.open_connection(*self.tunnel_to)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pipe(reader, far_writer))
                group.create_task(_pipe(far_reader, writer))
        except* ConnectionError:
            pass  # either end may hang up at any time
        finally:
            far_writer.close()


_PROXY_LOGIN_NEEDED = Answer(407, headers={"Proxy-Authenticate": 'Basic realm="stub"'})


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(http1.WINDOW):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _send(answer: Answer, request: Request, writer: asyncio.StreamWriter) -> bool:
    if answer.delay:
        await asyncio.sleep(answer.delay)
    if answer.status:
        await _write(answer, request, writer)
    if answer.end == "reset":
        http1.reset(writer)
    return answer.end == "keep" and request.headers.get("Connection", "").lower() != "close"


async def _write(answer: Answer, request: Request, writer: asyncio.StreamWriter) -> None:
    headers = CIMultiDict(answer.headers)
    if answer.json is not None:
        headers.setdefault("Content-Type", "application/json")
    body = answer.encoded()
    if answer.pieces is not None:
        headers.setdefault("Transfer-Encoding", "chunked")
    elif answer.status != 204:
        headers.setdefault(
            "Content-Length", str(len(body) if answer.length is None else answer.length)
        )
    writer.write(http1.encode_head(http1.status_line(answer.status), headers.items()))
    if request.method != "HEAD":
        await _write_body(answer, body, writer)
    await writer.drain()


async def _write_body(answer: Answer, body: bytes, writer: asyncio.StreamWriter) -> None:
    if answer.pieces is None:
        writer.write(body)
        return
    for piece in answer.pieces:
        if isinstance(piece, bytes):
            writer.write(http1.chunk(piece))
            await writer.drain()
        else:
            await asyncio.sleep(piece)
    if answer.end in ("keep", "close"):
        writer.write(http1.chunk(b""))


@contextlib.contextmanager
def stub_in_thread(stub: Stub | None = None) -> Iterator[Stub]:
    """Run a stub on a loop of its own in a thread of its own."""
    stub = stub or Stub()
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with stub:
            started.set()
            await stop.wait()

    thread = threading.Thread(
        target=lambda: asyncio.Runner(loop_factory=lambda: loop).run(serve()), name="stub"
    )
    thread.start()
    try:
        if not started.wait(5):
            raise RuntimeError("the stub did not start")
        yield stub
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        loop.close()
