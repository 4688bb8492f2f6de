"""The fault proxy: sits between any client and any server and breaks exchanges by plan.

    plan = FaultPlan([Break("reset", Moment.EXECUTED)])
    async with FaultProxy(("127.0.0.1", server.port), plan) as proxy:
        ...                                  # talk to proxy.url
        assert proxy.exchanges[0].executed   # the server did it, the client never heard

It works on the bytes of HTTP/1.1, streams both bodies, and keeps what the server learned apart from
what the client saw. With ``ssl`` it ends TLS itself; the server behind it is spoken to in the clear
(or through a unix socket).
"""

from __future__ import annotations

import asyncio
import gzip
import ssl as ssllib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self

from multidict import CIMultiDict

from tests import http1
from tests.faults.plan import (
    BadGzip,
    Break,
    Delay,
    Fault,
    FaultPlan,
    Garbage,
    How,
    Moment,
    SlowBody,
    Status,
    WrongCertificate,
    WrongLength,
)

__all__ = ["Exchange", "FaultProxy"]

_GARBAGE = b"220 mail.test ESMTP ready\r\n\r\n"


@dataclass(slots=True)
class Exchange:
    """One request that came through.

    Attributes:
        forwarded: bytes of its body that the server got.
        executed: True once the server's whole answer was here.
        status: the server's status, or None when it was never asked or never answered.
    """

    method: str
    target: str
    fault: Fault | None
    forwarded: int = 0
    executed: bool = False
    status: int | None = None


class _Broken(Exception):
    """Ends the connection after a fault."""


class FaultProxy:
    """The proxy. Loopback, a free port.

    Args:
        upstream: host and port, or the path of a unix socket.
        plan: what happens to whom; may be changed while running.
        ssl: serve TLS with this context.

    Attributes:
        exchanges: every request, in order of arrival.
        connections: connections accepted so far.
    """

    def __init__(
        self,
        upstream: tuple[str, int] | str,
        plan: FaultPlan | None = None,
        *,
        ssl: ssllib.SSLContext | None = None,
    ) -> None:
        self.upstream = upstream
        self.plan = plan or FaultPlan()
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.port = 0
        self._ssl = ssl
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen; again on the same port after :meth:`aclose`."""
        self._server = await asyncio.start_server(
            self._connection, "127.0.0.1", self.port, limit=http1.WINDOW
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Stop listening (connecting is refused from here on) and drop every connection."""
        if self._server is not None:
            self._server.close()
        open_now = dict(self._open)
        for task, writer in open_now.items():
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*open_now, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        self.connections += 1
        pipe = _Pipe(reader, writer, self.upstream)
        try:
            await self._handshake(pipe)
            while (head := await http1.read_head(reader)) is not None:
                fault = self.plan.for_request(head)
                exchange = Exchange(head.method, head.target, fault)
                self.exchanges.append(exchange)
                await pipe.carry(head, exchange)
        except (ConnectionError, asyncio.IncompleteReadError, ssllib.SSLError, _Broken):
            pass  # one side is gone, by its own choice or by plan
        except asyncio.CancelledError:
            # Only `aclose` cancels this. The streams of Python 3.11 take a handler that ends so for
            # one that failed, and log it.
            pass
        finally:
            self._open.pop(task, None)
            pipe.close()

    async def _handshake(self, pipe: _Pipe) -> None:
        fault = self.plan.for_connection()
        if isinstance(fault, Break):
            await pipe.break_off(fault.how)
        context = fault.context if isinstance(fault, WrongCertificate) else self._ssl
        if context is not None:
            await pipe.writer.start_tls(context)


class _Pipe:
    """A client connection and the server connection behind it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        upstream: tuple[str, int] | str,
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._upstream = upstream
        self._far: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def close(self) -> None:
        if self._far is not None:
            self._far[1].close()
        self.writer.close()

    async def carry(self, head: http1.Head, exchange: Exchange) -> None:
        """Take one request over and its answer back."""
        fault = exchange.fault
        if isinstance(fault, Break) and fault.at is Moment.REQUEST_HEAD:
            await self.break_off(fault.how)
        if isinstance(fault, Status) and not fault.executed:
            async for _ in http1.iter_body(self.reader, head):
                pass
            await self._answer(fault, head)
            return
        if isinstance(fault, Delay) and not fault.executed:
            await asyncio.sleep(fault.seconds)
        await self._forward(head, exchange)
        await self._return(head, exchange)

    async def _forward(self, head: http1.Head, exchange: Exchange) -> None:
        far = await self._connect()
        far.write(http1.encode_head(head.first, head.headers.items()))
        chunked = "Transfer-Encoding" in head.headers
        stop = _stop_after(exchange.fault, Moment.REQUEST_BODY)
        try:
            async for piece in http1.iter_body(self.reader, head):
                sent = piece if stop is None else piece[: stop - exchange.forwarded]
                far.write(http1.chunk(sent) if chunked and sent else sent)
                exchange.forwarded += len(sent)
                await far.drain()
                if stop is not None and exchange.forwarded >= stop:
                    break
            else:
                if chunked:
                    far.write(http1.chunk(b""))
        except ConnectionError:
            # The server may refuse before it has read all; its answer may be here nevertheless.
            return
        if stop is not None:
            await self._break_in_request(exchange.fault)

    async def _break_in_request(self, fault: Fault | None) -> None:
        assert isinstance(fault, Break)
        if fault.how != "silence" and self._far is not None:
            http1.reset(self._far[1])
        await self.break_off(fault.how)

    async def _return(self, head: http1.Head, exchange: Exchange) -> None:
        assert self._far is not None
        answer = await http1.read_head(self._far[0])
        if answer is None:
            raise _Broken
        exchange.status = answer.status
        pieces = http1.iter_body(self._far[0], answer, request_method=head.method)
        fault = exchange.fault
        if fault is None or isinstance(fault, SlowBody):
            exchange.executed = True
            await self._deliver(answer, pieces, head, fault)
            return
        body = b"".join([piece async for piece in pieces])
        exchange.executed = True
        await self._return_broken(answer, body, head, fault)

    async def _return_broken(
        self, answer: http1.Head, body: bytes, head: http1.Head, fault: Fault
    ) -> None:
        if isinstance(fault, Status):
            await self._answer(fault, head)
        elif isinstance(fault, Break):
            await self._break_in_answer(answer, body, fault)
        elif isinstance(fault, Garbage):
            self.writer.write(fault.data)
            await self.writer.drain()
            raise _Broken
        else:
            if isinstance(fault, Delay):
                await asyncio.sleep(fault.seconds)
            elif isinstance(fault, BadGzip):
                body = _bad_gzip(body, fault)
                answer.headers["Content-Encoding"] = "gzip"
            delta = fault.delta if isinstance(fault, WrongLength) else 0
            await self._write(answer, body, length=len(body) + delta)
            if delta > 0:
                await self._until_gone()

    async def _break_in_answer(self, answer: http1.Head, body: bytes, fault: Break) -> None:
        head = http1.encode_head(answer.first, _sized(answer, len(body)).items())
        shown = {
            Moment.EXECUTED: b"",
            Moment.RESPONSE_HEAD: head[: fault.after],
            Moment.RESPONSE_BODY: head + body[: fault.after],
            Moment.RESPONSE_END: head + body,
        }[fault.at]
        self.writer.write(shown)
        await self.writer.drain()
        await self.break_off(fault.how)

    async def _deliver(
        self,
        answer: http1.Head,
        pieces: AsyncIterator[bytes],
        head: http1.Head,
        fault: SlowBody | None,
    ) -> None:
        """Pass an answer on as it comes."""
        sized = (
            "Content-Length" in answer.headers
            or head.method == "HEAD"
            or answer.status in (204, 304)
        )
        if not sized:
            answer.headers["Transfer-Encoding"] = "chunked"
        self.writer.write(http1.encode_head(answer.first, answer.headers.items()))
        async for piece in _slowed(pieces, fault):
            self.writer.write(piece if sized else http1.chunk(piece))
            await self.writer.drain()
        if not sized:
            self.writer.write(http1.chunk(b""))
        await self.writer.drain()

    async def _write(self, answer: http1.Head, body: bytes, *, length: int) -> None:
        self.writer.write(http1.encode_head(answer.first, _sized(answer, length).items()) + body)
        await self.writer.drain()

    async def _answer(self, fault: Status, head: http1.Head) -> None:
        answer = http1.Head(http1.status_line(fault.status))
        answer.headers["Content-Type"] = fault.content_type
        if fault.retry_after is not None:
            answer.headers["Retry-After"] = fault.retry_after
        body = b"" if head.method == "HEAD" else fault.body
        await self._write(answer, body, length=len(fault.body))

    async def _connect(self) -> asyncio.StreamWriter:
        if self._far is None:
            if isinstance(self._upstream, str):
                self._far = await asyncio.open_unix_connection(self._upstream, limit=http1.WINDOW)
            else:
                self._far = await asyncio.open_connection(*self._upstream, limit=http1.WINDOW)
        return self._far[1]

    async def break_off(self, how: How) -> None:
        """End the client's connection; never returns."""
        if how == "silence":
            await self._until_gone()
        elif how == "reset":
            http1.reset(self.writer)
        elif how == "garbage":
            self.writer.write(_GARBAGE)
            await self.writer.drain()
        raise _Broken

    async def _until_gone(self) -> None:
        while await self.reader.read(http1.WINDOW):
            pass
        raise _Broken


def _stop_after(fault: Fault | None, at: Moment) -> int | None:
    return fault.after if isinstance(fault, Break) and fault.at is at else None


def _sized(answer: http1.Head, length: int) -> CIMultiDict[str]:
    headers = answer.headers.copy()
    headers.pop("Transfer-Encoding", None)
    headers["Content-Length"] = str(length)
    return headers


def _bad_gzip(body: bytes, fault: BadGzip) -> bytes:
    if fault.kind == "plain":
        return body
    packed = gzip.compress(body)
    if fault.kind == "short":
        return packed[: len(packed) // 2]
    middle = len(packed) // 2
    return packed[:middle] + bytes(byte ^ 0xFF for byte in packed[middle:-8]) + packed[-8:]


async def _slowed(pieces: AsyncIterator[bytes], fault: SlowBody | None) -> AsyncIterator[bytes]:
    async for piece in pieces:
        if fault is None:
            yield piece
            continue
        for start in range(0, len(piece), fault.piece):
            yield piece[start : start + fault.piece]
            await asyncio.sleep(fault.pause)
