"""Reads ``multipart/form-data`` piece by piece: headers as soon as they are whole, content at once.

No I/O: :meth:`MultipartReader.feed` takes bytes as they arrive and tells a :class:`PartSink` what
they mean. It never holds more than one piece and one set of part headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.message import Message
from typing import Protocol

__all__ = ["MultipartError", "MultipartReader", "PartSink", "boundary_of"]

HEADER_BYTES = 16 * 1024
"""Headers of one part."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class MultipartError(ValueError):
    """The body is not what its Content-Type says, or it is cut short."""


class PartSink(Protocol):
    """What becomes of the parts."""

    def begin(self, name: str, headers: Mapping[str, str]) -> None:
        """A part begins; header names are in lower case."""

    def content(self, piece: bytes) -> None:
        """More of the part that began last."""

    def end(self) -> None:
        """The part is whole."""


def boundary_of(content_type: str) -> bytes:
    """The boundary in a ``Content-Type``.

    Raises:
        MultipartError: it is not ``multipart/form-data`` with a boundary.
    """
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_boundary()
    if message.get_content_type() != "multipart/form-data" or not boundary:
        raise MultipartError("the body must be multipart/form-data with a boundary")
    if len(boundary) > 200 or not boundary.isascii():
        raise MultipartError("the boundary must be at most 200 ASCII characters")
    return boundary.encode("ascii")


class MultipartReader:
    """One body; made for its boundary."""

    def __init__(self, boundary: bytes, sink: PartSink) -> None:
        self._delimiter = b"\r\n--" + boundary
        self._sink = sink
        # A line break before the first boundary makes it look like the others.
        self._buffer = b"\r\n"
        self._state = self._preamble

    def feed(self, piece: bytes) -> None:
        """Take the next bytes.

        Raises:
            MultipartError: they cannot follow the ones before.
        """
        self._buffer += piece
        while self._state():
            continue

    def close(self) -> None:
        """No more bytes come.

        Raises:
            MultipartError: the last boundary has not been seen.
        """
        if self._state != self._epilogue:
            raise MultipartError("the multipart body is cut short")

    # Each state takes what it can from the buffer and says whether another one may go on.

    def _preamble(self) -> bool:
        place = self._buffer.find(self._delimiter)
        if place < 0:
            if len(self._buffer) > HEADER_BYTES:
                raise MultipartError("the body does not begin with its boundary")
            return False
        self._buffer = self._buffer[place + len(self._delimiter) :]
        self._state = self._after_boundary
        return True

    def _after_boundary(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if self._buffer.startswith(b"--"):
            self._state = self._epilogue
            return True
        line, found, rest = self._buffer.partition(b"\r\n")
        if line.strip(b" \t") or len(line) > HEADER_BYTES:
            raise MultipartError("a boundary must end its line")
        if not found:
            return False
        # The line break stays, so that a part without headers has its blank line too.
        self._buffer = b"\r\n" + rest
        self._state = self._headers
        return True

    def _headers(self) -> bool:
        place = self._buffer.find(b"\r\n\r\n")
        if place < 0:
            if len(self._buffer) > HEADER_BYTES:
                raise MultipartError("the headers of a part are too large")
            return False
        headers = _parsed(self._buffer[2:place])
        self._buffer = self._buffer[place + 4 :]
        self._sink.begin(_form_name(headers), headers)
        self._state = self._content
        return True

    def _content(self) -> bool:
        place = self._buffer.find(self._delimiter)
        if place >= 0:
            self._give(place)
            self._buffer = self._buffer[len(self._delimiter) :]
            self._sink.end()
            self._state = self._after_boundary
            return True
        # What may be the beginning of the delimiter is kept for the next piece.
        self._give(len(self._buffer) - len(self._delimiter))
        return False

    def _epilogue(self) -> bool:
        self._buffer = b""
        return False

    def _give(self, size: int) -> None:
        if size > 0:
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            self._sink.content(piece)


def _parsed(block: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in block.split(b"\r\n") if block else ():
        name, colon, value = line.partition(b":")
        if not colon or not _NAME.fullmatch(name):
            raise MultipartError("a part has a header that is none")
        try:
            headers[name.decode("ascii").lower()] = value.decode("utf-8").strip()
        except UnicodeDecodeError:
            raise MultipartError("a part has a header that is not UTF-8") from None
    return headers


def _form_name(headers: Mapping[str, str]) -> str:
    message = Message()
    message["Content-Disposition"] = headers.get("content-disposition", "")
    name = message.get_param("name", header="content-disposition")
    if message.get_content_disposition() != "form-data" or not isinstance(name, str):
        raise MultipartError("a part has no form-data name")
    return name
