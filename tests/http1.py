"""HTTP/1.1 at the level of bytes: the part that the stub and the fault proxy share.

A real HTTP library refuses to write a wrong length or half a head, and that is what a fault is.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

from multidict import CIMultiDict

__all__ = [
    "WINDOW",
    "Head",
    "chunk",
    "encode_head",
    "iter_body",
    "read_head",
    "reset",
    "status_line",
]

WINDOW = 64 * 1024
"""Largest piece of a body that is held at once."""

_NO_BODY = {204, 304}


@dataclass(slots=True)
class Head:
    """The first line of a message and its headers."""

    first: str
    headers: CIMultiDict[str] = field(default_factory=CIMultiDict)

    @property
    def method(self) -> str:
        return self.first.split(" ", 2)[0]

    @property
    def target(self) -> str:
        return self.first.split(" ", 2)[1]

    @property
    def status(self) -> int:
        return int(self.first.split(" ", 2)[1])


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head; None when the peer closed between two messages."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(":")
        headers.add(name.strip(), value.strip())
    return Head(first, headers)


def encode_head(first: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Write a head."""
    lines = [first, *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def status_line(status: int) -> str:
    """Return the first line of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}"


def chunk(data: bytes) -> bytes:
    """Frame one piece of a chunked body; the empty piece ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def iter_body(
    reader: asyncio.StreamReader, head: Head, *, request_method: str | None = None
) -> AsyncIterator[bytes]:
    """Yield the body of a message without its framing.

    Args:
        request_method: set for a response: the method it answers.

    Raises:
        asyncio.IncompleteReadError: the peer closed before the end.
    """
    if "chunked" in head.headers.get("Transfer-Encoding", "").lower():
        async for piece in _iter_chunked(reader):
            yield piece
    elif "Content-Length" in head.headers:
        async for piece in _iter_sized(reader, head, request_method):
            yield piece
    elif request_method is not None and not _bodiless(head, request_method):
        while piece := await reader.read(WINDOW):
            yield piece


def _bodiless(head: Head, request_method: str) -> bool:
    return request_method == "HEAD" or head.status in _NO_BODY


async def _iter_sized(
    reader: asyncio.StreamReader, head: Head, request_method: str | None
) -> AsyncIterator[bytes]:
    if request_method is not None and _bodiless(head, request_method):
        return
    left = int(head.headers["Content-Length"])
    while left:
        piece = await reader.read(min(left, WINDOW))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


async def _iter_chunked(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        left = int(line.split(b";")[0], 16)
        if left == 0:
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            return
        while left:
            piece = await reader.read(min(left, WINDOW))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece
        await reader.readexactly(2)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN, so that the peer sees "connection reset"."""
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
